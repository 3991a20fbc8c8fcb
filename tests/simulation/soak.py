"""Thousands of schedules. One that breaks a promise is made smaller, and printed with the command that replays it.

make schedules SCHEDULES=100000 SEED=1
make schedules REPLAY=4711
"""

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

from simulation.scheduler import Decision, Place
from simulation.simulation import Trial, simulate

__all__ = ["failures", "shrink_decisions", "story"]

_AT_ONCE: Final = 50
_SAID_EVERY: Final = 1_000
_SHOWN: Final = 60


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    logging.disable(logging.CRITICAL)
    if options.replay is not None:
        trial = simulate(options.replay)
        print(story(trial, whole_log=True))
        return trial.error is not None
    started, wrong, done = time.monotonic(), 0, 0

    def said() -> str:
        seconds = time.monotonic() - started
        schedules = f"{done:,} of {options.schedules:,} schedules from seed {options.seed}"
        return f"{schedules} in {seconds:,.0f} s: {wrong} broke a promise"

    for seeds, trials in pieces_done(range(options.seed, options.seed + options.schedules), jobs=options.jobs):
        done += len(seeds)
        for trial in trials:
            wrong += 1
            print(story(trial), flush=True)
        if wrong >= options.most_failures:
            break
        if done % _SAID_EVERY == 0 and done < options.schedules:
            print(said(), flush=True)
    print(said())
    return wrong > 0


def failures(seeds: Sequence[int]) -> Iterator[Trial]:
    """The schedules of some seeds that break a promise, in the order of their seeds."""
    return (trial for seed in seeds if (trial := simulate(seed)).error is not None)


def pieces_done(seeds: Sequence[int], *, jobs: int) -> Iterator[tuple[Sequence[int], list[Trial]]]:
    """Pieces of the seeds in their order, each with its schedules that break a promise, in several processes."""
    pieces = [seeds[start : start + _AT_ONCE] for start in range(0, len(seeds), _AT_ONCE)]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_quiet) as pool:
        try:
            for piece, wrong in zip(pieces, pool.map(_wrong_seeds, pieces), strict=True):
                # Run again here: a trial holds what no other process can have.
                yield piece, [simulate(seed) for seed in wrong]
        finally:
            pool.shutdown(cancel_futures=True)


def story(trial: Trial, *, whole_log: bool = False) -> str:
    """The error of a schedule, the fewest decisions that still lead to it, and the command that replays it."""
    if trial.error is None:
        return "\n".join([*trial.log, f"seed {trial.seed} breaks no promise; log {trial.digest}"])

    def is_wrong(decisions: Mapping[Place, Decision]) -> bool:
        return type(simulate(trial.seed, decisions).error) is type(trial.error)

    smallest = simulate(trial.seed, shrink_decisions(trial.decisions, is_wrong))
    decided = [f"  {actor} at operation {number}: {what}" for (actor, number), what in smallest.decisions.items()]
    log = smallest.log if whole_log else smallest.log[-_SHOWN:]
    return "\n".join(
        [
            f"seed {trial.seed}: {type(smallest.error).__name__}: {smallest.error}",
            f"{smallest.scenario}",
            f"{len(decided)} of {len(trial.decisions)} decisions are left:",
            *decided,
            f"the {'whole log' if whole_log else 'last operations'}:",
            *(f"  {line}" for line in log),
            f"replay: make schedules REPLAY={trial.seed}",
        ]
    )


def _wrong_seeds(seeds: Sequence[int]) -> list[int]:
    return [trial.seed for trial in failures(seeds)]


def _quiet() -> None:
    logging.disable(logging.CRITICAL)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulation.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--schedules", type=int, default=100_000, help="number of schedules; default: 100000")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes")
    parser.add_argument("--most-failures", type=int, default=3, help="number of failures to stop after")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one schedule and print its log")
    return parser


Decided = Mapping[Place, Decision]


def shrink_decisions(decisions: Decided, is_wrong: Callable[[Decided], bool], *, attempts: int = 300) -> Decided:
    """The fewest decisions found with which a schedule still goes wrong.

    Leaves out all, then halves, and so on to single decisions, as delta debugging does.

    Args:
        decisions: go wrong.
        is_wrong: runs a schedule with fewer decisions.
        attempts: number of schedules to run at most.

    >>> from simulation.scheduler import Fault
    >>> decided = {("a", number): Fault.LOST for number in range(20)}
    >>> sorted(shrink_decisions(decided, lambda few: {("a", 3), ("a", 17)} <= few.keys()))
    [('a', 3), ('a', 17)]
    """
    places, piece = list(decisions), len(decisions)
    while piece > 0 and attempts > 0:
        for start in range(0, len(places), piece):
            attempts -= 1
            kept = places[:start] + places[start + piece :]
            if is_wrong({place: decisions[place] for place in kept}):
                places = kept
                break
        else:
            piece //= 2
    return {place: decisions[place] for place in places}


if __name__ == "__main__":
    sys.exit(main())
