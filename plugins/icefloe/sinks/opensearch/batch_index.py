"""The owner of an index, and the index of a batch."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch
from icefloe.sinks.opensearch.cluster import ALREADY_THERE, Cluster, IndexGoneError
from icefloe.sinks.opensearch.indexes import (
    Indexes,
    IndexNames,
    batch_number_of,
    generation_of,
    version_of_batch,
)
from icefloe.sinks.sink import refuse_other_record, superseded

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
        made = self._cluster.ask("PUT", f"/{self._names.state}", _STATE_INDEX, allowed=(400,))
        # Without this look the next request would make an index of that name, as anybody's and not hidden.
        if made.status == 400 and made.error_type != ALREADY_THERE:
            raise self._cluster.refusal(f"PUT /{self._names.state}", made)
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
        return BegunBatch(version=found.body["_version"], target=source["target"], uuid=source.get("uuid"))

    def begin(self, progress: BegunBatch) -> bool:
        """Record that a batch begins; False if a later one has begun."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchIndex:
    """Decides on the index of a batch, and whether it may still be written."""

    claims: Claims
    indexes: Indexes
    url: str

    def begin(self, batch: ProvenBatch) -> Mapping[str, object]:
        """Record that the batch begins, and prepare its index: a new one for a load, otherwise the last one.

        Returns ``index``, its name; ``writer``, the alias to write to; ``version`` of all documents of the batch; and
        ``destination``, the index in words, with its uuid, if known. Or ``replaced_by`` alone, for a replay from before
        the present load: the index of that load.
        """
        if not batch.identity:
            raise TerminalError(
                f"{self.url} holds one document per key, and table {batch.origin.table} has no identifier columns; set "
                "identifier_columns in the pipeline"
            )
        generation = self.claims.of(batch.origin).generation
        version = version_of_batch(generation, batch.batch_number)
        before = self.claims.progress()
        refuse_other_record(
            batch, None if before is None else (generation_of(before.version), batch_number_of(before.version)),
            generation, place=self.url, is_filled=self.indexes.is_in_use,
            elsewhere="this is another cluster, or its indexes were removed; correct sink.url",
        )  # fmt: skip
        if before is not None and (self._names.version_of(before.target) or 0) > version:
            return {"replaced_by": before.target}
        target = self._names.of_load(version) if before is None or batch.begins_anew else before.target
        if before is not None and before.version < version and target == before.target and not batch.is_replay:
            self._refuse_other_index(batch, before)
        # Parts that an earlier try delivered are not sent again, so they must be in the very index that it found.
        is_again = before is not None and before.version == version and not batch.is_replay
        noted = BegunBatch(version=version, target=target, uuid=before.uuid if before and is_again else None)
        is_latest = before is None or before.version <= version
        if is_latest and not self.claims.begin(noted):
            raise superseded(batch, self.url)
        begun: dict[str, object] = {"index": target, "writer": self._names.writer(target), "version": version}
        with self.while_it_stays(batch, begun):
            # An index of the batch's own version is for this batch to make, also after a kill right before.
            is_new = before is None or batch.begins_anew or target == self._names.of_load(version)
            uuid = self.indexes.prepare(target, is_new=is_new, uuid=noted.uuid, batch=batch)
            if uuid != noted.uuid and is_latest and not self.claims.begin(replace(noted, uuid=uuid)):
                raise superseded(batch, self.url)
        return begun if uuid is None else {**begun, "destination": f"index {target} ({uuid})"}

    @contextmanager
    def while_it_stays(self, batch: ProvenBatch, begun: Mapping[str, object]) -> Iterator[None]:
        """Say of a missing index that a later load has removed it, or the way out."""
        try:
            yield
        except IndexGoneError:
            self.refuse_superseded(batch, begun)
            raise self._gone(batch, begun["index"]) from None

    def refuse_superseded(self, batch: ProvenBatch, begun: Mapping[str, Any]) -> None:
        """Raise SupersededError if a later batch has begun, unless a replay has the same index."""
        latest = self.claims.progress()
        if latest is None or latest.version <= begun["version"]:
            return
        if not batch.is_replay or latest.target != begun["index"]:
            raise superseded(batch, self.url)

    def _refuse_other_index(self, batch: ProvenBatch, before: BegunBatch) -> None:
        """Raise unless the index is the one that the last batch left."""
        uuid = self.indexes.uuid(before.target)
        if None not in (uuid, before.uuid) and uuid != before.uuid:
            name, found = batch.origin.pipeline, batch_number_of(before.version)
            raise TerminalError(
                f"index {before.target} of {self.url.rpartition('/')[0]} is not the one that batch {found} of {name} "
                "was written to: it was restored or made again, and may lack batches; bring the last ones that it may "
                f"lack by `icefloe deliver {name} --batches FIRST-{found}`, or run `icefloe reset {name}`, which loads "
                "the table"
            )

    def _gone(self, batch: ProvenBatch, target: object) -> IndexGoneError:
        return IndexGoneError(
            f"the index behind {self.url.rpartition('/')[0]}/{target} was removed while batch {batch.batch_number} "
            f"was written to it; run `icefloe reset {batch.origin.pipeline}`, which loads the table again"
        )

    @property
    def _names(self) -> IndexNames:
        return self.indexes.names
