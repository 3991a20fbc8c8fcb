"""The client library's connection to a search cluster: credentials, signatures and certificates."""

import base64
import ssl
from functools import lru_cache
from pathlib import Path
from typing import Any

from icefloe.errors import TerminalError, one_line
from icefloe.sinks.opensearch.opensearch_options import Access


def cluster_client(access: Access) -> Any:
    """A client that sends each request once, signed or with the credentials that the connection has.

    Raises:
        TerminalError: the library is not installed, or the credentials or the authority are missing.
    """
    try:
        from opensearchpy import OpenSearch
    except ModuleNotFoundError:
        raise TerminalError(
            "the opensearch sink needs the package opensearch-py, which is not installed here; install "
            "icefloe[opensearch] wherever tasks run",
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
            "it a role, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
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
