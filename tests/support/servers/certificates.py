"""Certificates as a cluster's issuer makes them: a CA, one for a server at 127.0.0.1, others for clients."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"


class Issuer:
    """Writes `<name>.crt` and `<name>.key` into its folder; `ca` is the file of its own certificate."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._name, self._key = folder, _named(name), ec.generate_private_key(ec.SECP256R1())
        made = _builder(self._name, self._key).issuer_name(self._name).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.ca = folder / f"{name}.crt"
        self.ca.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))

    def issue(self, name: str, hosts: tuple[str, ...] = (HOST,)) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
                 for host in hosts]
        made = _builder(_named(name), key).issuer_name(self._name).add_extension(
            x509.SubjectAlternativeName(names), critical=False)
        certificate, private = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))
        private.write_bytes(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return certificate, private


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder().subject_name(subject).public_key(key.public_key()).serial_number(
        x509.random_serial_number()).not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
