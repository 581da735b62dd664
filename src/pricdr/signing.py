"""Ed25519: key files, and signatures over the exact bytes of a certificate, a notice or a ledger."""

import base64
import hashlib
import os
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from pricdr.errors import InputError, InputFileError, VerificationError
from pricdr.files import PRIVATE, require_absent, require_private_file, write_new
from pricdr.untrusted import read_bounded

_MAX_KEY: Final = 1 << 16  # bytes; an Ed25519 key in PEM has about 120


def create_keys(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write a new key pair: the private key at ``path`` (mode 0600), the public one at ``path``.pub."""
    private_path = Path(path)
    require_absent(private_path)
    public_path = private_path.with_name(f"{private_path.name}.pub")
    require_absent(public_path)
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_new(private_path, private, mode=PRIVATE)
    try:
        write_new(public_path, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    except BaseException:
        private_path.unlink(missing_ok=True)  # half a pair is of no use
        raise
    return private_path, public_path


def read_private_key(path: str | os.PathLike[str]) -> Ed25519PrivateKey:
    """Return the private key in a PEM file, which must be for its owner alone."""
    key = _read_key(path, "private key", "an unencrypted")
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path} holds a private key of another kind; Ed25519 is needed")
    require_private_file(Path(path))  # last: chmod is no advice for a file that holds no key
    return key


def read_public_key(path: str | os.PathLike[str]) -> Ed25519PublicKey:
    """Return the public key in a PEM file."""
    key = _read_key(path, "public key", "an")
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path} holds a public key of another kind; Ed25519 is needed")
    return key


def _read_key(path: str | os.PathLike[str], what: str, expected: str) -> object:
    try:
        content = read_bounded(Path(path), limit=_MAX_KEY)
        return load_pem_private_key(content, None) if what == "private key" else load_pem_public_key(content)
    except OSError as error:
        raise InputFileError(f"cannot read key {path}", error.strerror or "unknown error") from error
    except InputError:
        raise
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path} holds no usable {what} (expected {expected} Ed25519 key in PEM)") from error


def public_text(key: Ed25519PublicKey) -> str:
    """Return the public key as a certificate states it: base64 of its 32 bytes."""
    return base64.b64encode(key.public_bytes_raw()).decode()


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return the SHA-256 of the key in DER, hexadecimal: for people to compare; OpenSSL computes the same."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def public_from_text(text: str) -> Ed25519PublicKey:
    """Return the key behind its text: inverse of :func:`public_text`."""
    try:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
    except ValueError as error:
        raise VerificationError(f"signed_by is not an Ed25519 public key: {text!r:.60}") from error


def sign(key: Ed25519PrivateKey, message: bytes) -> bytes:
    """Return the signature file's content: base64 on one line."""
    return base64.b64encode(key.sign(message)) + b"\n"


def is_signed_by(key: Ed25519PublicKey, message: bytes, signature: bytes) -> bool:
    """Return whether ``signature`` is this key's, byte for byte the file content that :func:`sign` makes."""
    try:
        raw = base64.b64decode(signature.removesuffix(b"\n"), validate=True)
        key.verify(raw, message)
    except (ValueError, InvalidSignature):
        return False
    return signature == base64.b64encode(raw) + b"\n"
