"""What may be wrong with files of data sets, beside a damaged one (``gpec.errors.CorruptFileError``)."""

from gpec.errors import GPECError

__all__ = ["DownloadError", "IncompleteDataWarning"]


class DownloadError(GPECError, OSError):
    """A data file is not here and cannot be fetched."""


class IncompleteDataWarning(UserWarning):
    """Only a part of a data set is there."""
