"""Certificates for tests, and the authorities that sign them."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"

BY_ADDRESS = (x509.IPAddress(ipaddress.ip_address(HOST)),)


@dataclass(frozen=True)
class Files:
    """A certificate, its key, and the certificate of its authority."""

    certificate: Path
    key: Path
    authority: Path

    def context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        """What one side uses: it shows this certificate, and accepts those of the same authority."""
        context = ssl.create_default_context(purpose, cafile=str(self.authority))
        # Of Python 3.13. The authorities of clusters have no extension for what their keys may be used, and nor has this one.
        context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
        context.load_cert_chain(self.certificate, self.key)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def variables(self) -> dict[str, str]:
        """The environment with which Ray uses them."""
        return {
            "RAY_USE_TLS": "1",
            "RAY_TLS_SERVER_CERT": str(self.certificate),
            "RAY_TLS_SERVER_KEY": str(self.key),
            "RAY_TLS_CA_CERT": str(self.authority),
        }


class Authority:
    """Signs certificates.

    Args:
        folder: gets its certificate and those that it signs; it is made.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority {folder.name}")])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._path = folder / "authority.pem"
        self._path.write_bytes(self._sign(self._name, self._key.public_key(), (), is_authority=True))

    def issue(self, names: Sequence[x509.GeneralName] = BY_ADDRESS, label: str = "process") -> Files:
        """A certificate for a server with these names, and for clients."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, label)])
        files = Files(self._folder / f"{label}.pem", self._folder / f"{label}.key", self._path)
        files.certificate.write_bytes(self._sign(subject, key.public_key(), names, is_authority=False))
        files.key.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        return files

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, names: Sequence[x509.GeneralName], *, is_authority: bool
    ) -> bytes:
        today = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(today - datetime.timedelta(days=1))
            .not_valid_after(today + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
