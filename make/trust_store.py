"""The certificates that Python and uv trust, for a Java that brings its own."""

import re
import warnings
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import NoEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509 import load_pem_x509_certificate

__all__ = ["write_trust_store"]

_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def write_trust_store(pem_file: Path, trust_store: Path) -> list[str]:
    """Write the certificates of ``pem_file`` as a PKCS12 trust store; the Java options that name it."""
    with warnings.catch_warnings():
        # Public lists hold a few certificates with odd serial numbers; whether to trust them was decided elsewhere.
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        certificates = [load_pem_x509_certificate(found) for found in _CERTIFICATE.findall(pem_file.read_bytes())]
    entries = [PKCS12Certificate(one, f"{number}".encode()) for number, one in enumerate(certificates)]
    trust_store.write_bytes(serialize_java_truststore(entries, NoEncryption()))
    return [f"-Djavax.net.ssl.trustStore={trust_store}", "-Djavax.net.ssl.trustStoreType=PKCS12"]
