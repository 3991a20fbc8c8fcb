"""Breaks icefloe in one place at a time, in copies of the checkout, and tells which test notices.

Without names all of them; --list shows these::

    PYTHONPATH=tests python -m mutations.run 'equality delete' rollback
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Final

from mutations.checkout import Checkout, Verdict
from mutations.every_mutation import MUTATIONS
from mutations.mutation import Mutation

ROOT: Final = Path(__file__).parents[2]
TIMEOUT_SECONDS: Final = 1800


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    chosen = named(options.names)
    if options.list:
        for mutation in chosen:
            print(f"{mutation.name} ({mutation.function}: {mutation.kind}; {' '.join(mutation.suite)})")
        return 0
    if not chosen:
        print("No mutation has such words in its name; --list shows all")
        return 2
    verdicts = []
    for verdict in judge(chosen, jobs=options.jobs, timeout_seconds=options.timeout, trust_suites=options.trust_suites):
        print(line(verdict), flush=True)
        verdicts.append(verdict)
    wrong = [verdict for verdict in verdicts if not verdict.is_right]
    print(f"\n{len(verdicts) - len(wrong)} of {len(verdicts)} as they should be")
    for verdict in wrong:
        print(f"\n{line(verdict)}\n{verdict.output}")
    return 1 if wrong else 0


def line(verdict: Verdict) -> str:
    """A row of the table: what came of it, in how many seconds, what was broken, and which test noticed."""
    by = f"\n{'':17}{verdict.by}" if verdict.by else ""
    return f"{verdict.outcome.value:<8}  {verdict.seconds:4.0f} s  {verdict.name}{by}"


def named(words: Sequence[str]) -> list[Mutation]:
    """The mutations that have one of some words in their names; all where there are no words."""
    return [each for each in MUTATIONS if not words or any(word.lower() in each.name.lower() for word in words)]


def judge(
    mutations: Sequence[Mutation], *, jobs: int, timeout_seconds: float, trust_suites: bool, root: Path = ROOT
) -> Iterator[Verdict]:
    """The result of each mutation, as it comes; before them of each suite with nothing broken, unless it is trusted."""
    suites = [] if trust_suites else list(dict.fromkeys(mutation.suite for mutation in mutations))
    with TemporaryDirectory(prefix="icefloe-mutations-") as folder, ThreadPoolExecutor(jobs) as pool:
        idle: SimpleQueue[Checkout] = SimpleQueue()
        for job in range(jobs):
            idle.put(Checkout.copied(root, Path(folder) / str(job)))

        def run(suite: tuple[str, ...], mutation: Mutation | None) -> Verdict:
            checkout = idle.get()
            try:
                return checkout.run(suite, mutation, timeout_seconds=timeout_seconds)
            finally:
                idle.put(checkout)

        work = [(suite, None) for suite in suites] + [(mutation.suite, mutation) for mutation in mutations]
        for done in as_completed([pool.submit(run, *each) for each in work]):
            yield done.result()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mutations.run", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="words in the names of mutations; none: all")
    parser.add_argument("--list", action="store_true", help="say which there are, and which tests must notice them")
    parser.add_argument("--jobs", type=int, default=1, help="how many to run at a time; each may start a JVM")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_SECONDS, help="seconds that one may take")
    parser.add_argument("--trust-suites", action="store_true", help="do not run the suites with nothing broken first")
    return parser


if __name__ == "__main__":
    sys.exit(main())
