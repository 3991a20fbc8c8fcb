"""Thousands of random histories, from the command line::

python -m histories.soak --count 2000 --seed 1000
python -m histories.soak --replay '{"seed": 3, ...}'
"""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from histories.generator import WRITERS, generate
from histories.history import History
from histories.trial import Laboratory, Tally
from support.spark.spark_lab import SparkLab
from support.tables.small_rewrites import fast_ways_of_small_files

__all__ = ["main", "replay_command"]

_SECONDS_BETWEEN_LINES = 30


def replay_command(history: History) -> str:
    """The command that runs one history again."""
    return f"PYTHONPATH=tests .venv/bin/python -m histories.soak --thorough --replay {shlex.quote(history.to_json())}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Try histories until they are done or too many went wrong; the exit code says whether any did."""
    options = _parser().parse_args(arguments)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="icefloe-soak-")))
        stack.enter_context(fast_ways_of_small_files())
        laboratory = Laboratory(folder, lambda: _started(folder, stack))
        stack.callback(laboratory.close)
        failures = 0
        for history in _reported(_histories(options), laboratory.tally):
            failures += not _goes_well(laboratory, history, thorough=options.thorough, attempts=options.attempts)
            if failures == options.max_failures:
                break
        _print_tally(laboratory.tally)
    print(f"{failures} went wrong" if failures else "all went well")
    return min(failures, 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="histories.soak", description="Hold icefloe to random histories of tables.")
    parser.add_argument("--count", type=int, default=1000, help="histories for each writer (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the first seed (default: the time)")
    parser.add_argument("--length", type=int, default=8, help="operations of a history, about (default: %(default)s)")
    parser.add_argument("--writers", nargs="+", choices=WRITERS, default=WRITERS, help="default: all")
    parser.add_argument("--thorough", action="store_true", help="ask for every range of every history")
    parser.add_argument("--attempts", type=int, default=300, help="at shrinking a failure (default: %(default)s)")
    parser.add_argument("--max-failures", type=int, default=3, help="stop after so many (default: %(default)s)")
    parser.add_argument("--replay", metavar="JSON", help="one history, as a failure prints it")
    return parser


def _histories(options: argparse.Namespace) -> Iterator[History]:
    if options.replay:
        yield History.from_json(options.replay)
        return
    print(f"seeds {options.seed} to {options.seed + options.count - 1} for {', '.join(options.writers)}")
    for seed in range(options.seed, options.seed + options.count):
        for writer in options.writers:
            yield generate(seed, writer, length=options.length)


def _goes_well(laboratory: Laboratory, history: History, *, thorough: bool, attempts: int) -> bool:
    try:
        laboratory.try_out(history, thorough=thorough)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
        print(f"{history.writer} {history.seed}: {type(error).__name__}: {error}", flush=True)
        smallest = laboratory.shrunken(history, error, thorough=thorough, attempts=attempts)
        print(f"the smallest history that goes wrong:\n{replay_command(smallest)}\n", flush=True)
        return False
    return True


def _reported(histories: Iterator[History], tally: Tally) -> Iterator[History]:
    last = time.monotonic()
    for history in histories:
        yield history
        if time.monotonic() - last > _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print(f"{tally.histories} histories, {tally.questions} questions, {tally.changes} changes", flush=True)


def _print_tally(tally: Tally) -> None:
    print(
        f"{tally.histories} histories, {tally.questions} questions, {tally.changes} changes, {tally.batches} batches, "
        f"{tally.node_requests} requests to nodes, "
        f"{tally.applied.total()} operations, {tally.refused.total()} refused by their writers"
    )
    for sentence, count in tally.not_built.most_common():
        print(f"not built ({count}): {sentence}")


def _started(folder: Path, stack: ExitStack) -> SparkLab:
    (folder / "spark").mkdir()
    lab = SparkLab.start(folder / "spark")
    stack.callback(lab.stop)
    return lab


if __name__ == "__main__":
    sys.exit(main())
