"""Requests to a table of DynamoDB through boto3: its sessions, its retries, its types."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache, cached_property, lru_cache
from math import log2
from time import monotonic
from typing import Any, Final

from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.patience import brief_seconds, silence_of
from icefloe.redacted_output import raise_outgoing
from icefloe.redaction.hidden import redacted_foreign
from icefloe.storage.clients import LONGEST_CONNECT_SECONDS
from icefloe.storage.options import DynamodbAccess, service_query
from icefloe.storage.store_errors import OTHER_CLOCK, is_of_another_time

__all__ = ["may_pass"]

_LONGEST_REASON: Final = 200
_PASSING: Final = frozenset({
    "BandwidthLimitExceeded", "FederationSourceRetryableException", "IDPCommunicationError", "InternalServerError",
    "InternalServiceException", "LimitExceededException", "OperationTimeoutException", "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException", "RequestLimitExceeded", "RequestThrottled", "RequestThrottledException",
    "RequestTimeout", "RequestTimeoutException", "ServiceUnavailable", "ServiceUnavailableException", "SlowDown",
    "Throttling", "ThrottledException", "ThrottlingException", "TooManyRequestsException",
    "TransactionInProgressException",
})  # fmt: skip
_DENIED: Final = frozenset({
    "AccessDenied", "AccessDeniedException", "ExpiredToken", "ExpiredTokenException", "IncompleteSignatureException",
    "InvalidClientTokenId", "InvalidSignatureException", "MissingAuthenticationTokenException",
    "SignatureDoesNotMatch", "UnrecognizedClientException",
})  # fmt: skip
_TOO_MANY_REQUESTS: Final = 429
_FIRST_SERVER_FAULT: Final = 500


def may_pass(cause: Exception) -> bool:
    """True if the request may succeed later: throttled, unanswered, a wrong clock, credentials not fetched."""
    from botocore import exceptions

    # Containers ask a service of their host for credentials, profiles a program. Clients report their faults by these
    # types. Of a machine's own role botocore only says that there are no credentials, as if it had none.
    unanswered = (
        exceptions.ConnectionError, exceptions.CredentialRetrievalError, exceptions.HTTPClientError,
        exceptions.IncompleteReadError, exceptions.MetadataRetrievalError, OSError,
    )  # fmt: skip
    status = int(_answer_of(cause).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return (
        code_of(cause) in _PASSING
        or status == _TOO_MANY_REQUESTS
        or status >= _FIRST_SERVER_FAULT
        or is_of_another_time(f"{code_of(cause)}: {_message_of(cause)}")
        or isinstance(cause, unanswered)
    )


def code_of(cause: Exception) -> str:
    """The service's own name of the fault; empty if it did not answer."""
    return str(_answer_of(cause).get("Error", {}).get("Code", ""))


def table_error(action: str, url: str, cause: Exception, *, creation: str) -> IcefloeError:
    from botocore import exceptions

    what, code = f"cannot {action} {url}", code_of(cause)
    said = f"{code}: {_message_of(cause)}"
    reason = redacted_foreign(said if code else str(cause)).strip().partition("\n")[0][:_LONGEST_REASON]
    kind: type[IcefloeError] = TerminalError
    if code == "ResourceNotFoundException":
        sentence = f"there is no such table here; correct its name or its region, or create it with: {creation}"
    elif is_of_another_time(said):
        kind = TransientError
        sentence = OTHER_CLOCK.format(code)
    elif code in _DENIED or isinstance(cause, (exceptions.NoCredentialsError, exceptions.PartialCredentialsError)):
        sentence = f"access to this table is denied ({reason}); check the credentials and their rights"
    elif isinstance(cause, exceptions.SSLError):
        sentence = "the certificate of its endpoint is refused; name the file of its authority in AWS_CA_BUNDLE"
    elif may_pass(cause):
        kind = TransientError
        sentence = f"{reason}; try again, and check the endpoint, the network and the table's capacity if it goes on"
    else:
        sentence = f"{reason}; correct the URL or the options of this table"
    return kind(f"{what}: {sentence}", url=url)


def _message_of(cause: Exception) -> str:
    """Without the client's words on its own retries."""
    answer = _answer_of(cause)
    return str(answer.get("Error", {}).get("Message") or answer.get("message", ""))


def _answer_of(cause: Exception) -> Mapping[str, Any]:
    return getattr(cause, "response", None) or {}


_CONNECTIONS: Final = 16
_FIRST_PAUSE_SECONDS: Final = 0.05
"""Boto3's first pause before it sends a request to DynamoDB again; each further one is twice as long."""
_PAUSES_SHARE: Final = 0.5
"""Share of the patience that the pauses take together; the tries share the rest."""


class DynamodbTable:
    """One table, for several threads, given up after the patience in seconds."""

    def __init__(self, access: DynamodbAccess, patience_seconds: float) -> None:
        self.access = access
        self._patience_seconds = patience_seconds
        tries, self._silence_seconds = tries_within(patience_seconds)
        self._client = self._opened(tries, self._silence_seconds)
        self._silence = silence_of(access.url, access.endpoint, access.region)
        self._last_heard: tuple[datetime, float] | None = None

    @property
    def address(self) -> str:
        """URL of the table, with the service that has it."""
        service = self._client.meta
        return self.access.url + service_query(service.endpoint_url, region=service.region_name)

    @contextmanager
    def asked(self, action: str) -> Iterator[Any]:
        """The client, for one request, repeated if unanswered, whatever it did; ClientError if its condition fails."""
        from botocore.exceptions import BotoCoreError, ClientError

        started = monotonic()
        try:
            # One caller has waited for as long as patience lasts. Each further one would wait for as long again.
            yield self._briefly if self._silence.is_recent else self._client
        except (BotoCoreError, ClientError, OSError) as cause:
            if code_of(cause):
                self._silence.end()
            elif monotonic() - started >= self._silence_seconds:
                self._silence.begin(self._patience_seconds)
            if code_of(cause) == "ConditionalCheckFailedException":
                raise
            raise_outgoing(table_error(action, self.access.url, cause, creation=self.access.creation_command))
        self._silence.end()

    def now(self) -> datetime:
        """The time by the clock of the table's service, to the second."""
        if self._last_heard is None:
            with self.asked("read") as client:
                client.get_item(TableName=self.access.table, Key={"place": "-", "key": "-"})
        if self._last_heard is None:
            return datetime.now(UTC)
        # This machine's clock may be set while the process runs; what has passed since the last answer is not changed.
        date, at = self._last_heard
        return date + timedelta(seconds=monotonic() - at)

    @cached_property
    def _briefly(self) -> Any:
        """For a table that was waited for in vain just now."""
        return self._opened(1, brief_seconds(self._patience_seconds))

    def _opened(self, tries: int, silence_seconds: float) -> Any:
        client = table_client(self.access, tries=tries, silence_seconds=silence_seconds)
        client.meta.events.register("after-call.dynamodb", self._hear)
        return client

    def _hear(self, parsed: Mapping[str, Any], **_: object) -> None:
        if date := parsed.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date"):
            self._last_heard = parsedate_to_datetime(date).astimezone(UTC), monotonic()


# A store is opened for each task, and making a client takes longer than most requests.
@lru_cache(maxsize=16)
def opened_table(access: DynamodbAccess, patience_seconds: float) -> DynamodbTable:
    """One for all stores of this process that open it alike."""
    return DynamodbTable(access, patience_seconds)


def tries_within(patience_seconds: float) -> tuple[int, float]:
    """Number of tries that fit into the patience, and seconds that each may be silent.

    >>> tries_within(60.0), tries_within(0.5)
    ((10, 3.0), (3, 0.08333333333333333))
    """
    share = patience_seconds * _PAUSES_SHARE
    tries = 1 + int(log2(1 + share / _FIRST_PAUSE_SECONDS))
    return tries, (patience_seconds - share) / tries


def table_client(access: DynamodbAccess, *, tries: int, silence_seconds: float) -> Any:
    """Boto3's client of a table, for values of Python's own types."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
        from botocore.session import get_session
    except ModuleNotFoundError:
        raise TerminalError(
            "coordination in DynamoDB needs the package boto3, which is not installed here; install "
            "icefloe[dynamodb] wherever tasks run",
        ) from None
    config = Config(
        connect_timeout=min(LONGEST_CONNECT_SECONDS, silence_seconds),
        read_timeout=silence_seconds,
        max_pool_connections=_CONNECTIONS,
        # AWS_ENDPOINT_URL is the object store's: with a store of one's own, the table is Amazon's all the same.
        ignore_configured_endpoint_urls=True,
        # The other modes give up after less than a second if the service is away.
        retries={"mode": "legacy", "total_max_attempts": tries},
    )
    try:
        models = get_session()
        models.register_component("data_loader", _models())
        session = boto3.Session(
            botocore_session=models,
            aws_access_key_id=access.access_key_id or None,
            aws_secret_access_key=access.secret_access_key or None,
            aws_session_token=access.session_token or None,
            region_name=access.region or os.environ.get("AWS_REGION") or None,
        )
        return session.resource("dynamodb", endpoint_url=access.endpoint or None, config=config).meta.client
    except (BotoCoreError, ValueError) as cause:
        sentence = f"cannot open {access.url}: {redacted_foreign(str(cause)).strip()}"
        if may_pass(cause):
            raise_outgoing(TransientError(
                f"{sentence}; try again, and check the source of this machine's credentials if it goes on",
                url=access.url,
            ))  # fmt: skip
        raise_outgoing(TerminalError(
            f"{sentence}; set dynamodb_region and dynamodb_endpoint in the options of the store, or AWS's own "
            "variables", url=access.url,
        ))  # fmt: skip


@cache
def _models() -> Any:
    """Reading the descriptions of services takes 200 ms."""
    from botocore.loaders import create_loader

    return create_loader()
