"""An authority of a test's own, and the certificates that it issues for servers on this machine."""

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["HERE", "PrivateAuthority"]

HERE = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
"""The name under which the tests reach their servers."""
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateAuthority:
    """An authority that no machine trusts unless it is told to.

    Attributes:
        folder: of its files.
        bundle: its certificate, as clients are given it.
    """

    folder: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, folder: Path, name: str = "A private authority") -> Self:
        """A new one, with its certificate in the folder."""
        folder.mkdir(parents=True)
        key = ec.generate_private_key(ec.SECP256R1())
        own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only",
             "decipher_only"), False
        )  # fmt: skip
        certificate = (
            _unsigned(own, own, key, timedelta(days=30))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(
                x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage), critical=True
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        (folder / "authority.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        return cls(folder=folder, certificate=certificate, key=key)

    @property
    def bundle(self) -> Path:
        """The file of its certificate."""
        return self.folder / "authority.pem"

    def issue(self, name: x509.GeneralName = HERE, *, holder: str = "A server", ends_in: timedelta = _DAY) -> Path:
        """A certificate of a server or a client, with its key, in one file.

        Args:
            name: under which the server is reached.
            holder: its common name.
            ends_in: negative for a certificate that has expired.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, holder)])
        certificate = (
            _unsigned(subject, self.certificate.subject, key, ends_in)
            .add_extension(x509.SubjectAlternativeName([name]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        path = self.folder / f"server-{certificate.serial_number}.pem"
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(certificate.public_bytes(Encoding.PEM) + secret)
        return path

    def secret(self) -> bytes:
        """Its own key, for a server that shows the authority's certificate as its own."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def serving(self, name: x509.GeneralName = HERE, *, ends_in: timedelta = _DAY) -> ssl.SSLContext:
        """The side of a server that shows such a certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.issue(name, ends_in=ends_in))
        return context


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, ends_in: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 60 * _DAY)
        .not_valid_after(now + ends_in)
    )
