"""The command line: ``gpec demo``, ``fit``, ``explain``, ``report``, ``app`` and ``datasets``."""

from gpec.cli import _explain, _fit, _report, _shows
from gpec.cli._errors import app

__all__ = ["app"]

for commands in (_fit, _explain, _report, _shows):
    commands.register(app)
