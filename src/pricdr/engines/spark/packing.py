"""Pack checked rows into blocks of users: each block is one row in Spark, its entries packed into bytes.

Rows are shuffled once, by blocks of users. Inside a block repeated pairs are merged by the same function as in memory,
then the threshold is applied. Blocks stay on their executors for all passes of a release.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from pricdr.data.csr import CSR, csr_of_cells, sp
from pricdr.data.ids import Ids
from pricdr.data.reading.repeats import deduplicate
from pricdr.engines.spark.failures import explained
from pricdr.engines.spark.session import CACHED_BATCH, n_cores, setting
from pricdr.engines.spark.source import Source

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

PACKED: Final = (
    "first bigint, users int, starts binary, columns binary, values binary, digest bigint, "
    "rows bigint, pairs bigint, kept bigint, raters bigint, untimed bigint"
)
READ: Final = ("first", "users", "starts", "columns", "values", "digest")
"""The columns that a pass reads; the others are only for counting."""
_COUNTS: Final = ("rows", "pairs", "kept", "raters", "untimed")
_LEAST_ENTRIES: Final = 1 << 19
_MOST_ENTRIES: Final = 1 << 23
_BLOCKS_PER_CORE: Final = 4
_BROADCAST_IDS: Final = 1 << 20
"""A list of at most this many ids is sent to every executor, so that rows need not be shuffled for the join."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """A matrix of users x items in blocks of users, persisted on the executors."""

    frame: "DataFrame"
    shape: tuple[int, int]
    digests: dict[int, int]
    """The hash of every block, by its first user: a block that was lost is recomputed, and must have the same hash."""
    rows: int
    pairs: int
    """Distinct pairs, before the threshold."""
    kept: int
    """Pairs that count."""
    raters: int
    """Users with at least one row."""
    untimed: int
    """Rows of repeated pairs whose time cannot be read."""


def packed(source: Source, users: Ids, items: Ids, threshold: float | None) -> Blocks:
    """Return the rows of these users and items as blocks, in the order of the lists."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as sql

    session, n_users = source.session, len(users)
    per_block = _users_per_block(source.rows, n_users, len(items), n_cores(session))
    n_blocks = max(
        1, -(-n_users // per_block)
    )  # without users there is one empty block: sums over it have the right shape
    # A row of the result is megabytes: persisted one by one, so that no buffer grows beyond 2 GB.
    one_by_one = setting(session, CACHED_BATCH, "1")
    with explained("sort the ratings into blocks of users"), one_by_one:
        at_user, at_item = _positions(source, "user", users), _positions(source, "item", items)
        entries = source.checked.join(at_item, "item").join(at_user, "user")
        block = sql.floor(sql.col("user_at") / per_block).cast("int").alias("block")
        keyed = entries.select(block, "user_at", "item_at", "value", "seconds")
        # One more row for every block: users without a rating get rows too.
        empty = session.range(n_blocks).select(
            sql.col("id").cast("int").alias("block"),
            sql.lit(-1).alias("user_at"),
            sql.lit(-1).alias("item_at"),
            sql.lit(0.0).alias("value"),
            sql.lit(0.0).alias("seconds"),
        )
        together = keyed.unionByName(empty).repartition(n_blocks, "block").sortWithinPartitions("block")
        packer = _Packer(per_block, (n_users, len(items)), source.has_values, source.has_times, threshold)
        frame = together.mapInArrow(_function(packer), PACKED).persist(StorageLevel.MEMORY_AND_DISK)
        source.kept.append(frame)
        counts = frame.select("first", "digest", *_COUNTS).toArrow().to_pydict()
    assert len(counts["first"]) == n_blocks, "every block exists once"
    totals = {name: sum(counts[name]) for name in _COUNTS}
    digests = dict(zip(counts["first"], counts["digest"], strict=True))
    return Blocks(frame, (n_users, len(items)), digests, **totals)


def block_of(packed_row: dict[str, Any], n_items: int) -> CSR:
    """Return the block of one packed row."""
    starts, columns = (np.frombuffer(packed_row[name], dtype=np.int32) for name in ("starts", "columns"))
    stored = packed_row["values"]
    values = np.ones(len(columns)) if stored is None else np.frombuffer(stored, dtype=np.float64)
    return sp.csr_array((values, columns, starts), shape=(packed_row["users"], n_items))


def _users_per_block(rows: int, n_users: int, n_items: int, cores: int) -> int:
    """Return how many users a block has, from sizes alone; no result depends on it."""
    # A sum over a block has a row per item: a block should have several ratings for each.
    entries = min(max(4 * n_items, _LEAST_ENTRIES), _MOST_ENTRIES)
    n_blocks = max(-(-rows // entries), _BLOCKS_PER_CORE * cores)
    return max(1, -(-n_users // n_blocks))


def _positions(source: Source, role: str, ids: Ids) -> "DataFrame":
    """Return a Spark table of ids and their positions in the list."""
    import pyarrow as pa
    from pyspark.sql import functions as sql

    at = pa.array(np.arange(len(ids), dtype=np.int32))
    table = source.session.createDataFrame(pa.table({role: pa.array(ids, pa.string()), f"{role}_at": at}))
    return sql.broadcast(table) if len(ids) <= _BROADCAST_IDS else table


@dataclass(frozen=True)
class _Packer:
    """Packs the rows of a partition, which arrive sorted by block."""

    per_block: int
    shape: tuple[int, int]
    has_values: bool
    has_times: bool
    threshold: float | None

    def __call__(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        gathered: list[dict[str, npt.NDArray[Any]]] = []
        for batch in batches:
            columns = {name: column.to_numpy() for name, column in zip(batch.schema.names, batch.columns, strict=True)}
            blocks = columns["block"]
            cuts = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(blocks)]
            for start, stop in pairwise(cuts):
                if stop == start:
                    continue
                if gathered and gathered[0]["block"][0] != blocks[start]:
                    yield self._packed(gathered)
                    gathered = []
                gathered.append({name: column[start:stop] for name, column in columns.items()})
        if gathered:
            yield self._packed(gathered)

    def _packed(self, gathered: list[dict[str, npt.NDArray[Any]]]) -> "pa.RecordBatch":
        import pyarrow as pa

        block = int(gathered[0]["block"][0])
        first = block * self.per_block
        n_users = min(self.per_block, self.shape[0] - first)
        whole = {name: np.concatenate([part[name] for part in gathered]) for name in gathered[0]}
        real = whole["user_at"] >= 0
        rows, columns = (whole["user_at"][real] - first).astype(np.int32), whole["item_at"][real].astype(np.int32)
        values = whole["value"][real] if self.has_values else None
        seconds = whole["seconds"][real] if self.has_times else None
        keep, untimed = deduplicate(rows.astype(np.int64) * self.shape[1] + columns, values, seconds)
        pairs, raters = int(keep.sum()), len(np.unique(rows))
        if self.threshold is not None and values is not None:
            keep &= values >= self.threshold
        entries = np.ones(int(keep.sum())) if values is None else values[keep]
        cells = rows[keep], columns[keep], entries
        matrix = csr_of_cells(*cells, (n_users, self.shape[1]))
        starts, indices = matrix.indptr.astype(np.int32).tobytes(), matrix.indices.astype(np.int32).tobytes()
        stored = matrix.data.tobytes() if self.has_values else None
        digest = hashlib.blake2b(first.to_bytes(8, "big"), digest_size=8)
        for part in (starts, indices, stored or b""):
            digest.update(part)
        row = {
            "first": first,
            "users": n_users,
            "starts": starts,
            "columns": indices,
            "values": stored,
            "digest": int.from_bytes(digest.digest(), "big", signed=True),
            "rows": len(rows),
            "pairs": pairs,
            "kept": matrix.nnz,
            "raters": raters,
            "untimed": untimed,
        }
        kinds = {"first": pa.int64(), "users": pa.int32(), "starts": pa.binary(), "columns": pa.binary()}
        kinds |= {"values": pa.binary(), **dict.fromkeys(("digest", *_COUNTS), pa.int64())}
        return pa.RecordBatch.from_pydict({name: [value] for name, value in row.items()}, schema=pa.schema(kinds))


def _function(packer: _Packer) -> Any:  # noqa: ANN401
    def pack(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        return packer(batches)

    return pack
