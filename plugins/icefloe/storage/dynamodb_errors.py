"""Errors of a table of DynamoDB as ours."""

from typing import Final

from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.redaction.hidden import redacted_foreign
from icefloe.storage.aws_faults import code_of, is_throttled, may_pass, message_of
from icefloe.storage.dynamodb_access import DynamodbAccess
from icefloe.storage.refusals import is_of_another_time

_LONGEST_REASON: Final = 200
_DENIED: Final = frozenset({
    "AccessDenied", "AccessDeniedException", "ExpiredToken", "ExpiredTokenException", "IncompleteSignatureException",
    "InvalidClientTokenId", "InvalidSignatureException", "MissingAuthenticationTokenException",
    "SignatureDoesNotMatch", "UnrecognizedClientException",
})  # fmt: skip


def is_refused_condition(cause: Exception) -> bool:
    """True if a condition of a request does not hold."""
    return code_of(cause) == "ConditionalCheckFailedException"


def is_answered(cause: Exception) -> bool:
    """True if the service answered, and was not silent."""
    return bool(code_of(cause))


def overloaded(action: str, access: DynamodbAccess) -> TransientError:
    """The error for a table whose capacity is used up."""
    return TransientError(
        f"cannot {action} {access.url}: the table takes no more requests; try again, and raise its capacity if it "
        "goes on",
        url=access.url,
    )


def table_error(action: str, access: DynamodbAccess, cause: Exception) -> IcefloeError:
    """The error for a request that failed.

    Args:
        action: the verb of the sentence.
        access: to the table.
        cause: the client's error.
    """
    from botocore import exceptions

    what, code = f"cannot {action} {access.url}", code_of(cause)
    said = f"{code}: {message_of(cause)}"
    reason = redacted_foreign(said if code else str(cause)).strip().partition("\n")[0][:_LONGEST_REASON]
    if code == "ResourceNotFoundException":
        return TerminalError(
            f"{what}: there is no such table here; correct its name or its region, or create it with: "
            f"{creation_command(access)}",
            url=access.url,
        )
    if is_of_another_time(said):
        return TransientError(
            f"{what}: the clock of this machine differs from the clock of the store ({code}); set this machine's "
            "clock, and let a time service keep it",
            url=access.url,
        )
    if code in _DENIED or isinstance(cause, (exceptions.NoCredentialsError, exceptions.PartialCredentialsError)):
        return TerminalError(
            f"{what}: access to this table is denied ({reason}); check the credentials and their rights", url=access.url
        )
    if isinstance(cause, exceptions.SSLError):
        return TerminalError(
            f"{what}: the certificate of its endpoint is refused; name the file of its authority in AWS_CA_BUNDLE",
            url=access.url,
        )
    if is_throttled(cause):
        return overloaded(action, access)
    if may_pass(cause):
        return TransientError(
            f"{what}: {reason}; try again, and check the endpoint and the network if it goes on", url=access.url
        )
    return TerminalError(f"{what}: {reason}; correct the URL or the options of this table", url=access.url)


def creation_command(access: DynamodbAccess) -> str:
    """The command that creates a table as icefloe needs it.

    >>> creation_command(DynamodbAccess(table="icefloe")).partition(" --key-schema")[0].partition(" --attr")[0]
    'aws dynamodb create-table --table-name icefloe'
    """
    place = f" --region {access.region}" if access.region else ""
    place += f" --endpoint-url {access.endpoint}" if access.endpoint else ""
    return (
        f"aws dynamodb create-table --table-name {access.table} --attribute-definitions "
        "AttributeName=place,AttributeType=S AttributeName=key,AttributeType=S --key-schema "
        f"AttributeName=place,KeyType=HASH AttributeName=key,KeyType=RANGE --billing-mode PAY_PER_REQUEST{place}"
    )
