"""Certificates of a catalog's server or of a table's storage that a client refused: another try meets them again."""

import re
import ssl
from typing import Final

from icefloe.errors import TerminalError
from icefloe.redaction.hidden import redacted_foreign

# Arrow has one type for every fault of a network. Curl's number says which it was: 60 is a refused certificate, and 77
# is a file of authorities that cannot be read.
_BY_CURL: Final = re.compile(r"\bcurlCode: (?:60|77)\b,?\s*(?:[^;]*; Details: )?(.{0,200})", re.DOTALL)


def refused_certificate(cause: BaseException) -> str | None:
    """Why a certificate was refused, in the client's words; None if the error has another reason.

    >>> refused_certificate(OSError("AWS Error NETWORK_CONNECTION: curlCode: 28, Timeout was reached"))
    """
    if (by_curl := _BY_CURL.search(str(cause))) is not None:
        return " ".join(by_curl[1].split())
    seen: set[int] = set()
    below: BaseException | None = cause
    while below is not None and id(below) not in seen:
        seen.add(id(below))
        if isinstance(below, ssl.SSLCertVerificationError):
            return below.verify_message
        # urllib3 and requests hand the reason on as an argument, not as a cause.
        inner = (getattr(below, "reason", None), *below.args, below.__cause__, below.__context__)
        below = next((each for each in inner if isinstance(each, BaseException)), None)
    return None


def refuse_untrusted(cause: BaseException, file: str, *, table: str, path: str | None = None) -> None:
    """Raise if a file of a table was not read because of the certificate of its storage.

    Args:
        cause: the error of the client.
        file: for the sentence.
        table: name of the table.
        path: location of the file.

    Raises:
        TerminalError: another try meets the same certificate.
    """
    refused = refused_certificate(cause)
    if refused is not None:
        raise TerminalError(
            f"{file} was not read: the certificate of its storage is refused ({redacted_foreign(refused)}); name the "
            "authority's file in SSL_CERT_FILE of this process, or renew the certificate",
            table=table,
            path=path,
        ) from cause
