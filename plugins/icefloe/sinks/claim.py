"""The owner of a folder that a sink writes to: one document at its root, created by the first writer."""

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from pydantic import ConfigDict

from icefloe.documents import STRICT, dump_document, load_document
from icefloe.errors import TerminalError
from icefloe.storage.keys import join_url
from icefloe.storage.store import Store

__all__ = ["CLAIM", "load_claim"]

CLAIM: Final = "_icefloe.json"
"""Spark and Arrow do not take files for data whose names begin with an underscore."""
_KEYS: Final = "sink.path of its own, or a changelog.path if batches are staged there"


class PathClaimedError(TerminalError):
    """The folder belongs to another pipeline, or to another start of this one."""

    url: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkClaim:
    """``_icefloe.json``: the writer below a folder.

    Attributes:
        owner: the id of the checkpoint whose batches are delivered there.
        pipeline: its name; pipeline and table are for people.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    owner: str
    pipeline: str
    table: str


def claim_path(store: Store, claim: SinkClaim, *, keys: str = _KEYS) -> None:
    """Claim a path for an owner unless another owner has it; if many owners claim it at once, one gets it.

    Args:
        store: the folder.
        claim: the owner.
        keys: the key of a pipeline file that names the folder, for people.

    Raises:
        PathClaimedError: the path is another owner's.
    """
    found = load_claim(store)
    if found is None and not store.create(CLAIM, dump_document(claim)):
        found = load_claim(store)
    _refuse_other(found, store, claim, keys)


def refuse_claimed(store: Store, claim: SinkClaim) -> None:
    """Raise if `claim_path` would, without writing anything.

    Raises:
        PathClaimedError: the path is another owner's.
    """
    _refuse_other(load_claim(store), store, claim, _KEYS)


def _refuse_other(found: SinkClaim | None, store: Store, claim: SinkClaim, keys: str) -> None:
    if found is not None and found.owner != claim.owner:
        url = join_url(store.url, CLAIM)
        raise PathClaimedError(
            f"{store.url} belongs to pipeline {found.pipeline} for table {found.table} with the checkpoint "
            f"{found.owner}, as {url} says, not to checkpoint {claim.owner} of pipeline {claim.pipeline}; give each "
            f"pipeline, and each new start of one, a {keys}", url=store.url, owner=found.owner,
        )  # fmt: skip


def load_claim(store: Store) -> SinkClaim | None:
    """The claim of a path; None if nobody has claimed it.

    Raises:
        TerminalError: it is damaged, or was written by a newer release.
    """
    data = store.find(CLAIM)
    return None if data is None else load_document(SinkClaim, data, what=f"the claim {join_url(store.url, CLAIM)}")
