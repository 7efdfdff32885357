"""Errors of commands: one line on stderr, and an exit code.

0 is success, 1 an error in the data, the model or the computation, 2 wrong usage, 130 a stop by Ctrl-C.
"""

from __future__ import annotations

import traceback
import warnings
from typing import Any

import typer
from typer.core import TyperGroup

from gpec.errors import GPECError

# Of click, or of typer's own copy of it.
_UsageError: Any = typer.BadParameter.__mro__[1]
_DEBUG = "gpec.debug"


def note(text: str) -> None:
    """A line for people, on stderr."""
    typer.echo(text, err=True)


def remember_debug(ctx: typer.Context, value: bool) -> bool:
    """Remember that --debug was given."""
    if value:
        ctx.meta[_DEBUG] = True
    return value


class _Commands(TyperGroup):
    """Commands whose errors are one line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return list(super().parse_args(ctx, args))
        except _UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                raise
            raise _wrong_usage(error, ctx) from error
        except KeyboardInterrupt as stop:
            raise typer.Exit(130) from stop

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            # columns are matched by name; a model that was trained without names is given them in its order
            warnings.filterwarnings("ignore", "X has feature names", UserWarning)
            try:
                return super().invoke(ctx)
            except _UsageError as error:
                raise _wrong_usage(error, ctx) from error
            except KeyboardInterrupt as stop:
                note(_line("Stopped.", stop))
                raise typer.Exit(130) from stop
            except (typer.Exit, typer.Abort):
                raise
            except Exception as error:
                if ctx.meta.get(_DEBUG):
                    note(traceback.format_exc().rstrip())
                raise _failure(error) from error


def _wrong_usage(error: Any, ctx: Any) -> typer.Exit:
    command = (error.ctx or ctx).command_path
    text = error.format_message()
    note(f"{command}: {_line(text if text.endswith(('.', '?')) else f'{text}.', error)} See {command} --help.")
    return typer.Exit(2)


def _failure(error: Exception) -> typer.Exit:
    text = str(error)
    if not isinstance(error, (GPECError, OSError)):
        text = f"{type(error).__name__}: {text or 'no message'} (run again with --debug for details)."
    note(f"gpec: {_line(text, error)}")
    return typer.Exit(1)


def _line(text: str, error: BaseException) -> str:
    """A text and what was noted about an error, in one line."""
    return " ".join(" ".join([text, *getattr(error, "__notes__", [])]).split())


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    note(f"gpec: note: {_line(str(message), Warning())}")


app = typer.Typer(cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
