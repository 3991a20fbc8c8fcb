"""Scenarios: what a seed makes of the table, the pipeline and the actors."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from random import Random
from threading import current_thread
from typing import Any, Final, Self
from unittest.mock import patch

import yaml

from icefloe import units
from icefloe.batch.deliver import commit_batch
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.yaml_file import parse_yaml
from simulation.scheduler import THREAD_PREFIX
from simulation.world import ROOT

__all__ = ["HOURS", "NAMESAKE", "PIPELINE", "Keys", "Scenario", "pipeline_of", "with_clocks"]

HOURS: Final = (-2, 0, 0, 2)
"""Hours by which a clock is ahead of the store's; a scenario draws one for each actor."""
_READERS: Final = (units, commit_batch)


@contextmanager
def with_clocks(now: Callable[[], datetime], hours: Mapping[str, int]) -> Iterator[None]:
    """Gives each actor a clock as long as the context lasts.

    Args:
        now: the clock of the store.
        hours: by the name of an actor; the clock of any other is the store's.
    """

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            ahead = hours.get(current_thread().name.removeprefix(THREAD_PREFIX), 0)
            return cls.fromisoformat((now() + timedelta(hours=ahead)).astimezone(tz).isoformat())

    with ExitStack() as stack:
        for module in _READERS:
            stack.enter_context(patch.object(module, "datetime", Clock))
        yield


PIPELINE: Final = "events"
NAMESAKE: Final = "again"
"""Folder of the checkpoint of another pipeline with the same name and the same sink."""
Keys = tuple[tuple[str, Any], ...]
_ACTORS: Final = {
    "second": 0.8, "zombie": 0.5, "backfill": 0.15, "cleaner": 0.3, "sweeper": 0.25, "operator": 0.3, "mover": 0.25,
    "rival": 0.12, "namesake": 0.12, "restorer": 0.2,
}  # fmt: skip
"""Actors besides the first run, with the share of scenarios that have them."""
_LARGE: Final = 0.35
"""Share of the schedules with what only batches of large tables have."""
_NARROW: Final = 0.2
"""Share of the schedules whose rows are delivered without their key."""
_DELIVERING: Final = 0.4
"""Share of the pipelines that deliver to an index."""
_SINKS: Final[Mapping[str | None, Mapping[str, Any]]] = {
    None: {"sink": {"type": "files", "path": f"{ROOT}/changes"}},
    "staged": {"sink": {"type": "index"}},
    "kept": {"sink": {"type": "index"}, "changelog": {"path": f"{ROOT}/changes"}},
    "aside": {"sink": {"type": "index"}, "changelog": {"path": f"{ROOT}/{NAMESAKE}-changes"}},
}
"""Where changes go, by the key ``delivers`` of a scenario."""
_WITH_EXPIRY: Final = frozenset(["second", "zombie", "cleaner", "sweeper", "operator", "restorer"])
"""Actors that need no snapshot before the cursor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The frame of a schedule, drawn from its seed.

    Attributes:
        delivered_commits: number of commits that were delivered before.
        first_commits: number of commits that the table has at first.
        later_commits: number of commits that follow while the actors are at work.
        keys: keys of the pipeline file, besides those that are always the same. ``delivers`` stands for some of them.
        actors: names of the actors in the order in which they begin.
        switches: share of the operations at which an actor is stopped.
        faults: share of the operations that a fault strikes.
        clocks: hours by which the clock of each actor is ahead of the store's, in the order of the actors.
    """

    delivered_commits: int
    first_commits: int
    later_commits: int
    keys: Keys
    actors: tuple[str, ...]
    switches: float
    faults: float
    clocks: tuple[int, ...]

    @classmethod
    def drawn(cls, random: Random) -> Self:
        """A scenario; most have one batch, because most faults of a protocol need few steps."""
        delivered = random.choice((0, 0, 1, 1, 2, 3, 3, 4))
        first = delivered + random.choice((1, 1, 1, 1, 2))
        later = random.choice((0, 0, 0, 1))
        keys: list[tuple[str, Any]] = [
            ("initial_load", random.choice(("full", "full", "from_earliest", "from_now"))),
            ("max_steps_per_batch", random.choice((1, 100))),
        ]
        if random.random() < 0.15:
            keys.append(("max_bytes_per_batch", 1))
        if random.random() < 0.15:
            keys.append(("changes", "net"))
        if random.random() < 0.15:
            keys.append(("on_gap", "reload"))
        others = [name for name, share in _ACTORS.items() if random.random() < share]
        if random.random() < _DELIVERING:
            keys.append(("delivers", random.choice(("staged", "staged", "kept"))))
            keys += [("changes", "upsert")] if random.random() < 0.15 and dict(keys).get("changes") is None else []
            if random.random() < 0.6:
                # A delivery that comes too late needs a batch after its own.
                first = delivered + 2
                keys = [each if each[0] != "max_steps_per_batch" else (each[0], 1) for each in keys]
        if "backfill" in others and random.random() < 0.5:
            others.append("backfill again")
        if random.random() < 0.25:
            # A gap may only come from pins: whoever asks for older snapshots finds that they expired, and rightly so.
            keys = [each for each in keys if each[0] != "on_gap"]
            keys += [("pin", True)] if random.random() < 0.6 else []
            others = [*(name for name in others if name in _WITH_EXPIRY), "expirer"]
        actors = ["first", *others, *(["writer"] if later else [])]
        random.shuffle(actors)
        return cls(
            delivered_commits=delivered,
            first_commits=first,
            later_commits=later,
            keys=tuple(keys),
            actors=tuple(actors),
            switches=random.choice((0.005, 0.01, 0.03, 0.1, 0.2)),
            faults=random.choice((0.0, 0.0, 0.01, 0.03)),
            clocks=tuple(random.choice(HOURS) for _ in actors),
        )

    def enlarged(self, random: Random) -> Self:
        """This scenario or, in every third, the same with map tasks of one row group."""
        if random.random() > _LARGE:
            return self
        return replace(self, keys=(*self.keys, ("map_task_bytes", 1)))

    def narrowed(self, random: Random) -> Self:
        """This scenario or, in some without an index, the same with rows that are delivered without their key.

        Rows whose key alone changed are then looked for in a phase of their own.
        """
        if random.random() > _NARROW or "delivers" in dict(self.keys):
            return self
        return replace(self, keys=(*self.keys, ("columns", ("value", "word"))))


@lru_cache(maxsize=256)
def pipeline_of(keys: Keys) -> Pipeline:
    """The pipeline of a scenario. It names no variables, so that it need not be expanded, which takes milliseconds."""
    drawn = dict(keys)
    sink = _SINKS[drawn.pop("delivers", None)]
    map_task_bytes = drawn.pop("map_task_bytes", 5000)
    text = yaml.safe_dump(
        {
            "version": 1,
            "name": PIPELINE,
            "catalog": "lab",
            "table": f"db.{PIPELINE}",
            "identifier_columns": ["id"],
            "storage": f"{ROOT}/storage",
            "engine": "local",
            "shuffle": {"partitions": 3, "map_task_bytes": map_task_bytes, "target_size_bytes": 1},
            **sink,
            **{name: list(value) if isinstance(value, tuple) else value for name, value in drawn.items()},
        }
    )
    return Pipeline.of(parse_yaml(text, path=f"{PIPELINE}.yaml"))
