"""The promises about the index, checked at each of its calls, and at each commit of a pipeline that delivers to it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from simulation.promises import MOVES, BrokenPromiseError, Places, flat_commit
from simulation.table import TableStates
from simulation.world import Change, Watcher
from support.sinks.memory_index import MemoryIndex
from support.spark.row_counts import Row, difference, freeze

__all__ = ["IndexPromises", "owner_of"]

_NUMBER_BITS: Final = 32
_RANGE: Final = ("after_snapshot_id", "up_to_snapshot_id")
_ID: Final = 0
"""Place of the identifier column in a row."""


@dataclass(slots=True, kw_only=True)
class IndexPromises(Watcher):
    """Holds the index to the promises. What readers see of a document is its version, also once it is deleted.

    Attributes:
        index: the index.
        pipelines: the places of each pipeline that delivers to it.
        states: of the table.
    """

    index: MemoryIndex
    pipelines: Sequence[Places]
    states: TableStates
    _owed: dict[str, Counter[Row]] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)
    _proven: set[int] = field(default_factory=set)
    _loading: str | None = None
    _inherited: dict[str | None, Counter[Row]] = field(default_factory=dict)
    _adrift: set[str] = field(default_factory=set)
    _waiting: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for places in self.pipelines:
            for commit in places.commits(""):
                self._owe(places, commit)
        self._seen = self._versions()

    def changed(self, change: Change) -> None:
        """See `Watcher`: at a commit, the index holds what all commits up to it make of the table's rows."""
        for places in self.pipelines:
            folder = f"{places.checkpoint}commits/"
            if change.key.startswith(folder):
                commit = flat_commit(places.document(change.key) or {})
                self._owe(places, commit)
                if commit["route"] not in ("abandoned", *MOVES):
                    self.require_held(places, commit, what=f"{change.by} committed {change.key}")

    def indexed(self, name: str, by: str) -> None:
        """See `Watcher`: nothing is written before its batch is proven, and no document goes back for readers.

        Nor is a load prepared of a batch that is over.
        """
        if name == "bulk":
            self._require_proven(by)
        state = _state(self.index)
        loading = state.get("loading")
        if loading not in (None, self._loading) and _version_of(loading) < state.get("done", 0):
            raise BrokenPromiseError(f"{by} prepared {loading}, and a later batch is there")
        self._loading = loading
        seen = self._versions()
        for key, version in self._seen.items():
            if seen.get(key, version) < version:
                raise BrokenPromiseError(f"{by} took document {key} back from version {version} to {seen[key]}")
        self._seen = {**self._seen, **seen}
        if (owner := owner_of(self.index)) not in self._inherited:
            self._inherited[owner] = self._held()

    def require_held(self, places: Places, commit: Mapping[str, Any], *, what: str) -> None:
        """Holds the index to what a pipeline owes to it, unless another pipeline has taken it over."""
        if owner_of(self.index) != commit["checkpoint_id"] or places.checkpoint in self._adrift:
            return
        held, owed = self._held(), self._owed.get(places.checkpoint, Counter())
        if held != owed:
            raise BrokenPromiseError(f"{what}, and the index lacks {owed - held} and has {held - owed} too much")

    def _held(self) -> Counter[Row]:
        """The rows that readers find."""
        live = _state(self.index).get("live")
        documents = [] if live is None else self.index.scan(live)
        return Counter(tuple(freeze(value) for value in document.values()) for document in documents)

    def _owe(self, places: Places, commit: Mapping[str, Any]) -> None:
        """Takes down a batch.

        A pipeline that begins without a load owes only the rows that have changed since, beside those that the index
        had when it was claimed: whoever sets the cursor of a new pipeline says that its sink has the rest.

        Half of a load, or a reset, owes a whole load, and no changes before that.
        """
        if commit.get("is_beginning") and places.checkpoint in self._owed:
            self._waiting.add(places.checkpoint)
        if commit["route"] == "abandoned" and commit.get("is_beginning"):
            self._adrift.add(places.checkpoint)
        if commit["route"] in ("abandoned", *MOVES):
            return
        after, up_to = (None if commit[name] is None else int(commit[name]) for name in _RANGE)
        rows = self.states.rows[up_to]
        part = commit.get("load_part")
        if part is not None and part["stop_file"] < part["num_files"]:
            self._adrift.add(places.checkpoint)
            self._waiting.add(places.checkpoint)
        elif after is None or part is not None:
            self._adrift.discard(places.checkpoint)
            self._waiting.discard(places.checkpoint)
        elif places.checkpoint in self._waiting:
            raise BrokenPromiseError(f"batch {commit['batch_number']} has changes, and the index waits for a load")
        if after is None:
            self._owed[places.checkpoint] = Counter(rows if commit["steps"] else ())
            return
        states = [self.states.rows[each] for each in self._states_of(places, commit) if each in self.states.rows]
        changed = {row[_ID] for one, other in pairwise(states) for row in difference(one, other)}
        before = self._owed.get(places.checkpoint, self._inherited.get(commit["checkpoint_id"], Counter()))
        kept = [row for row in before if row[_ID] not in changed]
        self._owed[places.checkpoint] = Counter([*kept, *(row for row in rows if row[_ID] in changed)])

    def _states_of(self, places: Places, commit: Mapping[str, Any]) -> list[int | None]:
        """The states that a batch leads through: a row that is deleted and comes back arrives."""
        spec = places.spec(commit["batch_number"])
        ends = [step["end_snapshot_id"] for step in spec["steps"]] if spec.get("changes") != "net" else []
        found = [commit["after_snapshot_id"], *ends, commit["up_to_snapshot_id"]]
        return [None if each is None else int(each) for each in found]

    def _versions(self) -> dict[str, int]:
        """The version of each document that readers find, or of its deletion."""
        live = _state(self.index).get("live")
        if live is None:
            return {}
        if live not in self.index.index_names():
            raise BrokenPromiseError(f"readers are shown {live}, which is gone")
        # A document that is not there at all is as old as the load that did not bring it.
        loaded = dict.fromkeys(self._seen, _version_of(live))
        return {**loaded, **{key: stored.version for key, stored in self.index.stored(live).items()}}

    def _require_proven(self, by: str) -> None:
        written = {each.version for name in self.index.index_names() if name != "meta" for each in self._stored(name)}
        for version in written - self._proven:
            number = version % (1 << _NUMBER_BITS)
            if not any(_is_proven(places, number) for places in self.pipelines):
                raise BrokenPromiseError(f"{by} delivered documents of batch {number}, which is not proven")
        self._proven |= written

    def _stored(self, name: str) -> Sequence[Any]:
        return list(self.index.stored(name).values())


def _is_proven(places: Places, number: int) -> bool:
    """True if a batch is whole where it is staged, or was so before it arrived."""
    return places.manifest("", number) is not None or f"{places.checkpoint}commits/{number}.json" in places.objects


def owner_of(index: MemoryIndex) -> str | None:
    """Id of the checkpoint whose pipeline has claimed an index; None: nobody has."""
    return _state(index).get("owner")


def _version_of(name: str) -> int:
    """The version of the batch for which an index was made."""
    return int(name.removeprefix("rows-"))


def _state(index: MemoryIndex) -> Mapping[str, Any]:
    return index.get("meta", "state").document or {}
