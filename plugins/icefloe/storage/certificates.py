"""Certificates of object stores: authorities of one's own, and why a client refused a server's certificate."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from icefloe.errors import TerminalError

__all__ = ["with_certificates"]

ROOT_CERTIFICATE: Final = "root_certificate"
_PEM: Final = "-----BEGIN"
# The names of Rust's types in the printed form of the error. Its message says "error sending request" of everything.
_REFUSED: Final = re.compile(r"\bInvalidCertificate\(\s*(?:Other\(\s*OtherError\(\s*)?(\w+)")
_ASKED: Final = re.compile(r"\buri: Some\(\s*(https?://[^/\s,?#@]+)")
_REISSUE: Final = "have a certificate issued that these clients accept, with the host among its alternative names"
_UNTRUSTED: Final = (
    "no authority that is trusted here has signed it",
    f"name the authority's file in {ROOT_CERTIFICATE!r} of this store or in SSL_CERT_FILE",
)
_FAULTS: Final = {
    "UnknownIssuer": _UNTRUSTED,
    # An authority of the same name and another key, such as the one before it was made again.
    "BadSignature": _UNTRUSTED,
    "Expired": ("it has expired", "renew it, or set this machine's clock"),
    "NotValidYet": ("it is not valid yet", "wait, or set this machine's clock"),
    "NotValidForName": ("it was issued for another name", "correct the endpoint, or have it issued for this name"),
    "CaUsedAsEndEntity": ("it is an authority's own certificate", "let the authority issue one for the server"),
    "Revoked": ("it was revoked", "have another one issued"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFault:
    """A certificate that was refused: another try meets it again.

    Attributes:
        endpoint: scheme, host and port of the server.
        reason: the fault of its certificate.
        way_out: what somebody must do.
    """

    endpoint: str
    reason: str
    way_out: str


def certificate_fault(cause: BaseException) -> CertificateFault | None:
    """The fault of a certificate because of which obstore gave up; None if it gave up for another reason."""
    text = str(cause)
    refused = _REFUSED.search(text)
    if refused is None:
        return None
    asked = _ASKED.search(text)
    reason, way_out = _FAULTS.get(refused[1].removesuffix("Context"), (refused[1], _REISSUE))
    return CertificateFault(endpoint=asked[1] if asked else "its endpoint", reason=reason, way_out=way_out)


def with_certificates(options: Mapping[str, str]) -> dict[str, str]:
    """The options with the authorities' certificates in place of the name of a file that holds them.

    Read where the options are known, they reach every process that the options reach.

    Raises:
        TerminalError: there is no such file, or it holds no certificate.
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
