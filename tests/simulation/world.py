"""The world of a simulation: one store that all processes share, and a table that moves."""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from pyiceberg.table.refs import SnapshotRef

from simulation.scheduler import Fault, Scheduler
from support.sinks.memory_index import MemoryIndex

__all__ = ["ROOT", "AnyHome", "Change", "Home", "Homes", "Items", "Objects", "Watcher", "World"]

ROOT: Final = "memory://lake"
_INCIDENTAL: Final = re.compile(r"(?<=_probe)-[0-9a-f]{32}|(?<=_clock\.probes)/[0-9a-f]{32}|(?<=/tasks/)[0-9a-f]{16}")
"""Parts of keys that another process would choose in another way: random names, and digests of paths of files."""
_BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)
_LONGEST_DELAY: Final = 300
_MOST_DAMAGE: Final = 2


class Watcher:
    """Sees every change of the store; by itself it minds none."""

    __slots__ = ()

    def changed(self, change: "Change") -> None:
        """Called right after a change; raises if it must not be."""

    def expired(self, snapshot_id: int) -> None:
        """Called right after a snapshot of the table has expired; raises if somebody needs it."""

    def indexed(self, name: str, by: str) -> None:
        """Called right after a call of the index; raises if readers of it must not see what they see."""

    def misled(self) -> None:
        """Called when a listing shows the past, so that whole files may look damaged."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one object. ``before`` and ``after`` are None if there is none."""

    key: str
    before: bytes | None
    after: bytes | None
    by: str


@dataclass(slots=True, kw_only=True)
class World:
    """Everything that processes share.

    Attributes:
        scheduler: says who goes on.
        random: source of the choices that the world makes itself, such as which file is damaged.
        watchers: see every change.
        objects: content by key, in the order of creation, which is the order of listings.
        modified: number of operations at the last write, by key: the clock of the store.
        index: the index to which pipelines deliver.
        heads: ids of the snapshots to which the table's main branch has pointed, in order.
        commits: number of commits that were made.
        refs: branches and tags of the table besides its main branch.
        expired: ids of the snapshots that the table no longer has.
        gone: locations of the table's files that were deleted.
        names: number of names that were made.
        faults: number of operations that a fault struck.
        damage: number of files that were damaged.
        listed: folders that were listed at least once.
        homes: of values, if a table coordinates the store.
    """

    scheduler: Scheduler
    random: Random
    watchers: list[Watcher] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)
    modified: dict[str, int] = field(default_factory=dict)
    index: MemoryIndex = field(default_factory=MemoryIndex)
    heads: list[int] = field(default_factory=list)
    commits: int = 0
    refs: dict[str, SnapshotRef] = field(default_factory=dict)
    expired: set[int] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    names: int = 0
    faults: int = 0
    damage: int = 0
    listed: set[str] = field(default_factory=set)
    homes: "Homes | None" = None
    _log: list[tuple[str, str, str, object, Fault | None]] = field(default_factory=list)
    _late: list[tuple[int, Callable[[], object]]] = field(default_factory=list)
    _past: list[Change] = field(default_factory=list)

    def begin_with(self, earlier: "World") -> None:
        """Takes over the objects of an earlier world."""
        self.objects.update(earlier.objects)
        self.modified.update(dict.fromkeys(earlier.objects, 0))
        self.listed.update(earlier.listed)
        self.names = earlier.names
        self.refs = dict(earlier.refs)
        self.index = earlier.index.copy()

    def new_name(self) -> str:
        """A name that nothing else has, of the form that processes make."""
        self.names += 1
        return f"{self.names:032x}"

    def new_key(self) -> int:
        """A key of row hashes, of its own for each batch."""
        return int.from_bytes(hashlib.sha256(self.new_name().encode()).digest()[:16], "big")

    def now(self, step: int | None = None) -> datetime:
        """The clock of the store: a second for each operation."""
        return _BEGINNING + timedelta(seconds=self.scheduler.steps if step is None else step)

    def write(self, key: str, data: bytes | None, *, by: str) -> None:
        """Stores or deletes a value."""
        before = self.objects.get(key)
        if data is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = data
            self.modified[key] = self.scheduler.steps
        change = Change(key, before, data, by)
        self._past.append(change)
        self._tell(lambda watcher: watcher.changed(change))

    def ask_index(self, name: str, *arguments: Any, by: str, **named: Any) -> Any:
        """Calls the index."""
        answer = getattr(self.index, name)(*arguments, **named)
        self._tell(lambda watcher: watcher.indexed(name, by))
        return answer

    def expire(self, snapshot_id: int) -> None:
        """Removes a snapshot from the table."""
        self.expired.add(snapshot_id)
        self._tell(lambda watcher: watcher.expired(snapshot_id))

    def past_sizes(self) -> dict[str, int]:
        """Sizes by key as a listing of some operations ago showed them.

        It shows late what was written and deleted. What a disk has lost it does not bring back: nobody could notice.
        """
        for watcher in self.watchers:
            watcher.misled()
        known = dict(self.objects)
        lost = {change.key for change in self._past if change.by == "damage"}
        for change in reversed(self._past[-self.random.randint(1, 20) :]):
            if change.key in lost:
                continue
            if change.before is None:
                known.pop(change.key, None)
            else:
                known[change.key] = change.before
        return {key: len(data) for key, data in known.items()}

    def delay(self, effect: Callable[[], object]) -> None:
        """Lets an effect come some operations later."""
        self._late.append((self.scheduler.steps + self.random.randint(1, _LONGEST_DELAY), effect))

    def come_due(self, *, everything: bool = False) -> None:
        """Lets the effects come that are due."""
        if not self._late:
            return
        due = [effect for step, effect in self._late if everything or step <= self.scheduler.steps]
        self._late = [] if everything else [each for each in self._late if each[0] > self.scheduler.steps]
        for effect in due:
            effect()

    def note(self, actor: str, operation: str, key: str, outcome: object, fault: Fault | None) -> None:
        """Takes down an operation for the log."""
        self.faults += fault is not None
        self._log.append((actor, operation, key, outcome, fault))

    @property
    def log(self) -> list[str]:
        """One line per operation."""
        return [
            f"{actor} {operation} {_INCIDENTAL.sub('', key)} -> {outcome}" + ("" if fault is None else f" ({fault})")
            for actor, operation, key, outcome, fault in self._log
        ]

    def _tell(self, news: Callable[[Watcher], None]) -> None:
        for watcher in self.watchers:
            try:
                news(watcher)
            except AssertionError as error:
                # Not raised: some code under test catches any error of a batch that is over.
                self.scheduler.end_with(error)

    def do_damage(self) -> None:
        """Loses or cuts a file of a map output, or a part that no manifest names yet; a few times at most."""
        if self.damage == _MOST_DAMAGE:
            return
        victims = [key for key in self.objects if self._may_be_damaged(key)]
        if not victims:
            return
        self.damage += 1
        key = self.random.choice(victims)
        data = self.objects[key]
        damaged = self.random.choice([None, data[: len(data) // 2], data[:-1] + bytes([data[-1] ^ 1])])
        if "/batch=" in key and damaged is not None:
            damaged = damaged[: len(data) // 2]  # a part is checked by its size before it counts
        self.write(key, damaged, by="damage")

    def _may_be_damaged(self, key: str) -> bool:
        if key.endswith((".data", ".index")):
            return True
        # Whoever has listed a folder may be about to write the manifest. Nobody can notice a loss after that look.
        return key.endswith(".parquet") and f"{key.rpartition('/')[0]}/" not in self.listed


class Home(ABC):
    """Keeps the values of a simulated store."""

    @abstractmethod
    def find(self, key: str) -> bytes | None:
        """The value; None if there is none."""

    @abstractmethod
    def write(self, key: str, data: bytes | None, *, by: str) -> None:
        """Stores a value; None deletes it."""

    @abstractmethod
    def sizes(self) -> Mapping[str, int]:
        """Sizes by key."""

    @abstractmethod
    def past_sizes(self) -> Mapping[str, int]:
        """The same, as a listing shows them that may be stale."""


@dataclass(frozen=True)
class AnyHome(Home):
    """All values of a world that no table coordinates."""

    world: "World"

    def find(self, key: str) -> bytes | None:
        return self.world.objects.get(key)

    def write(self, key: str, data: bytes | None, *, by: str) -> None:
        if data is not None or key in self.world.objects:
            self.world.write(key, data, by=by)

    def sizes(self) -> Mapping[str, int]:
        return {key: len(data) for key, data in self.world.objects.items()}

    def past_sizes(self) -> Mapping[str, int]:
        return self.world.past_sizes()


@dataclass
class Homes:
    """Items and objects of a world.

    Attributes:
        created: keys of items. One whose value a disk has lost is none.
        hidden: values of objects that items hide.
    """

    world: "World"
    created: set[str] = field(default_factory=set)
    hidden: dict[str, bytes] = field(default_factory=dict)

    def has_item(self, key: str) -> bool:
        """True if an item is under a key."""
        return key in self.created and key in self.world.objects


@dataclass(frozen=True)
class Items(Home):
    """The table: its listings are never stale."""

    homes: Homes

    def find(self, key: str) -> bytes | None:
        return self.homes.world.objects[key] if self.homes.has_item(key) else None

    def write(self, key: str, data: bytes | None, *, by: str) -> None:
        world, homes = self.homes.world, self.homes
        if data is not None:
            if not homes.has_item(key) and key in world.objects:
                homes.hidden[key] = world.objects[key]
            homes.created.add(key)
            world.write(key, data, by=by)
        elif homes.has_item(key):
            homes.created.remove(key)
            world.write(key, homes.hidden.pop(key, None), by=by)

    def sizes(self) -> Mapping[str, int]:
        return {key: len(data) for key, data in self.homes.world.objects.items() if key in self.homes.created}

    def past_sizes(self) -> Mapping[str, int]:
        return self.sizes()


@dataclass(frozen=True)
class Objects(Home):
    """The object store."""

    homes: Homes

    def find(self, key: str) -> bytes | None:
        return self.homes.hidden.get(key) if self.homes.has_item(key) else self.homes.world.objects.get(key)

    def write(self, key: str, data: bytes | None, *, by: str) -> None:
        homes = self.homes
        if not homes.has_item(key):
            AnyHome(homes.world).write(key, data, by=by)
        elif data is None:
            homes.hidden.pop(key, None)
        else:
            homes.hidden[key] = data

    def sizes(self) -> Mapping[str, int]:
        return self._without_items(AnyHome(self.homes.world).sizes())

    def past_sizes(self) -> Mapping[str, int]:
        return self._without_items(self.homes.world.past_sizes())

    def _without_items(self, sizes: Mapping[str, int]) -> Mapping[str, int]:
        hidden = {key: len(data) for key, data in self.homes.hidden.items()}
        return {**{key: size for key, size in sizes.items() if not self.homes.has_item(key)}, **hidden}
