"""The options of a store, checked before obstore's Rust panics on some or ignores others."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from icefloe.errors import TerminalError
from icefloe.units import is_on

__all__ = ["plain_address", "with_certificates"]

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
    """The options without their vendor's name and a mounted secret's line break.

    Obstore reads the environment itself. Only variables that it would stumble over become options here.
    """
    given = {_VENDOR.sub("", key.lower()): value for key, value in options.items()}
    usable = {key: _checked(key, value, f"the option {key!r} of this store") for key, value in given.items()}
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


def refuse_plain(url: str, endpoint: str, client_options: Mapping[str, str]) -> None:
    is_allowed = is_on(client_options.get("allow_http"), otherwise=False)
    if endpoint.lower().startswith("http://") and not is_allowed:
        raise TerminalError(
            f"the endpoint {plain_address(endpoint)} of {url} is not encrypted, so credentials and rows would cross "
            "the network readable: use https://, or set allow_http to true in the options of this store or "
            f"{_VENDORS.get(url.partition('://')[0], 'aws').upper()}_ALLOW_HTTP in the environment",
            url=url,
            option="allow_http",
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
            option=ROOT_CERTIFICATE,
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
            option=key,
        )
    if key.startswith("endpoint") and _ENDPOINT.fullmatch(value.strip()) is None:
        raise TerminalError(
            f"{place} is no address of a service: write it as https://s3.example.com or http://127.0.0.1:9000, with "
            "the scheme and without credentials",
            option=key,
        )
    return value.strip() if key.startswith("endpoint") else value
