"""Errors of the OpenSearch client, as the cluster's answers make them."""

from opensearchpy.exceptions import ConnectionError as LostConnectionError
from opensearchpy.exceptions import TransportError

__all__ = ["conflict", "error_of", "lost_connection", "missing"]


def lost_connection() -> Exception:
    """The error of the client when a connection breaks."""
    return LostConnectionError("N/A", "the connection broke", OSError())


def error_of(status: int, kind: str, reason: str) -> TransportError:
    """An answer of a status; without a kind, one that has no body."""
    return TransportError(status, kind, {"error": {"type": kind, "reason": reason}, "status": status} if kind else "")


def missing(name: str) -> TransportError:
    return error_of(404, "index_not_found_exception", f"no such index [{name}]")


def conflict(key: str) -> TransportError:
    return error_of(409, "version_conflict_engine_exception", f"[{key}]: version conflict")
