"""The owner of an index, and the batch that began last."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch
from icefloe.sinks.opensearch.cluster import Cluster
from icefloe.sinks.opensearch.indexes import IndexNames
from icefloe.sinks.sink import superseded

_CLAIM = "claim"
_PROGRESS = "progress"
_DOCUMENT: Final = ("_source", "_version", "_seq_no", "_primary_term")
_STATE_INDEX: Final[Mapping[str, Any]] = {
    # Templates of the cluster reach every new index. They must not change these documents.
    "settings": {
        "index": {
            "number_of_shards": 1, "auto_expand_replicas": "0-1", "hidden": True, "default_pipeline": "_none",
            "final_pipeline": "_none",
        }
    },
    "mappings": {"enabled": False, "_source": {"enabled": True}, "_routing": {"required": False}},
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexClaim:
    """Who writes an index."""

    origin: Origin
    generation: int  # number of take-overs; the upper half of all versions
    revision: dict[str, str]  # number and term of the document, to change exactly this claim


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunBatch:
    """The batch that began last."""

    version: int
    target: str  # the index of this and later batches, up to the next load
    end: str  # as ``ProvenBatch.end``
    uuid: str | None = None  # of that index, found before delivery; None: not yet


class Claims:
    """The claim of one index."""

    def __init__(self, cluster: Cluster, names: IndexNames) -> None:
        self._cluster = cluster
        self._names = names
        self._url = f"{cluster.url}/{names.index}"

    def find(self) -> IndexClaim | None:
        """The claim; None: nobody's index."""
        found = self._cluster.ask("GET", self._document(_CLAIM), allowed=(404,), has=_DOCUMENT)
        if found.status == 404:
            return None
        source = found.body["_source"]
        return IndexClaim(
            origin=Origin(**source["origin"]),
            generation=source["generation"],
            revision={"if_seq_no": str(found.body["_seq_no"]), "if_primary_term": str(found.body["_primary_term"])},
        )

    def of(self, origin: Origin) -> IndexClaim:
        """The claim, which must be this origin's."""
        found = self.find()
        if found is None:
            raise TerminalError(
                f"nobody has claimed {self._url}: the index {self._names.state} was deleted; run "
                "`icefloe reset` for the pipeline, so that it loads the table again"
            )
        key = "sink.index of its own, or take this one over with --take-over"
        origin.refuse_other(found.origin, place=self._url, record=f"index {self._names.state}", key=key)
        return found

    def claim(self, origin: Origin, *, takes_over: bool, first_generation: int) -> None:
        """Create the claim, or change its owner; of several claimants one wins."""
        # Without the index the next request would make one of that name, as anybody's and not hidden.
        self._cluster.make_index(self._names.state, _STATE_INDEX)
        created = self._cluster.ask(
            "PUT", self._document(_CLAIM, "_create"), _source(origin, first_generation), params={"refresh": "true"},
            allowed=(409,),
        )  # fmt: skip
        if created.status != 409:
            return
        found = self.find() if takes_over else None
        if found is not None and found.origin.owner != origin.owner:
            self._cluster.ask(
                "PUT", self._document(_CLAIM), _source(origin, found.generation + 1), params=found.revision,
                allowed=(409,),
            )  # fmt: skip
        # After a conflict the winner may be this call, whose first answer was lost.
        self.of(origin)

    def progress(self) -> BegunBatch | None:
        """The batch that began last, if any."""
        found = self._cluster.ask("GET", self._document(_PROGRESS), allowed=(404,), has=_DOCUMENT)
        if found.status == 404:
            return None
        source = found.body["_source"]
        return BegunBatch(
            version=found.body["_version"], target=source["target"], end=source["end"], uuid=source.get("uuid")
        )

    def begin(self, progress: BegunBatch) -> bool:
        """Record that a batch begins; False if a later one has begun."""
        source = {"target": progress.target, "end": progress.end}
        if progress.uuid is not None:
            source["uuid"] = progress.uuid
        noted = self._cluster.ask(
            "PUT", self._document(_PROGRESS), source,
            params={"version": str(progress.version), "version_type": "external_gte"}, allowed=(409,),
        )  # fmt: skip
        return noted.status != 409

    def refuse_superseded(self, batch: ProvenBatch, begun: Mapping[str, Any]) -> None:
        """Raise SupersededError if a later batch has begun, unless a replay has the same index."""
        latest = self.progress()
        if latest is None or latest.version <= begun["version"]:
            return
        if not batch.is_replay or latest.target != begun["index"]:
            raise superseded(batch, self._url)

    def _document(self, name: str, action: str = "_doc") -> str:
        return f"/{self._names.state}/{action}/{name}"


def _source(origin: Origin, generation: int) -> dict[str, Any]:
    return {"version": 1, "origin": asdict(origin), "generation": generation}
