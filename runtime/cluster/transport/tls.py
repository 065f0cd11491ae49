"""TLS between nodes, with the certificates that Ray itself uses when its own TLS is switched on.

Ray asks both sides for a certificate of its authority, and its clients look for the address that they connect to among the names
in the server's certificate. So a certificate that Ray's processes accept is accepted here, and no other.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from actors.errors import ClusterError

USE_TLS = "RAY_USE_TLS"
CERTIFICATE = "RAY_TLS_SERVER_CERT"
KEY = "RAY_TLS_SERVER_KEY"
AUTHORITY = "RAY_TLS_CA_CERT"


@dataclass(frozen=True)
class Tls:
    """What the two sides of a connection use. Each shows its certificate, and wants one of the same authority.

    Attributes:
        client: for connections that this process makes.
        server: for those that it accepts.
    """

    client: ssl.SSLContext
    server: ssl.SSLContext


def ray_tls() -> Tls | None:
    """The settings of TLS in Ray's environment variables; None where they do not switch it on.

    Raises:
        ClusterError: a variable is missing, or a file that one names cannot be used.
    """
    # As Ray reads it.
    if os.environ.get(USE_TLS, "").lower() not in ("1", "true"):
        return None
    files = [_file(variable) for variable in (CERTIFICATE, KEY, AUTHORITY)]
    client = _context(ssl.PROTOCOL_TLS_CLIENT, *files)
    client.sslobject_class = _CheckedByName
    return Tls(client, _context(ssl.PROTOCOL_TLS_SERVER, *files))


def _file(variable: str) -> Path:
    name = os.environ.get(variable)
    if not name:
        raise ClusterError(f"{USE_TLS} is set, and {variable} is not: Ray's TLS needs {CERTIFICATE}, {KEY} and {AUTHORITY}")
    try:
        Path(name).read_bytes()
    except OSError as error:
        raise ClusterError(f"{variable} names the file {name}, which cannot be read: {error.strerror}") from error
    return Path(name)


def _context(protocol: int, certificate: Path, key: Path, authority: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    # The names in a certificate are checked as gRPC does, see below.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    # As gRPC does: the authority may be one that another one has signed.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(authority)
    except ssl.SSLError as error:
        raise ClusterError(f"{AUTHORITY} names the file {authority}, which is no certificate: {_reason(error)}") from error
    try:
        # Without a password OpenSSL would ask the terminal for that of an encrypted key.
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        raise ClusterError(
            f"{CERTIFICATE} names the file {certificate} and {KEY} names {key}, which are no certificate and its key: "
            f"{_reason(error)}"
        ) from error
    return context


def _reason(error: ssl.SSLError) -> str:
    return error.reason or str(error)


class _CheckedByName(ssl.SSLObject):
    """A client's side that checks the names in the server's certificate as gRPC does.

    Python's own check wants the address of a server as an address. Many certificates for Ray have it as the name of a host, also
    those that Ray makes itself, and gRPC takes both.
    """

    def do_handshake(self) -> None:
        """Shake hands. Raises SSLCertVerificationError when the certificate is that of another server."""
        super().do_handshake()
        named = cast(Sequence[tuple[str, str]], (self.getpeercert() or {}).get("subjectAltName", ()))
        names = [value for kind, value in named if kind in ("DNS", "IP Address")]
        host = self.server_hostname or ""
        if not is_named(host, names):
            raise ssl.SSLCertVerificationError(1, f"the server's certificate is for {', '.join(names) or 'no host'}, not {host}")


def is_named(host: str, names: Iterable[str]) -> bool:
    """True when a certificate with these names is that of a host: one is the same, or stands for it, as `*.example.com`."""
    found = {_normal(name) for name in names if name}
    _, _, domain = host.partition(".")
    return _normal(host) in found or (bool(domain) and not _is_address(host) and f"*.{domain.lower()}" in found)


def _normal(name: str) -> str:
    return str(ipaddress.ip_address(name)) if _is_address(name) else name.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
