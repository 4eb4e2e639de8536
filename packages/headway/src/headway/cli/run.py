"""Running the command line: errors become one sentence and an exit status, whatever the state of the streams."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn, TextIO

import click

from headway.errors import HeadwayError
from headway.exhaustion import NO_MEMORY, in_words

from .say import say

__all__ = ["exit_status", "run"]

_FAILED = 125
_INTERRUPTED = 128 + signal.SIGINT
_GARBAGE = 100_000
"""Number of allocated objects at which Python's garbage collector runs: modules are many objects, and no garbage."""


def run(group: click.Command) -> NoReturn:
    """Run the command line and exit. A user's mistake is one sentence on standard error, and exit status 125."""
    gc.set_threshold(_GARBAGE, *gc.get_threshold()[1:])
    try:
        status = exit_status(group)
    except KeyboardInterrupt:  # one more, while the first was dealt with
        status = _INTERRUPTED
    try:
        _finish_writing()
    except KeyboardInterrupt:  # nobody reads what is written
        status = _INTERRUPTED
        _write_no_more(sys.stdout, sys.stderr)
    _keep(status)
    _end(status)


def exit_status(group: click.Command, arguments: Sequence[str] | None = None) -> int:
    """Run the command line (None: this process's). Return the exit status, once standard error says what was wrong."""
    try:
        _open_standard_streams()
        status = group.main(arguments, prog_name="headway", standalone_mode=False)
    except HeadwayError as error:
        say(str(error))
        return error.exit_status
    except ModuleNotFoundError as error:
        from headway.extras import explained

        if (reason := explained(error)) is None:
            raise
        say(str(reason))
        return reason.exit_status
    except click.exceptions.NoArgsIsHelpError as error:
        with suppress(OSError):
            click.echo(error.format_message(), err=True)
            if error.ctx is not None and error.ctx.parent is None:
                from .offer import offer

                if lines := offer():
                    click.echo(f"\n{lines}", err=True)
        return _FAILED
    except click.ClickException as error:
        say(error.format_message())
        return _FAILED
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # a reader that has gone away needs no words
            say(in_words(error))
        return _FAILED
    except MemoryError:
        say(NO_MEMORY)
        return _FAILED
    return status if isinstance(status, int) else 0


def _end(status: int) -> NoReturn:
    """Exit. Python would take all modules apart first, which is an eighth of a short command.

    It does so only where a thread is left, which it waits for.
    """
    if threading.active_count() == 1:
        atexit._run_exitfuncs()
        _finish_writing()
        os._exit(status)
    gc.freeze()  # there is no garbage in the modules either
    sys.exit(status)


def _keep(status: int) -> None:
    """Let no interrupt change the exit status any more. One ends what threads still do; what follows is short."""
    if not callable(signal.getsignal(signal.SIGINT)):
        return
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the last to be registered is the first to run
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(status))


def _open_standard_streams() -> None:
    """Keep files from taking the numbers of standard streams that are closed. A command still has them closed."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    if sys.stdout is None:  # what is written there fails, as it does with a descriptor that is closed
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def _finish_writing() -> None:
    """Flush the standard streams. Redirect them after an error: Python would fail again, with another exit status."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _write_no_more(stream)


def _write_no_more(*streams: TextIO) -> None:
    """Let what is still to be written to a stream go nowhere."""
    for stream in streams:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
