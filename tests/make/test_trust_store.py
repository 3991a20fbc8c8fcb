from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

from make.trust_store import write_trust_store


def authority(name: str) -> x509.Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    start = datetime(2024, 1, 1, tzinfo=UTC)
    unsigned = x509.CertificateBuilder(
        issuer_name=subject,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=start,
        not_valid_after=start + timedelta(days=1),
    )
    return unsigned.sign(key, hashes.SHA256())


def test_every_certificate_of_the_file_is_in_the_trust_store(tmp_path: Path) -> None:
    trusted = [authority("one"), authority("two")]
    pem_file = tmp_path / "certificates.pem"
    pem_file.write_bytes(b"# a comment\n" + b"".join(one.public_bytes(Encoding.PEM) for one in trusted))
    options = write_trust_store(pem_file, tmp_path / "trust_store.p12")
    written = load_pkcs12((tmp_path / "trust_store.p12").read_bytes(), None).additional_certs
    assert {one.certificate for one in written} == set(trusted)
    assert options[0] == f"-Djavax.net.ssl.trustStore={tmp_path / 'trust_store.p12'}"
