"""Options of stores and tables, checked before obstore's Rust panics on some or ignores others."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final, Self

from icefloe.errors import TerminalError
from icefloe.redaction.hidden import hide
from icefloe.units import is_on

__all__ = ["coordinated", "plain_address", "with_certificates"]

_VENDORS: Final = {"s3": "aws", "gs": "google", "abfs": "azure", "abfss": "azure"}
_VENDOR: Final = re.compile(r"^(aws|google|azure)_")
# Keys and certificates have several lines.
_OF_LINES: Final = re.compile("certificate|private_key|service_account|service_account_key|google_credentials")
_HEADER: Final = re.compile(r"[\x20-\x7e]*")
_ENDPOINT: Final = re.compile(r"https?://[^\s/?#@]+(/[^\s?#@]*)?", re.IGNORECASE)
_PORT: Final = re.compile(r":\d+$")
_AMAZONS: Final = re.compile(r"\.amazonaws\.com(\.cn)?:\d+$")
ROOT_CERTIFICATE: Final = "root_certificate"
_PEM: Final = "-----BEGIN"
_BREAKS: Final = "\r\n"


def usable_options(scheme: str, options: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The options without their vendor's name and a mounted secret's line break."""
    given = {_VENDOR.sub("", key.lower()): value for key, value in options.items()}
    usable = {key: _checked(key, value, f"the option {key!r} of this store") for key, value in given.items()}
    # Obstore reads the environment itself. Only variables that it would stumble over become options here.
    for key, name in _variables(scheme, environ):
        if key in usable:
            continue
        value = _checked(key, environ[name], f"the variable {name}")
        if value != environ[name]:
            usable[key] = value
    return usable


def endpoint_of(scheme: str, options: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """From options or environment; empty for the vendor's."""
    given = [value for key, value in options.items() if key.startswith("endpoint")]
    given += [environ[name] for key, name in _variables(scheme, environ) if key.startswith("endpoint")]
    return next((address.strip() for address in given if address.strip()), "")


def service_of(scheme: str, options: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """The service of a store as the end of a URL; arguments as for `endpoint_of`.

    >>> service_of("s3", {"endpoint": "https://S3.example.com/"}, {"AWS_DEFAULT_REGION": "eu-west-1"})
    '?endpoint=s3.example.com:443&region=eu-west-1'
    >>> service_of("abfs", {"account_name": "lake"}, {}), service_of("memory", {}, {})
    ('?account=lake', '')
    """
    known = {key: environ[name].strip() for key, name in _variables(scheme, environ)} | dict(options)
    facts = {}
    if scheme == "s3":
        facts["region"] = known.get("region") or known.get("default_region") or "us-east-1"
    elif scheme.startswith("abfs"):
        facts["account"] = known.get("account_name") or known.get("storage_account_name", "")
    return service_query(endpoint_of(scheme, options, environ), **facts)


def service_query(endpoint: str, **facts: str) -> str:
    """The endpoint, unless it is Amazon's own, and further facts, as the end of a URL."""
    scheme, _, rest = endpoint.strip().rstrip("/").partition("://")
    host, slash, path = rest.partition("/")
    if host and _PORT.search(host) is None:
        host += ":80" if scheme.lower() == "http" else ":443"
    address = "" if _AMAZONS.search(host.lower()) else host.lower() + slash + path
    given = {"endpoint": address, **facts}
    query = "&".join(f"{name}={value}" for name, value in given.items() if value)
    return query and f"?{query}"


def check_endpoint(what: str, endpoint: str) -> None:
    if endpoint and _ENDPOINT.fullmatch(endpoint) is None:
        raise TerminalError(
            f"{what} is no address of a service: write it as https://s3.example.com or http://127.0.0.1:9000, with the "
            "scheme and without credentials"
        )


def check_encrypted(what: str, endpoint: str, allow_http: str | None, *, option: str, variable: str = "") -> None:
    if plain_address(endpoint) and not is_on(allow_http, otherwise=False):
        raise TerminalError(
            f"the endpoint {plain_address(endpoint)} of {what} is not encrypted, so credentials and rows would cross "
            f"the network readable: use https://, or set {option} to true in the options of this store{variable}",
        )


def plain_address(endpoint: str) -> str:
    """Scheme, host and port of an unencrypted endpoint; otherwise empty.

    >>> plain_address("http://127.0.0.1:9000/s3"), plain_address("https://s3.example.com")
    ('http://127.0.0.1:9000', '')
    """
    scheme, _, rest = endpoint.partition("://")
    return f"http://{rest.partition('/')[0]}" if scheme.lower() == "http" else ""


def with_certificates(options: Mapping[str, str]) -> dict[str, str]:
    """The options with certificates in place of their file's name.

    Read here, they reach every process that the options reach.
    """
    given = options.get(ROOT_CERTIFICATE, "").strip()
    if not given or _PEM in given:
        return dict(options)
    try:
        text = Path(given).read_text(errors="replace")
    except (OSError, ValueError):
        text = ""
    if _PEM not in text:
        raise TerminalError(
            f"the option {ROOT_CERTIFICATE!r} of this store (AWS_CA_BUNDLE, or `verify` of an Airflow connection) "
            "holds no certificate and names no file of certificates on this machine: write the path of a PEM file",
        )
    return {**options, ROOT_CERTIFICATE: text}


def _variables(scheme: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    vendor = f"{_VENDORS.get(scheme, scheme)}_"
    for name in environ:
        key = name.lower().removeprefix(vendor)
        if name.lower().startswith(vendor) and _IN_REQUESTS.fullmatch(key):
            yield key, name


_IN_REQUESTS: Final = re.compile(
    "access_key_id|secret_access_key|session_token|token|(default_)?region|endpoint(_url)?(_s3)?|account_(name|key)|"
    "storage_account_name|storage_account_key|storage_(sas_key|token)|client_id|client_secret|tenant_id"
)
"""The variables that obstore reads and puts into requests."""


def _checked(key: str, value: str, place: str) -> str:
    if _OF_LINES.search(key):
        return value
    value = value.strip(_BREAKS)
    if _HEADER.fullmatch(value) is None:
        raise TerminalError(
            f"{place} holds a line break or another character that no request can carry: write its value again, in "
            "one line of plain characters",
        )
    if not key.startswith("endpoint"):
        return value
    check_endpoint(place, value.strip() or " ")
    return value.strip()


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
_OF_STORE: Final = ("access_key_id", "secret_access_key", "session_token", "region")


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamodbAccess:
    """A table, and the account that opens it. Empty fields come from the AWS configuration."""

    table: str
    region: str = ""
    endpoint: str = ""
    access_key_id: str = field(default="", repr=False)
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    allow_http: str = ""  # anything true if the endpoint may be unencrypted

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
            )
        variables = {name: environ.get(f"{_VARIABLES}{name.upper()}", "").strip() for name in known}
        given = {name: value for name, value in variables.items() if value} | given
        given.setdefault("endpoint", environ.get("AWS_ENDPOINT_URL_DYNAMODB", "").strip())
        # The keys of a service of one's own mean nothing to Amazon's.
        if "access_key_id" not in given and not any(key.startswith("endpoint") for key in options):
            own = {name: options.get(name, options.get(f"aws_{name}", "")) for name in _OF_STORE}
            given = {**{name: value for name, value in own.items() if value}, **given}
        hide(given)
        hide({"dynamodb_secret": given.get("secret_access_key", ""), "dynamodb_token": given.get("session_token", "")})
        access = cls(table=_table_of(url), **given)
        check_endpoint(f"{PREFIX}endpoint of this store", access.endpoint)
        check_encrypted(f"table {access.table}", access.endpoint, access.allow_http, option=f"{PREFIX}allow_http")
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
