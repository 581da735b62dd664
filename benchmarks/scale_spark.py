"""Time a release in Spark's local mode: ``python -m benchmarks.scale_spark FOLDER USERS`` prints JSON."""

import json
import sys
from pathlib import Path
from time import perf_counter

from pricdr import Guarantee, publish, read_ids
from pricdr.engines.spark import open_ratings


def spark_seconds(parquet_folder: Path, users_file: Path | None, *, dim: int | None = None, cores: int = 2) -> float:
    """Return the seconds from a folder of Parquet to a release in memory, without the start of Spark."""
    users = None if users_file is None else read_ids(users_file)
    return timed(parquet_folder, users, dim=dim, cores=cores)["publish"]


def timed(folder: Path, users: tuple[str, ...] | None, *, dim: int | None, cores: int) -> dict[str, float]:
    """Return the seconds of each part: starting Spark, reading and sorting, the release, and the last two together."""
    from pricdr.engines.spark.session import opened_session
    from pricdr.strategies import Spectral

    started = perf_counter()
    with opened_session({"spark.master": f"local[{cores}]", "spark.driver.memory": "4g"}) as session:
        ready = perf_counter()
        with open_ratings(str(folder), users=users, session=session) as reading:
            stored = perf_counter()
            strategy = Spectral(dim=dim)
            publish(reading.ratings, Guarantee(epsilon=4, delta=1e-6), users=users, strategy=strategy)
            done = perf_counter()
            ratings = float(len(reading.ratings))
    return {
        "start": ready - started,
        "reading": stored - ready,
        "release": done - stored,
        "publish": done - ready,
        "ratings": ratings,
    }


if __name__ == "__main__":
    folder, *lists = map(Path, sys.argv[1:])
    print(json.dumps(timed(folder, read_ids(lists[0]) if lists else None, dim=None, cores=2)))
