"""Ratings in blocks of users on a cluster: each block is one row in Spark, and works run on it in ``mapInArrow``.

Rows are shuffled once, by blocks of users. Inside a block repeated pairs are merged by the same rule as in memory, then
the threshold is applied. Blocks stay on their executors for all passes of a release.
"""

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from pricdr import __version__
from pricdr.data.blocks import Convert, Numbers, RowWork, SumWork, Total, Whole
from pricdr.data.csr import CSR, csr_of_cells, sp
from pricdr.data.ids import Ids
from pricdr.data.reading.read import deduplicate
from pricdr.engines.spark.broadcast import Message, dispatched
from pricdr.engines.spark.session import BATCH, CACHED_BATCH, explained, n_cores, setting
from pricdr.errors import EngineError
from pricdr.progress import Progress, silent

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pricdr.engines.spark.table import CheckedRows

COLLECTED_AT_ONCE: Final = 256 << 20
"""The most bytes of a result that the driver fetches at once; a larger one comes partition by partition."""
CHUNK: Final = 4 << 20
"""Bytes of one piece of a sum: a range of items."""
_BYTES_PER_ITEM: Final = 264
"""Of a sum, about: learnt directions have at most 32 numbers, and a count."""
_COUNTS: Final = ("rows", "pairs", "kept", "raters", "untimed")
_PACKED: Final = "first bigint, digest bigint, block binary, " + ", ".join(f"{name} bigint" for name in _COUNTS)
_ROWS: Final = "first bigint, start bigint, digest bigint, payload binary"
_SUMS: Final = "chunk bigint, width bigint, payload binary"
_CHECK: Final = -1
"""The chunk of a sum that identifies the blocks in it."""
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


def packed(rows: "CheckedRows", users: Ids, items: Ids, threshold: float | None) -> Blocks:
    """Return the rows of these users and items as blocks, in the order of the lists."""
    import pyarrow as pa
    from pyspark import StorageLevel
    from pyspark.sql import functions as sql

    session, shape = rows.session, (len(users), len(items))
    # From sizes alone, and no result depends on it. A sum over a block has a row per item: several ratings for each.
    entries = min(max(4 * shape[1], _LEAST_ENTRIES), _MOST_ENTRIES)
    per_block = max(1, -(-shape[0] // max(-(-rows.count // entries), _BLOCKS_PER_CORE * n_cores(session))))
    # Without users there is one empty block: sums over it have the right shape.
    n_blocks = max(1, -(-shape[0] // per_block))

    def positions(role: str, ids: Ids) -> "DataFrame":
        at = pa.array(np.arange(len(ids), dtype=np.int32))
        table = session.createDataFrame(pa.table({role: pa.array(ids, pa.string()), f"{role}_at": at}))
        return sql.broadcast(table) if len(ids) <= _BROADCAST_IDS else table

    # A row of the result is megabytes: persisted one by one, so that no buffer grows beyond 2 GB.
    with explained("sort the ratings into blocks of users"), setting(session, CACHED_BATCH, "1"):
        found = rows.frame.join(positions("item", items), "item").join(positions("user", users), "user")
        keyed = found.selectExpr(f"int(user_at div {per_block}) block", "user_at", "item_at", "value", "seconds")
        # One more row for every block: users without a rating get rows too.
        none = "int(id) block", "-1 user_at", "-1 item_at", "0d value", "0d seconds"
        together = keyed.unionByName(session.range(n_blocks).selectExpr(*none))
        pack = _pack_task(per_block, shape, threshold, has_values=rows.has_values)
        frame = together.repartition(n_blocks, "block").sortWithinPartitions("block").mapInArrow(pack, _PACKED)
        rows.kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        counts = frame.select("first", "digest", *_COUNTS).toArrow().to_pydict()
    assert len(counts["first"]) == n_blocks, "every block exists once"
    digests = dict(zip(counts["first"], counts["digest"], strict=True))
    return Blocks(frame, shape, digests, **{name: sum(counts[name]) for name in _COUNTS})


class SparkMatrix:
    """Blocks on executors; every block is converted before a work gets it."""

    def __init__(self, blocks: Blocks, *converts: Convert, columns: int) -> None:
        self._blocks, self._converts = blocks, converts
        self.shape = blocks.shape[0], columns

    def rows(
        self, work: RowWork, out: Numbers, *, block_rows: int, what: str = "", progress: Progress = silent
    ) -> None:
        """Fill ``out`` with the results of ``work`` for every user."""
        arrived = np.zeros(len(out), dtype=bool)
        progress(what, 0, 1)
        with self._dispatched(work, what) as message:
            task = _row_task(message, block_rows, out.dtype.str)
            frame = self._blocks.frame.select("first", "digest", "block").mapInArrow(task, _ROWS)
            for row in _collected(frame, out.nbytes):
                if self._blocks.digests[row["first"]] != row["digest"]:
                    raise _changed()
                part = np.frombuffer(row["payload"], dtype=out.dtype).reshape(-1, *out.shape[1:])
                at = slice(row["start"], row["start"] + len(part))
                if arrived[at].any() and not np.array_equal(out[at], part, equal_nan=True):
                    raise EngineError("Spark computed the same rows twice with different results: please report this")
                out[at], arrived[at] = part, True
        if not arrived.all():
            raise EngineError("Spark left out users", f"{int((~arrived).sum()):,} of them; please report this")
        progress(what, 1, 1)

    def total(self, work: SumWork, *, what: str = "", progress: Progress = silent) -> Whole:
        """Return the sum of the results of ``work``: added up within tasks, then by ranges of items."""
        tasks = n_cores(self._blocks.frame.sparkSession)
        progress(what, 0, 1)
        with self._dispatched(work, what) as message:
            # Every task makes a whole sum: as few of them as there are cores.
            frame = self._blocks.frame.select("first", "digest", "block").coalesce(tasks)
            frame = frame.mapInArrow(_sum_task(message, CHUNK), _SUMS)
            frame = frame.repartition(2 * tasks, "chunk").mapInArrow(_added, _SUMS)
            sums = {
                row["chunk"]: np.frombuffer(row["payload"], dtype=np.int64).reshape(-1, *filter(None, [row["width"]]))
                for row in _collected(frame, self.shape[1] * _BYTES_PER_ITEM)
            }
        expected = np.array([*self._blocks.digests.values()], dtype=np.int64).sum(dtype=np.int64)
        if sums.pop(_CHECK).tolist() != [int(expected), len(self._blocks.digests)]:
            raise _changed()
        progress(what, 1, 1)
        return np.concatenate([sums[chunk] for chunk in sorted(sums)])

    def converted(self, convert: Convert, n_columns: int) -> "SparkMatrix":
        """Return the matrix of the converted blocks; each block is converted whenever it is read."""
        return SparkMatrix(self._blocks, *self._converts, convert, columns=n_columns)

    def array(self, columns: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an empty array with one row per user, on the driver."""
        return np.empty((self.shape[0], columns), dtype=dtype)

    def __repr__(self) -> str:
        """Show sizes only: ratings are private."""
        return f"SparkMatrix({self.shape[0]} users x {self.shape[1]} items)"

    @contextmanager
    def _dispatched(self, work: RowWork | SumWork, what: str) -> Iterator[Message]:
        """Yield the work as a message to executors, while a job runs."""
        session = self._blocks.frame.sparkSession
        with (
            explained(f"compute {what or 'what is published'}"),
            setting(session, BATCH, "1"),  # a row is a block of megabytes: one at a time
            dispatched(session.sparkContext, (work, self._converts)) as message,
        ):
            yield message


# What runs on executors: functions inside functions, since a query plan shows their names, and not what they hold.


def _pack_task(per_block: int, shape: tuple[int, int], threshold: float | None, *, has_values: bool) -> Any:  # noqa: ANN401
    driver = __version__

    def pack(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pricdr

        if pricdr.__version__ != driver:  # its noise might differ
            fault = f"executors have pricdr {pricdr.__version__}, the driver has {driver}: install the same version"
            raise RuntimeError(fault)
        for block, parts in groupby(_cut(batches), key=lambda part: part["block"][0].as_py()):
            first = block * per_block
            users = min(per_block, shape[0] - first)
            yield _packed(list(parts), first, (users, shape[1]), threshold, has_values=has_values)

    return pack


def _cut(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Yield rows, which arrive sorted by block, in pieces that belong to one block each."""
    for batch in batches:
        cuts = np.flatnonzero(np.diff(batch["block"])) + 1
        for start, stop in pairwise([0, *cuts.tolist(), len(batch)] if len(batch) else []):
            yield batch.slice(start, stop - start)


def _packed(
    parts: "list[pa.RecordBatch]",
    first: int,
    shape: tuple[int, int],
    threshold: float | None,
    *,
    has_values: bool,
) -> "pa.RecordBatch":
    import pyarrow as pa

    table = pa.Table.from_batches(parts)
    real = table["user_at"].to_numpy() >= 0
    users, items, values, seconds = (
        table[name].to_numpy()[real] for name in ("user_at", "item_at", "value", "seconds")
    )
    users = users.astype(np.int64) - first
    pairs = users * shape[1] + items
    kept, untimed = deduplicate(pairs, values, seconds)
    n_pairs = int(kept.sum())
    if threshold is not None:
        kept &= values >= threshold
    cells = values[kept] if has_values else np.ones(int(kept.sum()), dtype=np.int8)
    block = csr_of_cells(users[kept], items[kept], cells, shape)
    block.indices, block.indptr = (part.astype(np.int32) for part in (block.indices, block.indptr))
    digest, content = hashlib.blake2b(first.to_bytes(8, "big"), digest_size=8), io.BytesIO()
    for part in (block.indptr, block.indices, block.data):
        digest.update(part.tobytes())
    sp.save_npz(content, block, compressed=False)
    return _row(
        first=first,
        digest=int.from_bytes(digest.digest(), "big", signed=True),
        block=content.getvalue(),
        rows=len(pairs),
        pairs=n_pairs,
        kept=block.nnz,
        raters=len(np.unique(users)),
        untimed=untimed,
    )


def _row(**columns: int | bytes) -> "pa.RecordBatch":
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({name: [value] for name, value in columns.items()})


def _row_task(message: Message, block_rows: int, dtype: str) -> Any:  # noqa: ANN401
    def rows(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for first, digest, block, work in _opened(batches, message):
            for at in range(0, block.shape[0], block_rows):
                part = np.ascontiguousarray(work(block[at : at + block_rows], first + at), dtype=dtype)
                yield _row(first=first, start=first + at, digest=digest, payload=part.tobytes())

    return rows


def _sum_task(message: Message, chunk: int) -> Any:  # noqa: ANN401
    def sums(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        total, check = Total(), np.zeros(2, dtype=np.int64)
        for first, digest, block, work in _opened(batches, message):
            total.add(np.array(work(block, first), dtype=np.int64))
            check += np.array([digest, 1])  # may wrap around, as it does on the driver
        if not check[1]:
            return
        yield _row(chunk=_CHECK, width=0, payload=check.tobytes())
        width = 0 if total.sum.ndim == 1 else total.sum.shape[1]
        lines = max(1, chunk // (8 * max(1, width)))
        for number, at in enumerate(range(0, max(1, len(total.sum)), lines)):
            yield _row(chunk=number, width=width, payload=total.sum[at : at + lines].tobytes())
        total.sum.fill(0)  # partial sums are as secret as the ratings

    return sums


def _added(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Add up the sums of all tasks, chunk by chunk."""
    totals: dict[tuple[int, int], Whole] = {}
    for row in _rows_of(batches):
        part, key = np.frombuffer(row["payload"], dtype=np.int64), (row["chunk"], row["width"])
        totals[key] = totals[key] + part if key in totals else part
    for (chunk, width), total in totals.items():
        yield _row(chunk=chunk, width=width, payload=total.tobytes())


def _opened(batches: "Iterator[pa.RecordBatch]", message: Message) -> Iterator[tuple[int, int, CSR, Any]]:
    """Yield every block of a partition: its first user, its hash, the converted block, and the work to run on it."""
    for row in _rows_of(batches):
        work, converts = message.opened()
        block = cast(CSR, sp.load_npz(io.BytesIO(row["block"])).astype(np.float64, copy=False))
        for convert in converts:
            block = convert(block)
        yield row["first"], row["digest"], block, work


def _rows_of(batches: "Iterator[pa.RecordBatch]") -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def _collected(frame: "DataFrame", size: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a result: all at once, or partition by partition if they are large."""
    from pyspark import StorageLevel

    if size <= COLLECTED_AT_ONCE:
        yield from _rows_of(frame.toArrow().to_batches())
        return
    # Computed on all executors first: the iterator alone would run one partition after another.
    kept = frame.persist(StorageLevel.DISK_ONLY)
    try:
        kept.count()
        yield from (row.asDict() for row in kept.toLocalIterator())
    finally:
        with suppress(Exception):  # the context may be gone, and the exception that says why is already being raised
            kept.unpersist()


def _changed() -> EngineError:
    return EngineError(
        "a block of users was lost, and recomputed from different rows: the table changed while it was published "
        "(publish from a snapshot, or from a table that nobody writes to)"
    )
