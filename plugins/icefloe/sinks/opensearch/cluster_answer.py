"""The answer of a search cluster to a request, and the faults that one of success may have."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from icefloe.errors import one_line

ALREADY_THERE: Final = "resource_already_exists_exception"
"""The cluster's name of the error of an index that is to be made and is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer of the cluster, or that none came.

    Attributes:
        status: the HTTP status; 0: no answer came.
        body: the parsed document; empty if there is none.
        fault: for people, if it is no success.
    """

    status: int
    body: Mapping[str, Any]
    fault: str = ""

    @classmethod
    def of_error(cls, status: object, body: object) -> Self:
        """The answer that an error of the client has, whose status is a text if none came."""
        number = status if isinstance(status, int) else 0
        document = body if isinstance(body, Mapping) else {}
        described = document.get("error")
        if isinstance(described, Mapping):
            fault = reason_of(described)
        elif isinstance(described, str):
            fault = one_line(ValueError(described))
        elif number:
            fault = f"status {number}"
        else:
            # The client says in its own words that the connection failed.
            fault = f"no answer: {one_line(body)}" if isinstance(body, Exception) else "no answer"
        return cls(status=number, body=document, fault=fault)

    @property
    def is_success(self) -> bool:
        """True for 2xx."""
        return 200 <= self.status < 300

    @property
    def is_passing(self) -> bool:
        """True if the same request may succeed soon: no answer, 429, and errors of the server or a proxy."""
        return self.status in (0, 429, 500, 502, 503, 504)

    @property
    def error_type(self) -> str:
        """The cluster's own name of the error; empty if it named none."""
        error = self.body.get("error")
        return str(error.get("type", "")) if isinstance(error, Mapping) else ""


def missing_shards(answer: Answer) -> str:
    """The fault of a search, a count or a point in time without some of the shards; empty if there is none.

    A shard without a node counts as neither successful nor failed.
    """
    if answer.body.get("timed_out"):
        return "the time was over before all shards had answered"
    shards = answer.body.get("_shards", {})
    missing = shards.get("total", 0) - shards.get("successful", 0)
    return f"{missing} of {shards['total']} shards are missing{_first_reason(shards)}" if missing else ""


def failed_copies(answer: Answer) -> str:
    """The fault of a refresh that failed at some copies of shards; empty if it did not. Not all copies have a node."""
    shards = answer.body.get("_shards", {})
    failed = shards.get("failed", 0)
    return f"{failed} of {shards['total']} copies of shards failed{_first_reason(shards)}" if failed else ""


def reason_of(error: Mapping[str, object]) -> str:
    """The reason that a cluster gives for an error, with its cause."""
    cause = error.get("caused_by")
    further = f": {cause['reason']}" if isinstance(cause, Mapping) and cause.get("reason") else ""
    return one_line(ValueError(f"{error.get('reason') or error.get('type')}{further}"))


def _first_reason(shards: Mapping[str, Any]) -> str:
    return "".join(f": {reason_of(each['reason'])}" for each in shards.get("failures", ())[:1])
