"""A release as a data frame or a Parquet file, for other programs. What they hold cannot be verified any more."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pricdr.errors import MissingExtraError, ParameterError
from pricdr.files import new_file, require_writable
from pricdr.memory import memory_limit, require_memory
from pricdr.release.folder import Release, require_outside_releases


def to_frame(release: Release) -> Any:  # noqa: ANN401 - of whatever library there is
    """Return ``user`` and ``vector`` as a data frame of polars, pandas or pyarrow, the first that is installed."""
    if find_spec("polars"):
        import polars as pl

        return pl.DataFrame({"user": release.users, "vector": release.matrix})
    if find_spec("pandas"):
        import pandas as pd

        return pd.DataFrame({"user": release.users, "vector": list(release.matrix)})
    if find_spec("pyarrow"):
        import pyarrow as pa

        vectors = pa.FixedSizeListArray.from_arrays(release.matrix.ravel(), release.certificate.dim)
        return pa.table({"user": list(release.users), "vector": vectors})
    raise MissingExtraError("to_frame needs polars, pandas or pyarrow: none of them is installed", name="polars")


def export_parquet(release: Release, path: str | os.PathLike[str]) -> Path:
    """Write ``user`` (text) and ``vector`` (a list of float32) to a new Parquet file, in the order of the user list."""
    import duckdb

    file, dim = Path(path), release.certificate.dim
    if file.suffix != ".parquet":
        raise ParameterError(f"an export must end in .parquet, got {file.name!r:.80}")
    require_outside_releases(file)
    require_writable(file)
    require_memory(3 * release.matrix.nbytes, f"writing {len(release.users):,} rows of {dim:,} numbers as Parquet")
    columns: dict[str, Any] = {"user": np.array(release.users, dtype=object)}
    columns |= {f"v{at}": np.ascontiguousarray(release.matrix[:, at]) for at in range(dim)}
    vector = ", ".join(f"v{at}" for at in range(dim))
    with TemporaryDirectory() as scratch, new_file(file) as target:
        written = Path(scratch, "written.parquet")
        with duckdb.connect(config={"memory_limit": f"{memory_limit()}B", "temp_directory": scratch}) as connection:
            connection.register("release", columns)
            to = str(written).replace("'", "''")
            connection.execute(
                f"COPY (SELECT \"user\", [{vector}]::FLOAT[] AS vector FROM release) TO '{to}' (FORMAT parquet)"
            )
        with written.open("rb") as source:
            shutil.copyfileobj(source, target)
    return file
