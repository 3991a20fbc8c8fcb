"""Keys of the documents of one batch, below its folder in the shuffle location."""

from collections.abc import Iterable
from typing import Final

from icefloe.documents import digest_of

__all__ = ["split_plan_url"]

PLAN: Final = "plan.json"
COALESCE_PLAN: Final = "ranges.json"


def plan_url(batch_url: str) -> str:
    """URL of a batch's plan.

    >>> plan_url("file:///var/icefloe/shuffle/flights/7")
    'file:///var/icefloe/shuffle/flights/7/plan.json'
    """
    return f"{batch_url}/{PLAN}"


def split_plan_url(url: str) -> str:
    """Folder of the batch whose plan is at ``url``.

    >>> split_plan_url("file:///var/icefloe/shuffle/flights/7/plan.json")
    'file:///var/icefloe/shuffle/flights/7'
    """
    folder, slash, name = url.rpartition("/")
    if not slash or name != PLAN:
        raise ValueError(f"expected the URL of a {PLAN}, found {url!r}")
    return folder


def tasks_key(digests: Iterable[str]) -> str:
    """Key of the documents of all map tasks of a plan, which contains a digest of their digests.

    >>> tasks_key(["e3b0c44298fc1c149afbf4c8996fb924"])
    'tasks/2ae1019cef8eccac.json'
    """
    return f"tasks/{digest_of(''.join(digests).encode())[:16]}.json"


def extents_key(epoch: int) -> str:
    """Key of the extents in an epoch of the map outputs."""
    return f"extents/{epoch}.extents"


def moves_key(range_id: int) -> str:
    """Key of the rows that a hash range found to cancel across identities."""
    return f"moves/{range_id:05d}.moves"


def result_key(range_id: int) -> str:
    return f"results/{range_id:05d}.json"


def begun_key() -> str:
    """Key of the facts that the first try of a delivery found."""
    return "deliveries/begun.json"


def delivery_key(number: int | None) -> str:
    """Key of the delivery of a part; None: of the whole batch."""
    return "delivery.json" if number is None else f"deliveries/{number:05d}.json"


def phase_key(phase: str) -> str:
    return f"phases/{phase}.json"


def error_key(phase: str, attempt: str) -> str:
    return f"errors/{phase}-{attempt}.json"
