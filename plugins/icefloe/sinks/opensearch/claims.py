"""The claim of an index: one document of a hidden index next to it, and the version of the batch begun last."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.opensearch.cluster import Cluster
from icefloe.sinks.opensearch.cluster_answer import ALREADY_THERE
from icefloe.sinks.opensearch.index_names import IndexNames

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


class IndexClaimedError(TerminalError):
    """The index belongs to another pipeline, to another start of this one, or to nobody known."""

    url: str
    owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexClaim:
    """Who writes an index.

    Attributes:
        origin: whose batches are delivered.
        generation: how often the index went to another origin; the upper half of all versions.
        revision: number and term of the document, for a change of exactly this claim.
    """

    origin: Origin
    generation: int
    revision: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunBatch:
    """The batch that began last.

    Attributes:
        version: of its documents.
        target: the index that it and the batches after it are written to, up to the next load.
        uuid: of that index, as a try of this batch has found it before it delivered anything. None: no try has.
    """

    version: int
    target: str
    uuid: str | None = None


class Claims:
    """The claim of one index.

    Args:
        cluster: to ask.
        names: of the index.
    """

    def __init__(self, cluster: Cluster, names: IndexNames) -> None:
        self._cluster = cluster
        self._names = names
        self._url = f"{cluster.url}/{names.index}"

    def find(self) -> IndexClaim | None:
        """The claim; None if nobody has claimed the index."""
        found = self._cluster.ask("GET", self._document(_CLAIM), allowed=(404,), has=_DOCUMENT)
        if found.status == 404:
            return None
        source = found.body["_source"]
        # Earlier commits noted more: the uuid of the table.
        origin = {each.name: source["origin"][each.name] for each in fields(Origin)}
        return IndexClaim(
            origin=Origin(**origin),
            generation=source["generation"],
            revision={"if_seq_no": str(found.body["_seq_no"]), "if_primary_term": str(found.body["_primary_term"])},
        )

    def refuse_other(self, found: IndexClaim | None, origin: Origin) -> IndexClaim:
        """The claim, which is this origin's.

        Raises:
            IndexClaimedError: it is another's, or there is none.
        """
        if found is None:
            raise IndexClaimedError(
                f"nobody has claimed {self._url}: the index {self._names.state} was deleted; run "
                "`icefloe reset` for the pipeline, so that it loads the table again",
                url=self._url,
            )
        if found.origin.owner != origin.owner:
            raise IndexClaimedError(
                f"{self._url} belongs to pipeline {found.origin.pipeline} for table {found.origin.table} with the "
                f"checkpoint {found.origin.owner} and not to {origin.owner} of pipeline {origin.pipeline}; "
                "give each pipeline a sink.index of its own, or take this one over with --take-over",
                url=self._url,
                owner=found.origin.owner,
            )
        return found

    def claim(self, origin: Origin, *, takes_over: bool, first_generation: int) -> None:
        """Create the claim, or change its owner; of several claimants one wins.

        Args:
            origin: the new owner.
            takes_over: True if the claim may be another origin's.
            first_generation: of a claim that is created.

        Raises:
            IndexClaimedError: another origin has it.
        """
        made = self._cluster.ask("PUT", f"/{self._names.state}", _STATE_INDEX, allowed=(400,))
        # Without this look the next request would make an index of that name, as anybody's and not hidden.
        if made.status == 400 and made.error_type != ALREADY_THERE:
            raise self._cluster.refused(f"PUT /{self._names.state}", made)
        created = self._cluster.ask(
            "PUT", self._document(_CLAIM, "_create"), _source(origin, first_generation), params={"refresh": "true"},
            allowed=(409,),
        )  # fmt: skip
        if created.status != 409:
            return
        found = self.find()
        if takes_over and found is not None and found.origin.owner != origin.owner:
            self._cluster.ask(
                "PUT", self._document(_CLAIM), _source(origin, found.generation + 1), params=found.revision,
                allowed=(409,),
            )  # fmt: skip
            # After a conflict the winner may be this call, whose first answer was lost.
            found = self.find()
        self.refuse_other(found, origin)

    def progress(self) -> BegunBatch | None:
        """The batch that began last; None if none has."""
        found = self._cluster.ask("GET", self._document(_PROGRESS), allowed=(404,), has=_DOCUMENT)
        if found.status == 404:
            return None
        source = found.body["_source"]
        return BegunBatch(version=found.body["_version"], target=source["target"], uuid=source.get("uuid"))

    def begin(self, progress: BegunBatch) -> bool:
        """Note that a batch begins; False if a later one has begun."""
        source = {"target": progress.target, **({} if progress.uuid is None else {"uuid": progress.uuid})}
        noted = self._cluster.ask(
            "PUT", self._document(_PROGRESS), source,
            params={"version": str(progress.version), "version_type": "external_gte"}, allowed=(409,),
        )  # fmt: skip
        return noted.status != 409

    def _document(self, name: str, action: str = "_doc") -> str:
        return f"/{self._names.state}/{action}/{name}"


def _source(origin: Origin, generation: int) -> dict[str, Any]:
    return {"version": 1, "origin": asdict(origin), "generation": generation}
