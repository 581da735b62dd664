"""API keys: who may send requests, and which. The file holds only hashes, so reading it gives nobody a key.

A key is 32 random bytes, and SHA-256 is enough for it. Slow hashes (scrypt, Argon2) protect passwords, which can be
guessed. One of 2^256 keys cannot be guessed, however fast the hash, and a slow one would add milliseconds to every
request.
"""

import base64
import binascii
import fcntl
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Final, Literal, Protocol

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from pricdr.errors import InputError, ParameterError
from pricdr.files import PRIVATE, replace_file, require_private_file
from pricdr.serving.log import Report
from pricdr.serving.models import Signature, file_signature
from pricdr.untrusted import read_bounded

_MAX_BYTES: Final = 1 << 20
_NAME: Final = "[A-Za-z0-9_-]{1,64}"
_NO_DIGEST: Final = "0" * 64
"""Compared with keys of unknown names, so that refusing them takes as long as refusing any other."""


class Scope(Enum):
    """What a key gives access to."""

    RECOMMEND = "recommend"
    """Recommendations and similar items."""
    PAGE = "page"
    """The page for people."""
    METRICS = "metrics"
    """Metrics for a monitoring system."""


class Key(BaseModel):
    """An API key, as the file and the server know it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=f"^{_NAME}$")]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$", repr=False)]
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)]
    created: AwareDatetime
    expires: AwareDatetime | None = None  # a time without a zone cannot be compared with now


class Keys(BaseModel):
    """The keys of a file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["pricdr serving keys"] = "pricdr serving keys"
    version: Literal[1] = 1
    keys: tuple[Key, ...] = ()

    def authenticate(self, presented: str | None) -> Key | None:
        """Return the key that was presented; None if it is unknown or expired."""
        name, _, secret = (presented or "").partition(".")
        key = next((key for key in self.keys if key.name == name), None)
        # The name is not secret; the hash is compared in constant time, whether or not the name is known.
        matches = hmac.compare_digest(_digest(secret), _NO_DIGEST if key is None else key.sha256)
        if not matches or key is None or (key.expires is not None and datetime.now(UTC) >= key.expires):
            return None
        return key


class Authenticator(Protocol):
    """Checks the keys that requests present."""

    def authenticate(self, presented: str | None) -> Key | None:
        """Return the key that was presented; None if it is unknown or expired."""
        ...


class KeyRing:
    """The valid keys: those of a file that is read again when it changes, so that removed keys stop working.

    Starting without keys is an error. Once the last key has been removed, every request is refused; so it is while the
    file is missing or cannot be used, since nobody can tell which keys it would have removed. Every check tries again.
    """

    def __init__(self, path: Path, report: Report) -> None:
        self._path, self._report, self._problem = path, report, ""
        self._loaded_signature: Signature = file_signature(path)
        self._keys = self._read()
        if not self._keys.keys:
            raise InputError(f"{path} holds no keys: create one with `pricdr serving-key NAME --keys {path}`")

    def authenticate(self, presented: str | None) -> Key | None:
        """Return the key that was presented; None if it is unknown or expired."""
        return self._keys.authenticate(presented)

    def reload_if_changed(self) -> None:
        """Read the file again if it has changed."""
        signature = file_signature(self._path)
        if signature == self._loaded_signature and signature is not None:
            return
        try:
            self._keys = self._read()
        except (InputError, OSError) as error:
            self._keys, self._loaded_signature = Keys(), None
            if str(error) != self._problem:  # once, not every second
                self._problem = str(error)
                self._report("keys refused", reason=self._problem)
        else:
            self._loaded_signature, self._problem = signature, ""
            self._report("keys taken", keys=len(self._keys.keys))

    def _read(self) -> Keys:
        keys = read_keys(self._path)
        require_private_file(self._path)
        return keys


def presented_key(authorization: bytes | None) -> str | None:
    """Return the key in an Authorization header: a Bearer token, or the password of Basic, which browsers send.

    >>> presented_key(b"Bearer shop.abc"), presented_key(b"Basic eDpzaG9wLmFiYw=="), presented_key(b"Digest x")
    ('shop.abc', 'shop.abc', None)
    """
    scheme, _, value = (authorization or b"").partition(b" ")
    try:
        if scheme.lower() == b"bearer":
            return value.strip().decode("ascii")
        if scheme.lower() == b"basic":
            return base64.b64decode(value.strip(), validate=True).decode("ascii").partition(":")[2]
    except (UnicodeDecodeError, binascii.Error):
        return None
    return None


def add_key(path: Path, name: str, scopes: Iterable[Scope], *, expires: datetime | None = None) -> str:
    """Add a new key to a file, creating the file if necessary, and return the key: it is stored nowhere else."""
    if not re.fullmatch(_NAME, name):
        raise ParameterError(f"the name of a key must have 1 to 64 letters, digits, - or _, got {name!r:.80}")
    secret = secrets.token_urlsafe(32)
    ordered = tuple(sorted(set(scopes), key=lambda scope: scope.value))
    now = datetime.now(UTC).replace(microsecond=0)
    key = Key(name=name, sha256=_digest(secret), scopes=ordered, created=now, expires=expires)
    with _locked(path):
        existing = read_keys(path).keys if path.exists() else ()
        if any(other.name == name for other in existing):
            raise ParameterError(f"{path} already has a key named {name}: choose another name, or --remove it first")
        _write(path, (*existing, key))
    return f"{name}.{secret}"


def remove_key(path: Path, name: str) -> None:
    """Remove a key from a file; a running server notices within seconds."""
    with _locked(path):
        existing = read_keys(path).keys
        remaining = tuple(key for key in existing if key.name != name)
        if len(remaining) == len(existing):
            raise ParameterError(f"{path} has no key named {name!r:.80}")
        _write(path, remaining)


def read_keys(path: Path) -> Keys:
    """Return the keys in a file, possibly none; raise :class:`InputError` if it cannot be read."""
    try:
        keys = Keys.model_validate_json(read_bounded(path, limit=_MAX_BYTES))
    except OSError as error:
        raise InputError(f"the file of keys {path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = ".".join(str(part)[:40] for part in first["loc"][:3])
        raise InputError(f"{path} is not a file of keys: {place}: {first['msg']}") from error
    if len({key.name for key in keys.keys}) != len(keys.keys):
        raise InputError(f"{path} is not a file of keys: two keys have the same name")
    return keys


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock on the folder of a file of keys: of two changes at once, one would otherwise undo the other.

    Without a lock, a key that is being removed could come back. The file itself cannot be locked, since every change
    replaces it.
    """
    try:
        descriptor = os.open(path.parent, os.O_RDONLY)
    except OSError:  # no such folder, or not readable: what reads or writes the file reports it
        yield
        return
    try:
        with suppress(OSError):  # some network file systems cannot lock a folder
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _write(path: Path, keys: tuple[Key, ...]) -> None:
    # The server may run as another user, who must still be able to read the file.
    keep = path.stat() if path.exists() else None
    content = Keys(keys=keys).model_dump_json(indent=2, exclude_none=True) + "\n"
    replace_file(path, content.encode(), mode=PRIVATE, keep=keep)
