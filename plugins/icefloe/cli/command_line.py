"""From arguments to an exit code."""

import logging
import os
import sys
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from icefloe.cli.commands import COMMANDS, make_parser
from icefloe.cli.screen import ReaderGoneError, Screen, log_to_stderr
from icefloe.errors import IcefloeError, TransientError, one_line
from icefloe.memory_pool import share_heap
from icefloe.patience import has_given_up
from icefloe.redacted_output import shown

_INTERRUPTED: Final = 130
_OURS_TO_FIX: Final = 70
_READER_GONE: Final = 141
"""The code that a shell reports for a program that a closed pipe ended (SIGPIPE)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; ``argv`` begins after the name of the program.

    0 if it is done or there was nothing to do, 65 if retrying cannot help, 75 if it may, 2 for wrong usage, 130 if
    interrupted, 141 if the reader of the output has ended, 70 for a fault of icefloe.
    """
    if argv is None:
        share_heap(os.environ)
    _open_closed_streams()
    parser = make_parser()
    try:
        code = _parsed(parser, argv)
    except (ReaderGoneError, BrokenPipeError):
        code = _READER_GONE
    if _has_lost_a_reader():
        code = _READER_GONE
    if argv is None and has_given_up():
        _leave(code)
    return code


def _open_closed_streams() -> None:
    """Python has None for a stream that the shell closed, as ``>&-`` does."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r+"))  # noqa: SIM115 - stays open to the end


def _parsed(parser: ArgumentParser, argv: Sequence[str] | None) -> int:
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as stop:  # argparse has said why; a function does not end its caller's process
        return stop.code if isinstance(stop.code, int) else 2
    with log_to_stderr(is_verbose=arguments.verbose):
        return _run(arguments)


def _run(arguments: Namespace) -> int:
    try:
        [command] = [each for each in COMMANDS if each.name == arguments.command]
        return command.load()(arguments, Screen.of(is_json=getattr(arguments, "json", False))) or 0
    except IcefloeError as error:
        return _reported(error, arguments)
    except MemoryError as error:
        return _reported(_out_of_memory(error), arguments)
    except KeyboardInterrupt:
        sys.stderr.write("icefloe: interrupted; the next run resumes an open batch\n")
        return _INTERRUPTED
    except ReaderGoneError:
        raise
    except Exception as error:  # noqa: BLE001 - the last resort: whatever it is, it is shown and ends as one exit code
        traceback.print_exception(shown(error))
        return _OURS_TO_FIX


def _reported(error: IcefloeError, arguments: Namespace) -> int:
    if arguments.verbose:
        traceback.print_exception(shown(error))
    for line in error.sentence.split("\n"):
        sys.stderr.write(f"icefloe: {line}\n")
    return error.exit_code


def _out_of_memory(cause: MemoryError) -> TransientError:
    error = TransientError(
        f"this process has no memory left ({one_line(cause) or 'MemoryError'}): run it where "
        "there is more, or set a smaller shuffle.memory_bytes; the next run goes on with the open batch"
    )
    error.__cause__ = cause
    return error


def _has_lost_a_reader() -> bool:
    """True if a reader has gone. The rest is dropped: Python would report it at exit."""
    is_lost = False
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except BrokenPipeError:
            is_lost = True
            with Path(os.devnull).open("wb") as nobody:
                os.dup2(nobody.fileno(), stream.fileno())
        except OSError:
            pass  # such as a full disk, which Python reports as it exits
    return is_lost


def _leave(code: int) -> NoReturn:
    """Ends this process at once: Arrow would wait for requests that were given up."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
