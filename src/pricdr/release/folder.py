"""``Release``: what crosses the boundary between the parties. A matrix, its user ids, and the certificate.

Holding one in memory needs numpy alone, so that models can train where nothing else is installed.

Nothing in the folder is parsed on trust. Each file has one spelling and is compared with what would have been written;
what is left are finite numbers on the grid (``checks``). Nothing else fits into a release.
"""

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pricdr.arrays import Float32Array
from pricdr.data.ids import MAX_ID_LENGTH, Ids, id_lines, parse_id_lines
from pricdr.errors import InputError, OutputError, ParameterError, VerificationError, printable
from pricdr.files import new_folder, require_writable, sha256_of
from pricdr.memory import format_bytes, memory_limit, require_memory
from pricdr.untrusted import Folder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from pricdr.data.tables import Library
    from pricdr.release.certificate import Certificate


MATRIX: Final = "release.safetensors"
USERS: Final = "users.txt"
CERTIFICATE: Final = "certificate.json"
SIGNATURE: Final = "certificate.json.sig"
README: Final = "README.md"
_OLD_MATRIX: Final = "release.parquet"
_MAX_README_LENGTH: Final = 1 << 18
_BYTES_AT_ONCE: Final = 1 << 24
_SMALL_FILES: Final = 1 << 16  # bytes that certificate, README and signature take together, and more


@dataclass(frozen=True, eq=False)
class Release:
    """One noisy row per listed user, and the promise it was published under."""

    matrix: Float32Array
    """users x dim, whole multiples of the certificate's grid."""
    users: Ids
    certificate: "Certificate"
    verified: bool = False
    """Whether its folder passed :func:`verify`, and with it whoever is named as its signer."""

    def __post_init__(self) -> None:
        if self.matrix.shape != (self.certificate.users, self.certificate.dim) or len(self.users) != len(self.matrix):
            raise VerificationError(
                f"{MATRIX} holds {self.matrix.shape[0]} rows of {self.matrix.shape[1]}, the certificate states "
                f"{self.certificate.users} of {self.certificate.dim}"
            )
        self.matrix.flags.writeable = False

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in its numbers; 0 where there is none."""
        return self.certificate.sigma

    def sha256(self) -> str:
        """Return that of ``release.safetensors``, written or not."""
        if MATRIX in self.certificate.files:
            return self.certificate.files[MATRIX]
        digest = hashlib.sha256(_header(*self.matrix.shape))
        for part in row_chunks(self.matrix):
            digest.update(part.data)
        return digest.hexdigest()

    def __repr__(self) -> str:
        c = self.certificate
        return f"Release({len(self.users)} users x {c.dim}, {printable(c.strategy.name)}, {c.promise})"

    def _repr_html_(self) -> str:
        from pricdr.pages import summary_html
        from pricdr.release.readme import in_short, weakness

        c = self.certificate
        # A signature that nobody checked says nothing about who made the release.
        checks = f"verified, signed by {c.signed_by or 'nobody'}" if self.verified else "not verified"
        warning = "" if c.private else "NOT PRIVATE: it must not leave the source"
        return summary_html("Release", {**in_short(c), "Checks": checks}, notes=weakness(c), warning=warning)

    def to_frame(self, library: "Library | None" = None) -> Any:  # noqa: ANN401 - of whatever library there is
        """Return a data frame of ``user`` and ``vector``, of the library asked for or the first that is installed."""
        from pricdr.data.tables import texts, to_frame

        return to_frame({"user": texts(self.users), "vector": self.matrix}, library)

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        signing_key: "Ed25519PrivateKey | str | os.PathLike[str] | None" = None,
    ) -> Path:
        """Write the release folder, whole or not at all; ``signing_key`` (a key or its PEM file) signs it."""
        with new_folder(Path(folder)) as staging:
            self.write_into(staging, signing_key=signing_key)
        return Path(folder)

    def write_into(
        self, staging: Path, *, signing_key: "Ed25519PrivateKey | str | os.PathLike[str] | None" = None
    ) -> None:
        """Write the release's files into an existing empty folder."""
        from pricdr.release.readme import readme
        from pricdr.signing import public_text, read_private_key, sign

        key = read_private_key(signing_key) if isinstance(signing_key, str | os.PathLike) else signing_key
        # Written into the room that was reserved for it; what is left over is freed.
        with os.fdopen(os.open(staging / MATRIX, os.O_RDWR | os.O_CREAT, 0o666), "wb") as file:
            file.write(_header(*self.matrix.shape))
            file.writelines(part.data for part in row_chunks(self.matrix))
            file.truncate()
        (staging / USERS).write_bytes(id_lines(self.users))
        (staging / README).write_text(readme(self.certificate), encoding="utf-8")
        stated = self.certificate.model_copy(
            update={
                "files": {name: sha256_of(staging / name) for name in (MATRIX, USERS, README)},
                "signed_by": None if key is None else public_text(key.public_key()),
            }
        )
        (staging / CERTIFICATE).write_bytes(stated.to_bytes())
        if key is not None:
            (staging / SIGNATURE).write_bytes(sign(key, stated.to_bytes()))
        # Archives keep these times, and when publishing ended tells how much there was to read.
        day = date.fromisoformat(self.certificate.issued or "1970-01-01")
        midnight = datetime.combine(day, time(), UTC).timestamp()
        for written in (*staging.iterdir(), staging):
            os.utime(written, (midnight, midnight))

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        public_key: str | os.PathLike[str] | None = None,
        revocations: str | os.PathLike[str] | None = None,
        allow_unverified: bool = False,
    ) -> "Release":
        """Return the release in ``folder``, as :func:`verify` does; ``allow_unverified`` checks nothing."""
        if not allow_unverified:
            return verify(folder, public_key=public_key, revocations=revocations)
        if public_key is not None or revocations is not None:  # else a caller would believe that they were asked for
            named = "public_key" if public_key is not None else "revocations"
            raise ParameterError(f"allow_unverified checks nothing: give it or {named}, not both")
        with _opened(folder) as opened:
            certificate, _ = _read_certificate(opened)
            matrix, users, _ = _read_rows(opened, certificate)
        return Release(matrix, users, certificate)


def verify(
    folder: str | os.PathLike[str],
    *,
    public_key: str | os.PathLike[str] | None = None,
    revocations: str | os.PathLike[str] | None = None,
) -> Release:
    """Check all of a release folder that can be checked, and return it; :class:`VerificationError` says what is wrong.

    That is: the signature; the list of files, and every byte of each; the ε that σ and the sensitivity really give,
    and every figure that follows; the matrix's shape and grid, the ids, and that there is as much noise as σ says.
    With ``public_key``, a PEM file, it must be signed by this key. With ``revocations``, a folder of notices, the key
    that signed it must not have revoked it; notices that do not count are warned of.
    """
    from pricdr.release.certify import check
    from pricdr.release.checks import check_matrix
    from pricdr.release.readme import readme

    with _opened(folder) as opened:
        certificate, raw = _read_certificate(opened)
        _check_signature(opened, certificate, raw, public_key)
        if set(certificate.files) != {MATRIX, USERS, README}:
            raise VerificationError(f"the certificate must list exactly {MATRIX}, {USERS} and {README}")
        opened.require_only(CERTIFICATE, *certificate.files, *([SIGNATURE] if certificate.signed_by else []))
        check(certificate)
        words = opened.read(README, limit=_MAX_README_LENGTH)
        matrix, users, hashes = _read_rows(opened, certificate)
    for name, digest in {README: hashlib.sha256(words).hexdigest(), **hashes}.items():
        if digest != certificate.files[name]:
            raise VerificationError(f"{name} was changed: its SHA-256 is not the one in the certificate")
    # People read README.md, not the certificate: a matching hash alone would let it promise anything.
    if words != readme(certificate).encode():
        raise VerificationError(f"{README} does not say what the certificate says")
    release = Release(matrix, users, certificate, verified=True)
    # Last, because it relies on a σ that has been checked.
    check_matrix(release.matrix, certificate)
    if revocations is not None:
        from pricdr.release.revocation import require_not_revoked

        _, remarks = require_not_revoked(release, revocations)
        for remark in remarks:
            warnings.warn(remark, stacklevel=2)
    return release


def require_outside_releases(path: Path) -> None:
    """Refuse an output inside a release folder: with anything added to it, a release no longer verifies."""
    place = path.resolve()
    for folder in (place, *place.parents):
        if (folder / CERTIFICATE).is_file():
            raise OutputError(f"{path} is a release folder or inside one, and would spoil it: put it beside releases")


def export_parquet(release: Release, path: str | os.PathLike[str]) -> Path:
    """Write a release to a new Parquet file of ``user`` and ``vector``: what it holds cannot be verified any more."""
    from pricdr.data.tables import texts, write_table

    file, dim = Path(path), release.certificate.dim
    if file.suffix != ".parquet":
        raise ParameterError(f"an export must end in .parquet, got {file.name!r:.80}")
    require_outside_releases(file)
    require_writable(file)
    require_memory(3 * release.matrix.nbytes, f"writing {len(release.users):,} rows of {dim:,} numbers as Parquet")
    columns = {"user": texts(release.users)}
    columns |= {f"v{at}": np.ascontiguousarray(release.matrix[:, at]) for at in range(dim)}
    vector = ", ".join(f"v{at}" for at in range(dim))
    write_table(file, columns, select=f'"user", [{vector}]::FLOAT[] AS vector')
    return file


def reserve(staging: Path, users: Ids, dim: int) -> None:
    """Take the room that a release needs on the disk, so that a full one is noticed before the budget is spent."""
    need = len(users) * (4 * dim + 8) + sum(len(user.encode()) for user in users) + _SMALL_FILES
    free = shutil.disk_usage(staging).free
    if need > free:
        raise OutputError(f"the release needs {format_bytes(need)}, {format_bytes(free)} are free on {staging.parent}")
    with (staging / MATRIX).open("wb") as file:
        if hasattr(os, "posix_fallocate"):  # not on macOS, which has the check above alone
            os.posix_fallocate(file.fileno(), 0, need)


def _opened(folder: str | os.PathLike[str]) -> AbstractContextManager[Folder]:
    return Folder.opened(Path(folder), "a release folder", error=VerificationError)


def _read_certificate(opened: Folder) -> tuple["Certificate", bytes]:
    from pricdr.release.certificate import MAX_BYTES, Certificate

    if opened.holds(_OLD_MATRIX) and not opened.holds(MATRIX):
        raise VerificationError(f"{opened.path} holds {_OLD_MATRIX}, the format of older versions, which is not read")
    raw = opened.read(CERTIFICATE, limit=MAX_BYTES)
    return Certificate.from_bytes(raw), raw


def _check_signature(
    opened: Folder, certificate: "Certificate", raw: bytes, public_key: str | os.PathLike[str] | None
) -> None:
    from pricdr.signing import is_signed_by, public_from_text, public_text, read_public_key

    if certificate.signed_by is None:
        if public_key is not None:
            raise VerificationError("the release is not signed, but a public key was given")
        return
    expected = certificate.signed_by if public_key is None else public_text(read_public_key(public_key))
    if expected != certificate.signed_by:
        raise VerificationError("the release was signed with a key other than the one given")
    if not is_signed_by(public_from_text(expected), raw, opened.read(SIGNATURE, limit=4096)):
        raise VerificationError(f"{SIGNATURE} is not a valid signature of {CERTIFICATE}")


def _read_rows(opened: Folder, certificate: "Certificate") -> tuple[Float32Array, Ids, dict[str, str]]:
    """Return the one tensor that such a release has and its ids, and the SHA-256 of both files, by name."""
    count, dim = certificate.users, certificate.dim
    content = opened.read(USERS, limit=min(count * (4 * MAX_ID_LENGTH + 1), memory_limit() // 4))
    if (lines := content.count(b"\n")) != count:
        raise VerificationError(f"{USERS} has {lines:,} lines, the certificate states {count:,} users")
    try:
        users = parse_id_lines("user", content)
    except InputError as error:
        raise VerificationError(f"{USERS}: {error}") from error
    header = _header(count, dim)
    size = len(header) + 4 * count * dim
    with opened.file(MATRIX, limit=size) as descriptor, open(descriptor, "rb", closefd=False) as file:
        stated, found = f"{count:,} users x {dim:,} numbers", os.fstat(descriptor).st_size
        if found != size:
            raise VerificationError(f"{MATRIX} has {found:,} bytes; {stated} take {size:,}")
        if file.read(len(header)) != header:
            raise VerificationError(f"{MATRIX} does not begin as one tensor of {stated} does")
        require_memory(size, stated)
        matrix = np.empty((count, dim), dtype="<f4")
        digest = hashlib.sha256(header)
        for part in row_chunks(matrix):
            if file.readinto(part.data.cast("B")) != part.nbytes:
                raise VerificationError(f"{MATRIX} was cut off while it was being read")
            digest.update(part.data)
    return matrix, users, {USERS: hashlib.sha256(content).hexdigest(), MATRIX: digest.hexdigest()}


def _header(users: int, dim: int) -> bytes:
    """Return how safetensors begins a file of one tensor: the length of its description, and that in whole 8 bytes."""
    tensor = {"dtype": "F32", "shape": [users, dim], "data_offsets": [0, 4 * users * dim]}
    text = json.dumps({"matrix": tensor}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def row_chunks(matrix: Float32Array) -> Iterator[Float32Array]:
    """Yield a matrix, which may be larger than memory, in chunks of whole rows."""
    rows = max(1, _BYTES_AT_ONCE // (4 * matrix.shape[1]))
    for start in range(0, len(matrix), rows):
        yield np.ascontiguousarray(matrix[start : start + rows], dtype="<f4")
