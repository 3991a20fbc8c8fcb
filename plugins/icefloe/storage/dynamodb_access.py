"""The settings that open a table of DynamoDB, from options and environment."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final, Self

from icefloe.errors import TerminalError
from icefloe.redaction.hidden import hide
from icefloe.storage.options import plain_address
from icefloe.units import is_on

__all__ = ["COORDINATION", "coordinated"]

COORDINATION: Final = "coordination"
"""The option of a store that names its table: ``dynamodb://TABLE`` or ``dynamodb://TABLE/PREFIX``."""
STORAGE: Final = "storage"
"""The option with the URL of a pipeline's storage: a table that holds checkpoints tells them apart by it."""
PREFIX: Final = "dynamodb_"
"""First part of the options of the table's client, next to those of the store."""
_VARIABLES: Final = "ICEFLOE_DYNAMODB_"
SCHEME: Final = "dynamodb://"
_SHOWN: Final = re.compile(r"[a-z0-9]+://[A-Za-z0-9_./-]*")
_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_ENDPOINT: Final = re.compile(r"https?://[^\s/?#@]+/?", re.IGNORECASE)
_OF_STORE: Final = ("access_key_id", "secret_access_key", "session_token", "region")


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamodbAccess:
    """A table, and the account that opens it. Empty fields come from the AWS configuration.

    Attributes:
        role_arn: assumed first, with ``external_id``.
        allow_http: anything true if the endpoint may be unencrypted.
    """

    table: str
    region: str = ""
    endpoint: str = ""
    access_key_id: str = field(default="", repr=False)
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    role_arn: str = field(default="", repr=False)
    external_id: str = field(default="", repr=False)
    allow_http: str = ""

    @property
    def url(self) -> str:
        return f"{SCHEME}{self.table}"

    @property
    def creation_command(self) -> str:
        """The command that creates the table as icefloe needs it.

        >>> DynamodbAccess(table="icefloe").creation_command.partition(" --attr")[0]
        'aws dynamodb create-table --table-name icefloe'
        """
        place = f" --region {self.region}" if self.region else ""
        place += f" --endpoint-url {self.endpoint}" if self.endpoint else ""
        return (
            f"aws dynamodb create-table --table-name {self.table} --attribute-definitions "
            "AttributeName=place,AttributeType=S AttributeName=key,AttributeType=S --key-schema "
            f"AttributeName=place,KeyType=HASH AttributeName=key,KeyType=RANGE --billing-mode PAY_PER_REQUEST{place}"
        )

    @classmethod
    def of(cls, url: str, options: Mapping[str, str], environ: Mapping[str, str]) -> Self:
        known = [each.name for each in fields(cls) if each.name != "table"]
        given = {key.removeprefix(PREFIX): value for key, value in options.items() if key.startswith(PREFIX)}
        if unknown := sorted(given.keys() - set(known)):
            raise TerminalError(
                f"the option {PREFIX}{unknown[0]} of this store is unknown: expected one of "
                f"{', '.join(PREFIX + name for name in known)}",
                option=PREFIX + unknown[0],
            )
        for name in known:
            variable = environ.get(f"{_VARIABLES}{name.upper()}", "").strip()
            if variable:
                given.setdefault(name, variable)
        given.setdefault("endpoint", environ.get("AWS_ENDPOINT_URL_DYNAMODB", "").strip())
        # The keys of a service of one's own mean nothing to Amazon's.
        if "access_key_id" not in given and not any(key.startswith("endpoint") for key in options):
            own = {name: options.get(name, options.get(f"aws_{name}", "")) for name in _OF_STORE}
            given = {**{name: value for name, value in own.items() if value}, **given}
        hide(given)
        hide({"dynamodb_secret": given.get("secret_access_key", ""), "dynamodb_token": given.get("session_token", "")})
        access = cls(table=_table_of(url), **given)
        if access.endpoint and _ENDPOINT.fullmatch(access.endpoint) is None:
            raise TerminalError(
                "dynamodb_endpoint of this store is no address of a service: write it as http://127.0.0.1:8000, with "
                "the scheme and without credentials",
                option="dynamodb_endpoint",
            )
        if plain_address(access.endpoint) and not is_on(access.allow_http, otherwise=False):
            raise TerminalError(
                f"the endpoint {plain_address(access.endpoint)} of table {access.table} is not encrypted: use "
                "https://, or set dynamodb_allow_http to true in the options of this store",
                option="dynamodb_allow_http",
            )
        return access


def coordinated(options: Mapping[str, str], table_url: str | None, storage_url: str | None) -> dict[str, str]:
    """The options of a pipeline's stores, whose create-if-absent may go to a table.

    >>> coordinated({"region": "eu-west-1"}, "dynamodb://icefloe", None), coordinated({}, None, None)
    ({'region': 'eu-west-1', 'coordination': 'dynamodb://icefloe'}, {})

    Args:
        options: of the store and, beginning with ``dynamodb_``, of the table.
        table_url: the pipeline's ``coordination``; None if its storage honours create-if-absent.
    """
    added = {COORDINATION: table_url, STORAGE: storage_url}
    return {**options, **{key: url for key, url in added.items() if url is not None}}


def without_coordination(options: Mapping[str, str]) -> dict[str, str]:
    """The options of the object store alone.

    >>> without_coordination({"region": "eu-west-1", "coordination": "dynamodb://icefloe", "dynamodb_region": "x"})
    {'region': 'eu-west-1'}
    """
    apart = (COORDINATION, STORAGE)
    return {key: value for key, value in options.items() if key not in apart and not key.startswith(PREFIX)}


def _table_of(url: str) -> str:
    table = url.removeprefix(SCHEME).partition("/")[0]
    if not url.startswith(SCHEME) or _TABLE.fullmatch(table) is None:
        # A text of another form may be anything, a key that was written to the wrong place too.
        shown = repr(url) if _SHOWN.fullmatch(url) else "the URL of coordination or checkpoint"
        raise TerminalError(
            f"{shown} names no table of DynamoDB: write dynamodb://TABLE, with 3 to 255 letters, digits, _, - and ."
        )
    return table
