"""Requests to a search cluster, and their errors."""

import base64
import json
import logging
import os
import ssl
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from random import uniform
from ssl import SSLEOFError
from typing import Any, Final, Self

from icefloe.errors import TerminalError, TransientError, one_line
from icefloe.patience import patience_seconds
from icefloe.sinks.opensearch.opensearch_options import Access

_LOG: Final = logging.getLogger(__name__)
_JSON: Final = {"content-type": "application/json"}
_LINES: Final = {"content-type": "application/x-ndjson"}
_BLOCKED: Final = "cluster_block_exception"
_CLOSED: Final = "index_closed_exception"
_ALREADY_THERE: Final = "resource_already_exists_exception"
_NO_INDEX: Final = "index_not_found_exception"
_NO_ALIAS: Final = "invalid_index_name_exception"
"""The cluster's name of the error of an alias with capital letters of which it cannot make an index."""
_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 10.0
_LONGEST_CALL_SECONDS: Final = 60.0
_CUT: Final = "its answers are cut"
_NO_JSON: Final = "it answers with a page, as proxies and logins do, or its JSON is cut"
_NO_ID_YET: Final = "_na_"
_LOOKED_UP: Final = 500
"""Documents in one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer of the cluster, or none."""

    status: int  # the HTTP status; 0: no answer came
    body: Mapping[str, Any]
    fault: str = ""  # for people, if it is no success

    @classmethod
    def of_error(cls, status: object, body: object) -> Self:
        """The answer in a client's error, whose status is a text if none came."""
        number = status if isinstance(status, int) else 0
        document = body if isinstance(body, Mapping) else {}
        if described := document.get("error"):
            fault = reason_of(described)
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
        """True if a retry may help: no answer, 429, and errors of the server or a proxy."""
        return self.status in (0, 429, 500, 502, 503, 504)

    @property
    def error_type(self) -> str:
        """The cluster's own name of the error, or empty."""
        error = self.body.get("error")
        return str(error.get("type", "")) if isinstance(error, Mapping) else ""


def missing_shards(answer: Answer) -> str:
    """The fault of an answer without some shards, or empty."""
    # A shard without a node counts as neither successful nor failed.
    if answer.body.get("timed_out"):
        return "the time was over before all shards had answered"
    shards = answer.body.get("_shards", {})
    missing = shards.get("total", 0) - shards.get("successful", 0)
    return f"{missing} of {shards['total']} shards are missing{_first_reason(shards)}" if missing else ""


def failed_copies(answer: Answer) -> str:
    """The fault of a refresh that failed at some copies, or empty. Not all copies have a node."""
    shards = answer.body.get("_shards", {})
    failed = shards.get("failed", 0)
    return f"{failed} of {shards['total']} copies of shards failed{_first_reason(shards)}" if failed else ""


def reason_of(error: object) -> str:
    """A cluster's reason for an error, with its cause."""
    if not isinstance(error, Mapping):
        return one_line(ValueError(error))
    cause = error.get("caused_by")
    further = f": {cause['reason']}" if isinstance(cause, Mapping) and cause.get("reason") else ""
    return one_line(ValueError(f"{error.get('reason') or error.get('type')}{further}"))


def _first_reason(shards: Mapping[str, Any]) -> str:
    return "".join(f": {reason_of(each['reason'])}" for each in shards.get("failures", ())[:1])


def cluster_client(access: Access) -> Any:
    """A client that sends each request once, with the connection's credentials."""
    try:
        from opensearchpy import OpenSearch
    except ModuleNotFoundError:
        raise TerminalError(
            "the opensearch sink needs the package opensearch-py, which is not installed here; install "
            "icefloe[opensearch] wherever tasks run"
        ) from None
    options: dict[str, Any] = {"max_retries": 0, "pool_maxsize": 4}
    if access.aws_region:
        options["http_auth"] = _signer(access.aws_region, access.aws_service)
    elif access.api_key:
        options["headers"] = {"authorization": f"ApiKey {access.api_key}"}
    elif access.user:
        # The client itself writes Latin-1, in which clusters read another password, and fails at other letters.
        credentials = f"{access.user}:{access.password or ''}".encode()
        options["headers"] = {"authorization": f"Basic {base64.b64encode(credentials).decode()}"}
    if access.url.startswith("https://"):
        options["ssl_context"] = _tls(access.authority)
    return OpenSearch(access.url, **options)


def _signer(region: str, service: str) -> Any:
    from botocore.session import Session
    from opensearchpy import Urllib3AWSV4SignerAuth

    credentials = Session().get_credentials()
    if credentials is None:
        raise TerminalError(
            "the sink's connection has aws_region, but this machine has no AWS credentials to sign requests with; give "
            "it a role, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return Urllib3AWSV4SignerAuth(credentials, region, service)


# A sink is opened for each part, and reading all authorities of a machine takes 20 ms.
@lru_cache(maxsize=8)
def _tls(authority: object) -> ssl.SSLContext:
    if not authority:
        return ssl.create_default_context()
    text = str(authority)
    is_path = "-----BEGIN" not in text
    try:
        return ssl.create_default_context(cadata=Path(text).read_text() if is_path else text)
    except (OSError, ValueError) as cause:
        raise TerminalError(
            f"ca_certs in the extra of the sink's connection is {text if is_path else 'no certificate'}"
            f"{' and no file with a certificate' if is_path else ''} ({one_line(cause)}); write the path of a PEM file "
            "on this machine",
            key="sink.conn_id",
        ) from None


class IndexGoneError(TerminalError):
    """An index that existed is gone."""

    @classmethod
    def of(cls, url: str, name: str) -> Self:
        """The error of an index, by name or alias."""
        return cls(
            f"the index behind {url}/{name} is gone: somebody removed it; run `icefloe reset` for the pipeline, which "
            "loads the table again"
        )


class Pauses:
    """Growing pauses with jitter, until the patience ends without progress."""

    def __init__(self) -> None:
        self.end()

    def end(self) -> None:
        """Something went on: begin with short pauses again."""
        self._pause = _FIRST_PAUSE_SECONDS
        self._deadline = time.monotonic() + patience_seconds(os.environ)

    def wait(self) -> bool:
        """Wait for the next try; False: the patience is over."""
        if time.monotonic() >= self._deadline:
            return False
        pause = uniform(0.5, 1.0) * self._pause  # noqa: S311 - jitter, no secret
        time.sleep(min(pause, max(self._deadline - time.monotonic(), 0.0)))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        return True


class Cluster:
    """A connection to a search cluster, for several threads."""

    def __init__(self, access: Access) -> None:
        self.url = access.url
        self._timeout = min(patience_seconds(os.environ), _LONGEST_CALL_SECONDS)
        self._client = cluster_client(access)

    def ask(
        self,
        method: str,
        path: str,  # begins with ``/``
        body: Mapping[str, object] | None = None,
        *,
        params: Mapping[str, str] | None = None,
        allowed: Collection[int] = (),  # statuses besides 2xx that are answers for the caller
        has: Collection[str] = (),  # fields of a success, as each search cluster gives them
        unless: Callable[[Answer], str] | None = None,  # the fault of a 2xx that is no answer
    ) -> Answer:
        """Send a request that may be repeated, until an answer comes. TerminalError: another status that stays."""
        pauses = Pauses()
        while True:
            answer = self._send(method, path, None if body is None else json.dumps(body), params or {}, _JSON)
            missing = [name for name in has if name not in answer.body]
            if answer.is_success and missing:
                raise self._no_cluster(f"{method} {path}", f"has no {missing[0]!r}")
            if unless is not None and answer.is_success and (fault := unless(answer)):
                answer = replace(answer, status=503, fault=fault)
            if answer.is_success or answer.status in allowed:
                return answer
            self.refuse_index_error(path.split("/")[1], answer.error_type, answer.fault)
            if not answer.is_passing:
                raise self.refusal(f"{method} {path}", answer)
            _LOG.info("%s: %s %s is sent again: %s", self.url, method, path, answer.fault)
            if not pauses.wait():
                raise self.silent(answer)

    def make_index(self, name: str, body: Mapping[str, object]) -> None:
        """Make an index unless it is there."""
        made = self.ask("PUT", f"/{name}", body, allowed=(400,))
        if made.status == 400 and made.error_type != _ALREADY_THERE:
            raise self.refusal(f"PUT /{name}", made)

    def send_lines(self, path: str, lines: bytes, params: Mapping[str, str]) -> Answer:
        """Send a bulk request once, whatever comes."""
        return self._send("POST", path, lines, params, _LINES)

    def refuse_index_error(self, name: str, error_type: str, reason: str) -> None:
        """Raise if an error is the index's own: missing, closed or blocked."""
        place = f"{self.url}/{name}"
        # Waiting would not help: the block stays until somebody frees space or opens the index.
        if error_type == _CLOSED:
            raise TransientError(f"the index behind {place} is closed; open it with POST INDEX/_open, then run again")
        if error_type == _BLOCKED:
            raise TransientError(
                f"{place} takes no writes ({reason}); free space on its disks, then remove the block if it stays "
                "(index.blocks.read_only_allow_delete, index.blocks.write)"
            )
        if error_type in (_NO_INDEX, _NO_ALIAS):
            raise IndexGoneError.of(self.url, name)

    def refusal(self, what: str, answer: Answer) -> TerminalError:
        """The error of an answer that a retry would get again."""
        return TerminalError(
            f"{self.url} refuses {what} ({answer.status}: {answer.fault}); correct what it names or the credentials, "
            "or give the user of the sink's connection the rights that docs/sinks/opensearch.md names"
        )

    def silent(self, answer: Answer) -> TransientError:
        """The error after the last try."""
        return TransientError(
            f"the search cluster {self.url} gave no good answer for too long ({answer.fault or _CUT}); run again when "
            "it is well and sink.url or its connection leads to it, with a larger ICEFLOE_PATIENCE_SECONDS if it is "
            "only slow"
        )

    def close(self) -> None:
        """Give back the connections."""
        self._client.close()

    def _send(
        self, method: str, path: str, body: str | bytes | None, params: Mapping[str, str], headers: Mapping[str, str]
    ) -> Answer:
        from opensearchpy.exceptions import SerializationError, SSLError, TransportError

        try:
            found = self._client.transport.perform_request(
                method, path, params={**params, "request_timeout": self._timeout}, body=body, headers=dict(headers)
            )
        except SSLError as error:
            fault = getattr(error.info, "args", (error,))[0]
            if isinstance(fault, SSLEOFError):
                # A server that ends in the middle of a handshake may be one that is about to start again.
                return Answer.of_error(error.status_code, error.info)
            raise TerminalError(
                f"TLS with the search cluster {self.url} failed ({one_line(fault)}); name the authority of its "
                "certificate in ca_certs of the connection's extra, or correct the port, or write http:// without TLS"
            ) from None
        except TransportError as error:
            return Answer.of_error(error.status_code, error.info)
        except SerializationError:
            # Its text is the whole page, or a part of somebody's documents.
            return Answer(status=0, body={}, fault=_NO_JSON)
        if not isinstance(found, Mapping):
            raise self._no_cluster(f"{method} {path}", "is no JSON object")
        return Answer(status=200, body=found)

    def _no_cluster(self, request: str, fault: str) -> TerminalError:
        return TerminalError(
            f"{self.url} is no search cluster: its answer to {request} {fault}; correct sink.url or the host of the "
            "sink's connection, or the proxy before the cluster"
        )


def is_elasticsearch(cluster: Cluster) -> bool:
    """True if the cluster is not OpenSearch."""
    found = _facts(cluster).get("version")
    return isinstance(found, Mapping) and "number" in found and found.get("distribution") != "opensearch"


def cluster_uuid(cluster: Cluster) -> str | None:
    """The cluster's own id, if any yet."""
    found = _facts(cluster).get("cluster_uuid")
    return found if isinstance(found, str) and found != _NO_ID_YET else None


def _facts(cluster: Cluster) -> Mapping[str, Any]:
    return cluster.ask("GET", "/", allowed=(401, 403, 404)).body


def stored_documents(cluster: Cluster, name: str, ids: Sequence[str]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Some of the documents of each id in order: ``_id``, ``found``; if it is there, ``_version`` and ``_source``."""
    # Ids whose shard moves are asked for again.

    def fault(answer: Answer) -> str:
        error = next((each["error"] for each in answer.body["docs"] if "error" in each), None)
        if error is None:
            return ""
        cluster.refuse_index_error(name, error["type"], reason_of(error))
        return reason_of(error)

    for first in range(0, len(ids), _LOOKED_UP):
        chunk = {"ids": list(ids[first : first + _LOOKED_UP])}
        yield cluster.ask("POST", f"/{name}/_mget", chunk, has=("docs",), unless=fault).body["docs"]
