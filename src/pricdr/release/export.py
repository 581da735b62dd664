"""A release as a Parquet file, for other programs. What it holds cannot be verified any more."""

import os
from pathlib import Path

import numpy as np

from pricdr.data.tables import texts, write_table
from pricdr.errors import ParameterError
from pricdr.files import require_writable
from pricdr.memory import require_memory
from pricdr.release.folder import Release, require_outside_releases


def export_parquet(release: Release, path: str | os.PathLike[str]) -> Path:
    """Write ``user`` (text) and ``vector`` (a list of float32) to a new Parquet file, in the order of the user list."""
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
