"""API keys: who may ask, and for what. The file holds hashes alone, so that reading it gives nobody a key.

A key is 32 random bytes. Its SHA-256 is enough: a slow hash (scrypt, Argon2) protects passwords, which can be guessed;
2^256 keys cannot be, however fast the hash, and a slow one would cost every request milliseconds.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Final, Literal, Protocol

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from pricdr.errors import InputError, ParameterError
from pricdr.files import PRIVATE, replace_file
from pricdr.serving.watching import file_signature
from pricdr.untrusted.opening import read_bounded

_LARGEST: Final = 1 << 20
_NAME: Final = "[A-Za-z0-9_-]{1,64}"
SLOWEST, FASTEST = 1e-3, 1e6
"""Answers a second that a key may be given."""
_NOBODY: Final = bytes(32)
"""What a key of an unknown name is compared with, so that it takes as long as any other."""


class Scope(Enum):
    """What a key is good for."""

    RECOMMEND = "recommend"
    """Recommendations and similar items."""
    PAGE = "page"
    """The page for people."""
    METRICS = "metrics"
    """What a monitoring system reads."""


class _KeyRecord(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=f"^{_NAME}$")]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)]
    created: AwareDatetime
    expires: AwareDatetime | None = None  # a time without its zone cannot be compared with now
    rate: Annotated[float, Field(ge=SLOWEST, le=FASTEST, allow_inf_nan=False)] | None = None


class _KeyFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["pricdr serving keys"] = "pricdr serving keys"
    version: Literal[1] = 1
    keys: tuple[_KeyRecord, ...] = ()


@dataclass(frozen=True)
class Key:
    """Somebody who may ask."""

    name: str
    scopes: frozenset[Scope]
    digest: bytes = field(repr=False)
    expires: datetime | None = None
    rate: float | None = None
    """Answers a second, where this key has a rate of its own."""

    def is_expired(self, now: datetime) -> bool:
        """Return whether its time is over."""
        return self.expires is not None and now >= self.expires


class KeyHolders(Protocol):
    """Knows whose key a key is."""

    def holder(self, presented: str | None) -> Key | None:
        """Return whose key this is; None where it is nobody's, or its time is over."""
        ...


class Keys:
    """The keys of a file, by name."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._by_name: Mapping[str, Key] = {key.name: key for key in keys}

    def __len__(self) -> int:
        return len(self._by_name)

    @classmethod
    def read(cls, path: Path) -> "Keys":
        """Return the keys in a file, which may be none; :class:`InputError` where it cannot be read."""
        return cls(
            Key(one.name, frozenset(one.scopes), bytes.fromhex(one.sha256), one.expires, one.rate)
            for one in _read(path).keys
        )

    def holder(self, presented: str | None) -> Key | None:
        """Return whose key this is; None where it is nobody's, or its time is over."""
        name, _, secret = (presented or "").partition(".")
        key = self._by_name.get(name)
        # The name is no secret; the hash is compared in full whatever it says.
        right = hmac.compare_digest(_digest(secret), _NOBODY if key is None else key.digest)
        if not right or key is None or key.is_expired(datetime.now(UTC)):
            return None
        return key


class KeyRing:
    """The keys in force: those of a file, read again when it changes, so that a removed key ends at once.

    To start with no keys is a mistake; to be left with none, after the last was removed, means that nobody may ask.
    A file that cannot be read changes nothing: the keys that were in force stay so, ``report`` is told, and the file
    is tried again at every look.
    """

    def __init__(self, path: Path, report: Callable[..., None]) -> None:
        self._path, self._report = path, report
        self._taken = file_signature(path)
        self._refused = ""
        self._keys = Keys.read(path)
        if not len(self._keys):
            raise InputError(f"{path} holds no keys: make one with `pricdr serving-key NAME --keys {path}`")

    def holder(self, presented: str | None) -> Key | None:
        """Return whose key this is; None where it is nobody's, or its time is over."""
        return self._keys.holder(presented)

    def look(self) -> None:
        """Read the file again where it has changed."""
        now = file_signature(self._path)
        if now == self._taken:
            return
        try:
            self._keys = Keys.read(self._path)
        except InputError as error:
            if str(error) != self._refused:  # the same every second is no news
                self._refused = str(error)
                self._report("keys refused", reason=self._refused)
        else:
            self._taken, self._refused = now, ""
            self._report("keys taken", keys=len(self._keys))


def presented_key(authorization: bytes | None) -> str | None:
    """Return the key in an Authorization header: a bearer's, or the password of Basic, as a browser asks for one.

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


def add_key(
    path: Path, name: str, scopes: Iterable[Scope], *, expires: datetime | None = None, rate: float | None = None
) -> str:
    """Add a new key to a file, which is made where it is not there, and return the key: it is stored nowhere else."""
    if not re.fullmatch(_NAME, name):
        raise ParameterError(f"the name of a key has 1 to 64 letters, digits, - or _, got {name!r:.80}")
    if rate is not None and not SLOWEST <= rate <= FASTEST:
        raise ParameterError(f"--rate must lie between {SLOWEST:g} and {FASTEST:,.0f}, got {rate:g}")
    existing = _read(path) if path.exists() else _KeyFile()
    if any(one.name == name for one in existing.keys):
        raise ParameterError(f"{path} has a key named {name} already: choose another name, or --remove it first")
    secret = secrets.token_urlsafe(32)
    record = _KeyRecord(
        name=name,
        sha256=_digest(secret).hex(),
        scopes=tuple(sorted(set(scopes), key=lambda scope: scope.value)),
        created=datetime.now(UTC).replace(microsecond=0),
        expires=expires,
        rate=rate,
    )
    _write(path, (*existing.keys, record))
    return f"{name}.{secret}"


def remove_key(path: Path, name: str) -> None:
    """Take a key out of a file; a running server notices within seconds."""
    existing = _read(path)
    left = tuple(one for one in existing.keys if one.name != name)
    if len(left) == len(existing.keys):
        raise ParameterError(f"{path} has no key named {name!r:.80}")
    _write(path, left)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _read(path: Path) -> _KeyFile:
    try:
        raw = read_bounded(path, limit=_LARGEST)
    except OSError as error:
        raise InputError(f"the file of keys {path} cannot be read: {error.strerror}") from error
    try:
        content = _KeyFile.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = ".".join(str(part)[:40] for part in first["loc"][:3])
        raise InputError(f"{path} is no file of keys: {place}: {first['msg']}") from error
    if len({one.name for one in content.keys}) != len(content.keys):
        raise InputError(f"{path} is no file of keys: two have the same name")
    return content


def _write(path: Path, keys: tuple[_KeyRecord, ...]) -> None:
    content = _KeyFile(keys=keys).model_dump(mode="json", exclude_none=True)
    # The server may run as another user, who must be able to read the file afterwards as well as before.
    keep = path.stat() if path.exists() else None
    replace_file(path, (json.dumps(content, indent=2) + "\n").encode(), mode=PRIVATE, keep=keep)
