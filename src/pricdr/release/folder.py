"""``Release``: what crosses the boundary between the parties. A matrix, its user ids, and the certificate.

Holding a release in memory needs numpy alone, so that models can train where nothing else is installed; the folder
(Parquet, certificate, signature) loads what it needs when it is read or written.
"""

import hashlib
import io
import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.data.ids import LONGEST_ID, Ids, require_ids
from pricdr.errors import InputError, OutputError, ParameterError, VerificationError, printable
from pricdr.files import new_folder
from pricdr.untrusted.opening import Folder
from pricdr.untrusted.parquet import As, Parquet, Text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from pricdr.release.certificate import Certificate

Float32Array: TypeAlias = npt.NDArray[np.float32]

MATRIX: Final = "release.parquet"
CERTIFICATE: Final = "certificate.json"
SIGNATURE: Final = "certificate.json.sig"
README: Final = "README.md"
_LONGEST_README: Final = 1 << 18
_GROUP_ROWS: Final = 122_880
"""Rows of a row group, about: those of polars itself, so that a release has the bytes it always had."""


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
        """Return the SHA-256 of ``release.parquet``: of the file that was read, or else of what would be written."""
        if MATRIX in self.certificate.files:
            return self.certificate.files[MATRIX]
        buffer = io.BytesIO()
        _write_matrix(buffer, self.matrix, self.users)
        return hashlib.sha256(buffer.getvalue()).hexdigest()

    def __repr__(self) -> str:
        """Sizes and the promise."""
        c = self.certificate
        said = [] if c.private else ["NOT PRIVATE"]
        said += [f"epsilon={c.epsilon:g}, delta={c.delta:g} per {c.unit}"] if c.promises else []
        return f"Release({len(self.users)} users x {c.dim}, {printable(c.strategy.name)}, {', '.join(said)})"

    def _repr_html_(self) -> str:
        """Show a notebook sizes and the promise."""
        from pricdr.notebook import summary_html
        from pricdr.release.statement import weakness

        c = self.certificate
        facts = {
            "users": f"{len(self.users):,}",
            "numbers per user": f"{c.dim:,}",
            "strategy": c.strategy.name,
            "promise": "none" if not c.promises else f"epsilon {c.epsilon:g}, delta {c.delta:g} per {c.unit}",
            "noise": f"standard deviation {c.sigma:g}" if c.sigma else "none",
            # A signature that nobody checked says nothing about who made the release.
            "checks": f"verified, signed by {c.signed_by or 'nobody'}" if self.verified else "not verified",
        }
        warning = "" if c.private else "NOT PRIVATE: it must not leave the source"
        notes = dict.fromkeys((*c.warnings, *weakness(c)))  # a certificate of an older version warns of no epsilon
        return summary_html("Release", facts, notes=list(notes), warning=warning)

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
        from pricdr.release.statement import readme
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
        revocations: str | os.PathLike[str] | None = None,
        allow_unverified: bool = False,
    ) -> "Release":
        """Return the release in ``folder``, verified; ``allow_unverified`` also reads one that fails to verify.

        Args:
            folder: the release folder.
            public_key: a PEM file; require a signature by this key.
            revocations: a folder of notices; refuse a release that the key it was signed with has revoked.
            allow_unverified: check nothing.
        """
        if not allow_unverified:
            return verify(folder, public_key=public_key, revocations=revocations)
        if public_key is not None:  # else a caller who pins a key would believe that it was asked for
            raise ParameterError("allow_unverified checks no signature: give it or public_key, not both")
        if revocations is not None:
            raise ParameterError("allow_unverified checks no notices: give it or revocations, not both")
        with _opened(folder) as opened:
            certificate, _ = _read_certificate(opened)
            return _read_matrix(opened, certificate, verified=False)


def verify(
    folder: str | os.PathLike[str],
    *,
    public_key: str | os.PathLike[str] | None = None,
    revocations: str | os.PathLike[str] | None = None,
) -> Release:
    """Check all of a release folder that can be checked, and return it.

    That is: the signature; the list of files, and every byte of each; the ε that σ and the sensitivity really give,
    and every figure that follows; the matrix's hash, shape, ids and grid, and that it holds as much noise as σ says.
    With ``revocations``, a folder of notices: also that the key which signed it has not revoked it. Notices that do not
    count are warned of. :class:`VerificationError` names the first thing that is wrong; :class:`InputError`: there is
    no such folder.
    """
    from pricdr.release.issue import check
    from pricdr.release.matrix_check import check_matrix

    with _opened(folder) as opened:
        certificate, raw = _read_certificate(opened)
        _check_signature(opened, certificate, raw, public_key)
        _check_listing(opened, certificate)
        check(certificate)
        _check_readme(opened, certificate)
        release = _read_matrix(opened, certificate, verified=True)
    # Last, because it relies on a σ that has been checked.
    check_matrix(release.matrix, certificate)
    if revocations is not None:
        from pricdr.release.revocation import require_not_revoked

        for remark in require_not_revoked(release, revocations).remarks:
            warnings.warn(remark, stacklevel=2)
    return release


def require_outside_releases(path: Path) -> None:
    """Refuse an output inside a release folder: with anything added to it, a release no longer verifies."""
    place = path.resolve()
    for folder in (place, *place.parents):
        if (folder / CERTIFICATE).is_file():
            raise OutputError(f"{path} is a release folder or inside one, and would spoil it: put it beside releases")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # in pieces: a release may be larger than memory


def _opened(folder: str | os.PathLike[str]) -> AbstractContextManager[Folder]:
    return Folder.opened(Path(folder), "a release folder", error=VerificationError)


def _read_certificate(opened: Folder) -> tuple["Certificate", bytes]:
    from pricdr.release.certificate import MAX_BYTES, Certificate

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


def _check_listing(opened: Folder, certificate: "Certificate") -> None:
    if set(certificate.files) != {MATRIX, README}:
        raise VerificationError(f"the certificate must list exactly {MATRIX} and {README}")
    signature = (SIGNATURE,) if certificate.signed_by else ()
    opened.require_only(CERTIFICATE, *certificate.files, *signature)


def _check_readme(opened: Folder, certificate: "Certificate") -> None:
    """Refuse a README.md that does not say what the certificate says, in the words of its schema version."""
    from pricdr.release.statement import readme

    content = opened.read(README, limit=_LONGEST_README)
    if hashlib.sha256(content).hexdigest() != certificate.files[README]:
        raise VerificationError(f"{README} was changed: its SHA-256 is not the one in the certificate")
    # People read README.md, not the certificate: a matching hash alone would let it promise anything.
    if content != readme(certificate).encode():
        raise VerificationError(f"{README} does not say what the certificate says")


def _read_matrix(opened: Folder, certificate: "Certificate", *, verified: bool) -> Release:
    """Read the matrix and its ids. The file is not compressed, so its size bounds the memory it can take."""
    users, cells = certificate.users, certificate.users * certificate.dim * 4
    with opened.file(MATRIX, limit=cells + cells // 8 + users * (4 * LONGEST_ID + 16) + (1 << 16)) as descriptor:
        parquet = Parquet(descriptor, lambda rule: VerificationError(f"{MATRIX}: {rule}"))
        if parquet.size < cells:
            raise VerificationError(f"{MATRIX} has {parquet.size:,} bytes; {users:,} users take {cells:,} at least")
        expected = certificate.files.get(MATRIX) if verified else None
        read = parquet.read(("user", As.TEXT), ("vector", As.VECTORS), whole=verified, sha256=expected, rows=users)
    if [column.name for column in read.columns] != ["user", "vector"] or read.columns[0].kind != "text":
        raise VerificationError(f"{MATRIX} must have the columns user (text) and vector, and no others")
    text, vectors = read.decoded
    assert isinstance(text, Text) and isinstance(vectors, np.ndarray)  # noqa: PT018
    names = text.rows()
    if None in names or len(text.values) != len(names):
        raise VerificationError(f"{MATRIX} must hold one row per user, with no gaps")
    try:
        ids = require_ids("user", names)
    except InputError as error:
        raise VerificationError(f"{MATRIX}: {error}") from error
    return Release(vectors, ids, certificate, verified=verified)


def _write_matrix(file: IO[bytes], matrix: Float32Array, users: Ids) -> None:
    """Write the rows group by group: no more than a few groups are in memory, where a file backs the matrix."""
    import polars as pl
    from polars.io.plugins import register_io_source

    schema = {"user": pl.String(), "vector": pl.Array(pl.Float32, matrix.shape[1])}

    def groups(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        for part in _row_groups(len(users)):
            vectors = pl.Series(matrix[part], dtype=schema["vector"])
            yield pl.DataFrame({"user": pl.Series(users[part], dtype=schema["user"]), "vector": vectors})

    # A file, not a name: polars reads names as patterns and wants them in UTF-8. No compression and no statistics: the
    # size must depend on nothing but the ids and the shape.
    register_io_source(groups, schema=schema).sink_parquet(file, compression="uncompressed", statistics=False)


def _row_groups(rows: int) -> Iterator[slice]:
    """Yield the rows of each row group, as polars cuts a whole frame: even pieces of about 122,880 rows.

    >>> list(_row_groups(3))
    [slice(0, 3, None)]
    """
    fewer = max(1, rows // _GROUP_ROWS)
    pieces = min((fewer, fewer + 1), key=lambda pieces: abs(rows / pieces - _GROUP_ROWS))
    size, longer = divmod(rows, pieces)
    start = 0
    for piece in range(pieces):
        stop = start + size + (piece < longer)
        yield slice(start, stop)
        start = stop
