"""API keys: who may send requests, and which. The file holds only hashes, so reading it gives nobody a key.

Fast hashes: a key is 32 random bytes, not a password that can be guessed, and a slow hash would delay every request.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pricdr.errors import InputError, ParameterError
from pricdr.files import PRIVATE, replace_file, require_private_file
from pricdr.serving.log import Report
from pricdr.untrusted import read_bounded

_MAX_BYTES: Final = 1 << 20
_NAME: Final = "[A-Za-z0-9_-]{1,64}"
_NO_DIGEST: Final = "0" * 64
"""Compared with keys of unknown names, so that refusing them takes as long as refusing any other."""


class Scope(StrEnum):
    """What a key gives access to: recommendations and similar items, the page for people, metrics."""

    RECOMMEND = "recommend"
    PAGE = "page"
    METRICS = "metrics"


class Key(BaseModel):
    """An API key, as the file and the server know it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$", repr=False)]
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)]
    created: AwareDatetime
    expires: AwareDatetime | None = None  # a time without a zone cannot be compared with now


_FILE: Final = TypeAdapter(dict[Annotated[str, Field(pattern=f"^{_NAME}$")], Key])


class KeyRing:
    """The keys of a file that is read again and again, so that removed keys stop working.

    Starting without keys is an error. With the last key removed, every request is refused; so it is while the file
    cannot be used, since nobody can tell which keys it would have removed.
    """

    def __init__(self, path: Path, report: Report = lambda event, **facts: None) -> None:
        self._path, self._report, self._problem, self._keys = path, report, "", _private_keys(path)
        if not self._keys:
            raise InputError(f"{path} holds no keys: create one with `pricdr serving-key NAME --keys {path}`")

    def authenticate(self, presented: str) -> tuple[str, tuple[Scope, ...]] | None:
        """Return the name and the scopes of the key that was presented; None if it is unknown or expired."""
        name, _, secret = presented.partition(".")
        key = self._keys.get(name)
        # The name is not secret; the hash is compared in constant time, whether or not the name is known.
        matches = hmac.compare_digest(_digest(secret), _NO_DIGEST if key is None else key.sha256)
        if not matches or key is None or (key.expires is not None and datetime.now(UTC) >= key.expires):
            return None
        return name, key.scopes

    def reload(self) -> None:
        """Read the file again; report what changed, once."""
        before = self._keys, self._problem
        try:
            self._keys, self._problem = _private_keys(self._path), ""
        except (InputError, OSError) as error:
            self._keys, self._problem = {}, str(error)
        if (self._keys, self._problem) != before:
            facts = {"reason": self._problem} if self._problem else {"keys": len(self._keys)}
            self._report("keys refused" if self._problem else "keys taken", **facts)


def presented_key(authorization: bytes) -> str:
    """Return the key in an Authorization header: a Bearer token, or the password of Basic, which browsers send.

    >>> presented_key(b"Bearer shop.abc"), presented_key(b"Basic eDpzaG9wLmFiYw=="), presented_key(b"Digest x")
    ('shop.abc', 'shop.abc', '')
    """
    scheme, _, value = authorization.partition(b" ")
    with suppress(UnicodeDecodeError, binascii.Error):
        if scheme.lower() == b"bearer":
            return value.strip().decode("ascii")
        if scheme.lower() == b"basic":
            return base64.b64decode(value.strip(), validate=True).decode("ascii").partition(":")[2]
    return ""


def add_key(path: Path, name: str, scopes: Iterable[Scope], *, expires: datetime | None = None) -> str:
    """Add a new key to a file, creating the file if necessary, and return the key: it is stored nowhere else."""
    if not re.fullmatch(_NAME, name):
        raise ParameterError(f"the name of a key must have 1 to 64 letters, digits, - or _, got {name!r:.80}")
    keys = read_keys(path) if path.exists() else {}
    if name in keys:
        raise ParameterError(f"{path} already has a key named {name}: choose another name, or --remove it first")
    secret, now = secrets.token_urlsafe(32), datetime.now(UTC).replace(microsecond=0)
    keys[name] = Key(sha256=_digest(secret), scopes=tuple(sorted(set(scopes))), created=now, expires=expires)
    _write(path, keys)
    return f"{name}.{secret}"


def remove_key(path: Path, name: str) -> None:
    """Remove a key from a file; a running server notices within seconds."""
    keys = read_keys(path)
    if keys.pop(name, None) is None:
        raise ParameterError(f"{path} has no key named {name!r:.80}")
    _write(path, keys)


def read_keys(path: Path) -> dict[str, Key]:
    """Return the keys in a file by name, possibly none; raise :class:`InputError` if it cannot be read."""
    try:
        return _FILE.validate_json(read_bounded(path, limit=_MAX_BYTES))
    except OSError as error:
        raise InputError(f"the file of keys {path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = ".".join(str(part)[:40] for part in first["loc"][:3])
        raise InputError(f"{path} is not a file of keys: {place}: {first['msg']}") from error


def _private_keys(path: Path) -> dict[str, Key]:
    keys = read_keys(path)
    require_private_file(path)
    return keys


def _write(path: Path, keys: dict[str, Key]) -> None:
    keep = path.stat() if path.exists() else None  # the server may run as another user, who must still be able to read
    replace_file(path, _FILE.dump_json(keys, indent=2, exclude_none=True) + b"\n", mode=PRIVATE, keep=keep)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
