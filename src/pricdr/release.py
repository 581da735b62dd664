"""``Release``: what crosses the boundary between the parties. A matrix, its user ids, and the certificate.

Holding a release in memory needs numpy alone, so that models can train where nothing else is installed; the folder
(Parquet, certificate, signature) loads what it needs when it is read or written.
"""

import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.data.ratings import Ids
from pricdr.errors import InputError, VerificationError
from pricdr.files import new_folder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from pricdr.certificate import Certificate

FloatArray: TypeAlias = npt.NDArray[np.float32]

MATRIX: Final = "release.parquet"
CERTIFICATE: Final = "certificate.json"
SIGNATURE: Final = "certificate.json.sig"
README: Final = "README.md"
_ROWS_PER_CHECK: Final = 1 << 14
_LONGEST_ID: Final = 4096
"""Bytes that ids may take on average; what a hostile file could make us hold in memory is bounded by it."""


@dataclass(frozen=True, eq=False)
class Release:
    """One noisy row per listed user, and the promise it was published under."""

    matrix: FloatArray
    """users x dim, whole multiples of the certificate's grid."""
    users: Ids
    certificate: "Certificate"

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
        """SHA-256 of its ``release.parquet``: of the file it was read from, or else of what would be written."""
        if MATRIX in self.certificate.files:
            return self.certificate.files[MATRIX]
        buffer = io.BytesIO()
        _write_matrix(buffer, self.matrix, self.users)
        return hashlib.sha256(buffer.getvalue()).hexdigest()

    def __repr__(self) -> str:
        """Sizes and the promise."""
        c = self.certificate
        promise = f"epsilon={c.epsilon:g}, delta={c.delta:g} per {c.unit}" if c.private else "NOT PRIVATE"
        return f"Release({len(self.users)} users x {c.dim}, {c.strategy.name}, {promise})"

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
        from pricdr.disclosure import readme
        from pricdr.signing import public_text, read_private_key, sign

        key = read_private_key(signing_key) if isinstance(signing_key, str | os.PathLike) else signing_key
        with (staging / MATRIX).open("wb") as file:
            _write_matrix(file, self.matrix, self.users)
        (staging / README).write_text(readme(self.certificate), encoding="utf-8")
        stated = self.certificate.model_copy(
            update={
                "files": {name: _sha256(staging / name) for name in (MATRIX, README)},
                "signed_by": None if key is None else public_text(key.public_key()),
            }
        )
        (staging / CERTIFICATE).write_bytes(stated.to_bytes())
        if key is not None:
            (staging / SIGNATURE).write_bytes(sign(key, stated.to_bytes()))

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        public_key: str | os.PathLike[str] | None = None,
        allow_unverified: bool = False,
    ) -> "Release":
        """The release in ``folder``, after :func:`verify`; ``allow_unverified`` reads one that fails it."""
        path = Path(folder)
        if not allow_unverified:
            return verify(path, public_key=public_key)
        certificate = _read_certificate(_existing(path))
        return cls(*_read_matrix(path / MATRIX), certificate)


def verify(folder: str | os.PathLike[str], *, public_key: str | os.PathLike[str] | None = None) -> Release:
    """Check all of a release folder that can be checked, and return it.

    Hashes, digest and signature; the files, no more and no fewer; the ε that σ and the sensitivity really give and
    every figure that follows; the matrix: shape, ids, finite multiples of the grid. :class:`VerificationError`
    names the first thing that is wrong; :class:`InputError` where there is no such folder.
    """
    from pricdr.issuing import check

    path = _existing(Path(folder))
    certificate = _read_certificate(path)
    _check_signature(path, certificate, public_key)
    _check_files(path, certificate)
    check(certificate)
    _check_size(path / MATRIX, certificate)
    release = Release(*_read_matrix(path / MATRIX), certificate)
    _check_matrix(release)
    _check_readme(path, certificate)
    return release


def _existing(path: Path) -> Path:
    if not path.is_dir():
        raise InputError(f"{path} is not a release folder: {'it is a file' if path.exists() else 'no such folder'}")
    return path


def _read_certificate(path: Path) -> "Certificate":
    from pricdr.certificate import MAX_BYTES, Certificate

    return Certificate.from_bytes(_read(path / CERTIFICATE, MAX_BYTES + 1))


def _read(path: Path, limit: int) -> bytes:
    if not path.is_file():
        raise VerificationError(f"{path.name} is {'no file' if os.path.lexists(path) else 'missing'}")
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except OSError as error:
        raise VerificationError(f"{path.name} cannot be read: {error.strerror}") from error


def _check_signature(path: Path, certificate: "Certificate", public_key: str | os.PathLike[str] | None) -> None:
    from pricdr.signing import is_signed_by, public_from_text, public_text, read_public_key

    if certificate.signed_by is None:
        if public_key is not None:
            raise VerificationError("the release is not signed, but a public key was given")
        return
    expected = certificate.signed_by if public_key is None else public_text(read_public_key(public_key))
    if expected != certificate.signed_by:
        raise VerificationError("the release was signed with another key than the one given")
    if not is_signed_by(public_from_text(expected), _read(path / CERTIFICATE, 1 << 21), _read(path / SIGNATURE, 4096)):
        raise VerificationError(f"{SIGNATURE} is not a valid signature of {CERTIFICATE}")


def _check_files(path: Path, certificate: "Certificate") -> None:
    if set(certificate.files) != {MATRIX, README}:
        raise VerificationError(f"the certificate must list exactly {MATRIX} and {README}")
    allowed = {CERTIFICATE, *certificate.files} | ({SIGNATURE} if certificate.signed_by else set())
    for extra in sorted({entry.name for entry in path.iterdir()} - allowed):
        raise VerificationError(f"{extra!r} does not belong to the release: the certificate does not list it")
    for name, stated in certificate.files.items():
        if not (path / name).is_file():
            raise VerificationError(f"{name} is missing")
        if _sha256(path / name) != stated:
            raise VerificationError(f"{name} was changed: its SHA-256 is not the one in the certificate")


def _check_size(path: Path, certificate: "Certificate") -> None:
    """The matrix is stored plainly: a file smaller than its content would unpack to more memory than it shows."""
    size, cells = path.stat().st_size, certificate.users * certificate.dim * 4
    if not cells <= size <= cells + certificate.users * _LONGEST_ID + (1 << 20):
        raise VerificationError(f"{MATRIX} has {size:,} bytes, which does not fit {certificate.users:,} users")


def _check_readme(path: Path, certificate: "Certificate") -> None:
    """README.md must say what the certificate says, in the words of its schema version."""
    from pricdr.disclosure import readme

    expected = readme(certificate).encode()
    if _read(path / README, len(expected) + 1) != expected:
        raise VerificationError(f"{README} does not say what the certificate says")


def _check_matrix(release: Release) -> None:
    """Every published step has columns of its own: multiples of its grid, with at least the noise its σ says."""
    c = release.certificate
    blocks = [(step.numbers, step.grid, step.sigma) for step in c.steps if step.published]
    at = 0
    for width, grid, sigma in blocks or [(c.dim, c.grid, c.sigma)]:
        _check_columns(release.matrix[:, at : at + width], grid, sigma)
        at += width
    if at != c.dim:
        raise VerificationError(f"the published steps have {at} columns, the certificate states {c.dim}")


def _check_columns(columns: FloatArray, grid: float, sigma: float) -> None:
    total = 0.0
    for start in range(0, len(columns), _ROWS_PER_CHECK):
        rows = columns[start : start + _ROWS_PER_CHECK].astype(np.float64)
        if not np.isfinite(rows).all():
            raise VerificationError(f"{MATRIX} holds a value that is not a finite number")
        steps = rows / grid
        # float32 keeps 24 bits: a multiple of the grid stays within 2^-23 of a whole number, relatively
        if (np.abs(steps - np.rint(steps)) > np.abs(steps) * 2.0**-22).any():
            raise VerificationError(f"{MATRIX} holds a value that is not a multiple of the grid")
        total += float(np.einsum("ij,ij->", rows, rows))
    if total < sigma**2 * _least_square_sum(columns.size):
        raise VerificationError(f"{MATRIX} holds less noise than sigma says: its values are too small")


def _least_square_sum(count: int) -> float:
    """A sum of squares of so many standard normals, whatever is added to them, falls below this once in 10^12 times."""
    from scipy.special import gammaincinv

    return 2 * float(gammaincinv(count / 2, 1e-12))


def _write_matrix(file: IO[bytes], matrix: FloatArray, users: Ids) -> None:
    import polars as pl

    frame = pl.DataFrame({"user": pl.Series(users, dtype=pl.String), "vector": pl.Series(matrix)})
    # A file, not a name: polars reads names as patterns and wants them in UTF-8. No compression and no statistics: the
    # size must depend on nothing but the ids and the shape.
    frame.write_parquet(file, compression="uncompressed", statistics=False)


def _read_matrix(path: Path) -> tuple[FloatArray, Ids]:
    import polars as pl

    try:
        with path.open("rb") as file:
            frame = pl.read_parquet(file)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise VerificationError(f"{MATRIX} cannot be read as a table") from error
    types = frame.schema
    vector = types.get("vector")
    if list(types) != ["user", "vector"] or types["user"] != pl.String:
        raise VerificationError(f"{MATRIX} must have the columns user (text) and vector, and no others")
    if not isinstance(vector, pl.Array) or vector.inner != pl.Float32 or len(vector.shape) != 1:
        raise VerificationError(f"{MATRIX} must hold float32 vectors of one length")
    users, vectors = frame["user"], frame["vector"]
    if (users.str.len_bytes().sum() or 0) > len(users) * _LONGEST_ID:
        raise VerificationError(f"{MATRIX} holds user ids of over {_LONGEST_ID} bytes on average")
    if frame.null_count().sum_horizontal().item() or users.n_unique() != len(users) or (users == "").any():
        raise VerificationError(f"{MATRIX} must hold one row per user, with no gaps")
    return vectors.to_numpy().reshape(len(frame), vector.size), tuple(users.to_list())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
