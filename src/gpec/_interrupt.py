"""Ctrl-C while the program starts: imports take seconds, and a traceback from inside them would help nobody.

Only what Python has read itself when it starts is imported here.
"""

from __future__ import annotations

import os
import signal
import sys


def _exit(*_: object) -> None:
    os._exit(130)  # nothing is open yet that would need closing


def _exit_on_interrupt() -> None:
    """If this process is the command ``gpec`` or ``python -m gpec``, let Ctrl-C end it at once."""
    program = os.path.splitext(os.path.basename(sys.argv[0]))[0] if getattr(sys, "argv", None) else ""
    is_command = program == "gpec" or (program == "-m" and "gpec" in sys.orig_argv)
    if is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not if it is ignored
        signal.signal(signal.SIGINT, _exit)


def raise_on_interrupt() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, which commands report."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_exit_on_interrupt()  # when the package is imported, before all else
