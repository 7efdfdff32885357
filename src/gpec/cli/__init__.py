"""The command line: ``gpec demo``, ``fit``, ``explain``, ``report`` and ``app``."""

from gpec._interrupt import raise_on_interrupt
from gpec.cli import _commands as _commands  # they add themselves to the app
from gpec.cli._errors import app

__all__ = ["app"]

raise_on_interrupt()
