"""Certificates for an exchange over the network: created here or issued by a company, always read from files."""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from pricdr.errors import InputError, OutputError, require_count
from pricdr.files import PRIVATE, require_absent, write_new
from pricdr.untrusted.opening import read_bounded

LARGEST_FILE: Final = 1 << 20
"""The most bytes of PEM text that are read; a bundle of a company's authorities has some thousands."""
_CLOCK_SKEW: Final = timedelta(hours=1)


def create_certificate(path: Path, *, days: int = 365) -> tuple[Path, Path]:
    """Write a new key (``path``.key, mode 0600) and a self-signed certificate (``path``.crt); return both paths.

    The certificate names no company and no host: the other side recognises it by its fingerprint.
    """
    require_count(days=days)
    if not path.name:
        raise OutputError(f"{path} is a folder: give a name for the key and the certificate")
    key_file, certificate_file = (path.with_name(f"{path.name}{suffix}") for suffix in (".key", ".crt"))
    require_absent(key_file)
    require_absent(certificate_file)
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pricdr align")])
    now = datetime.now(UTC)
    try:
        expires = now + timedelta(days=days)
    except OverflowError as error:
        raise InputError(f"the certificate must expire before the year 10000, got days={days}") from error
    certificate = (
        x509.CertificateBuilder(subject_name=name, issuer_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(expires)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, None)
    )
    write_new(key_file, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), mode=PRIVATE)
    try:
        write_new(certificate_file, certificate.public_bytes(Encoding.PEM))
    except BaseException:
        key_file.unlink(missing_ok=True)  # a key without its certificate is useless
        raise
    return key_file, certificate_file


def read_certificates(path: Path) -> list[x509.Certificate]:
    """Return the certificates in a PEM file, which must hold at least one."""
    try:
        content = read_bounded(path, limit=LARGEST_FILE)
    except OSError as error:
        raise InputError(f"cannot read certificate {path}: {error.strerror}") from error
    try:
        return x509.load_pem_x509_certificates(content)
    except (ValueError, x509.InvalidVersion) as error:
        raise InputError(f"{path} does not contain a valid PEM certificate") from error


def read_certificate(path: Path) -> x509.Certificate:
    """Return the one certificate in a PEM file, which must be valid today."""
    certificate, *others = read_certificates(path)
    if others:
        raise InputError(f"{path} contains {len(others) + 1} certificates; exactly one is needed")
    require_valid(path, certificate)
    return certificate


def require_valid(path: Path, certificate: x509.Certificate) -> None:
    """Refuse a certificate that has expired or is not valid yet: the handshake would only tell the other side."""
    now = datetime.now(UTC)
    if now > certificate.not_valid_after_utc:
        raise InputError(f"{path} expired on {certificate.not_valid_after_utc:%Y-%m-%d}: create a new one")
    if now < certificate.not_valid_before_utc:
        raise InputError(f"{path} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC")


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 of a certificate in hex, for people to compare. It is OpenSSL's fingerprint."""
    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()
