"""Certificates for an exchange over the network: made here, or the companies' own, and always named by a file."""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from pricdr.errors import InputError, require_count
from pricdr.files import PRIVATE, require_absent, write_new
from pricdr.untrusted.opening import read_bounded

LARGEST_FILE: Final = 1 << 20
"""Bytes of PEM text; a bundle of a company's authorities has some thousands."""
_CLOCKS_DIFFER: Final = timedelta(hours=1)


def create_certificate(path: Path, *, days: int = 365) -> tuple[Path, Path]:
    """Write a new key (``path``.key, mode 0600) and a certificate that it signed itself (``path``.crt), and return both.

    The certificate names nobody and no machine: the other side knows it by its fingerprint.
    """
    require_count(days=days)
    key_file, certificate_file = (path.with_name(f"{path.name}{ending}") for ending in (".key", ".crt"))
    require_absent(key_file)
    require_absent(certificate_file)
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pricdr align")])
    now = datetime.now(UTC)
    try:
        ends = now + timedelta(days=days)
    except OverflowError as error:
        raise InputError(f"days must end before the year 10000, got {days}") from error
    certificate = (
        x509.CertificateBuilder(subject_name=name, issuer_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, None)
    )
    write_new(key_file, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), mode=PRIVATE)
    try:
        write_new(certificate_file, certificate.public_bytes(Encoding.PEM))
    except BaseException:
        key_file.unlink(missing_ok=True)  # half a pair is of no use
        raise
    return key_file, certificate_file


def read_certificates(path: Path) -> list[x509.Certificate]:
    """Return the certificates in a PEM file, at least one."""
    try:
        content = read_bounded(path, limit=LARGEST_FILE)
    except OSError as error:
        raise InputError(f"cannot read certificate {path}: {error.strerror}") from error
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise InputError(f"{path} holds no certificate (expected one in PEM)") from error


def read_certificate(path: Path) -> x509.Certificate:
    """Return the one certificate in a PEM file, which must be valid today."""
    certificate, *others = read_certificates(path)
    if others:
        raise InputError(f"{path} holds {len(others) + 1} certificates, and one is needed")
    require_valid(path, certificate)
    return certificate


def require_valid(path: Path, certificate: x509.Certificate) -> None:
    """Refuse a certificate whose time is over or has not come: the handshake would only say so at the other end."""
    now = datetime.now(UTC)
    if now > certificate.not_valid_after_utc:
        raise InputError(f"{path} expired on {certificate.not_valid_after_utc:%Y-%m-%d}: make a new one")
    if now < certificate.not_valid_before_utc:
        raise InputError(f"{path} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC")


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 of a certificate, hexadecimal, for people to compare; OpenSSL computes the same."""
    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()
