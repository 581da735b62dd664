"""Works on blocks of users on executors, in ``mapInArrow``: each block is one row in Spark."""

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from pricdr.data.blocks import Convert, Matrix, Numbers, RowFunction, SumFunction, Total, Whole
from pricdr.data.csr import CSR, sp
from pricdr.engines.spark.broadcast import SealedFunction, dispatched
from pricdr.engines.spark.session import BATCH, explained
from pricdr.errors import EngineError
from pricdr.progress import Progress, silent

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

COLLECTED_AT_ONCE: Final = 256 << 20
"""The most bytes of a result that the driver fetches at once; a larger one comes partition by partition."""
CHUNK: Final = 4 << 20
"""Bytes of one piece of a sum: a range of items."""
_BYTES_PER_ITEM: Final = 264
"""Of a sum, about: learnt directions have at most 32 numbers, and a count."""
_ROWS: Final = "first bigint, start bigint, digest bigint, payload binary"
_SUMS: Final = "chunk bigint, width bigint, payload binary"
_CHECK: Final = -1
"""The chunk of a sum that identifies the blocks in it."""


class SparkMatrix(Matrix):
    """Blocks on executors; every block is converted before a work gets it."""

    def __init__(self, frame: "DataFrame", digests: dict[int, int], shape: tuple[int, int], *converts: Convert) -> None:
        self._frame, self._digests, self.shape, self._converts = frame, digests, shape, converts

    def rows(
        self, work: RowFunction, out: Numbers, *, block_rows: int, what: str = "", progress: Progress = silent
    ) -> None:
        """Fill ``out`` with the results of ``work`` for every user."""
        arrived = np.zeros(len(out), dtype=bool)
        with self._dispatched(work, what, progress) as message:
            frame = self._frame.select("first", "digest", "block")
            for row in _collected(frame.mapInArrow(_row_task(message, block_rows, out.dtype.str), _ROWS), out.nbytes):
                if self._digests[row["first"]] != row["digest"]:
                    raise _changed()
                part = np.frombuffer(row["payload"], dtype=out.dtype).reshape(-1, *out.shape[1:])
                at = slice(row["start"], row["start"] + len(part))
                out[at], arrived[at] = part, True
        if not arrived.all():
            raise EngineError("Spark left out users", f"{int((~arrived).sum()):,} of them; please report this")

    def total(self, work: SumFunction, *, what: str = "", progress: Progress = silent) -> Whole:
        """Return the sum of the results of ``work``: added up within tasks, then by ranges of items."""
        tasks = self._frame.sparkSession.sparkContext.defaultParallelism
        with self._dispatched(work, what, progress) as message:
            # Every task makes a whole sum: as few of them as there are cores.
            frame = self._frame.select("first", "digest", "block").coalesce(tasks)
            frame = frame.mapInArrow(_sum_task(message, CHUNK), _SUMS)
            frame = frame.repartition(2 * tasks, "chunk").mapInArrow(_added, _SUMS)
            sums = {
                row["chunk"]: np.frombuffer(row["payload"], dtype=np.int64).reshape(-1, row["width"])
                for row in _collected(frame, self.shape[1] * _BYTES_PER_ITEM)
            }
        expected = np.array([*self._digests.values()], dtype=np.int64).sum(dtype=np.int64)
        if sums.pop(_CHECK).tolist() != [[int(expected), len(self._digests)]]:
            raise _changed()
        return np.concatenate([sums[chunk] for chunk in sorted(sums)])

    def converted(self, convert: Convert, n_columns: int) -> "SparkMatrix":
        """Return the matrix of the converted blocks; each block is converted whenever it is read."""
        return SparkMatrix(self._frame, self._digests, (self.shape[0], n_columns), *self._converts, convert)

    @contextmanager
    def _dispatched(self, work: RowFunction | SumFunction, what: str, progress: Progress) -> Iterator[SealedFunction]:
        """Yield the work as a message to executors, while a job runs."""
        session = self._frame.sparkSession
        progress(what, 0, 1)
        before = session.conf.get(BATCH) or ""
        session.conf.set(BATCH, "1")  # a row is a block of megabytes: one at a time
        try:
            with (
                explained(f"compute {what or 'what is published'}"),
                dispatched(session.sparkContext, (work, self._converts)) as message,
            ):
                yield message
        finally:
            session.conf.set(BATCH, before)
        progress(what, 1, 1)


# What runs on executors: functions inside functions, since a query plan shows their names, and not what they hold.


def _row_task(message: SealedFunction, block_rows: int, dtype: str) -> Any:  # noqa: ANN401
    def rows(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for first, digest, block, work in _opened(batches, message):
            for at in range(0, block.shape[0], block_rows):
                part = np.ascontiguousarray(work(block[at : at + block_rows], first + at), dtype=dtype)
                yield one_row(first=first, start=first + at, digest=digest, payload=part.tobytes())

    return rows


def _sum_task(message: SealedFunction, chunk: int) -> Any:  # noqa: ANN401
    def sums(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        total, check = Total(), np.zeros(2, dtype=np.int64)
        for first, digest, block, work in _opened(batches, message):
            total.add(np.array(work(block, first), dtype=np.int64))
            check += np.array([digest, 1])  # may wrap around, as it does on the driver
        if not check[1]:
            return
        yield one_row(chunk=_CHECK, width=2, payload=check.tobytes())
        width = total.sum.shape[1]
        lines = max(1, chunk // (8 * max(1, width)))
        for number, at in enumerate(range(0, max(1, len(total.sum)), lines)):
            yield one_row(chunk=number, width=width, payload=total.sum[at : at + lines].tobytes())
        total.sum.fill(0)  # partial sums are as secret as the ratings

    return sums


def _added(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Add up the sums of all tasks, chunk by chunk."""
    totals: dict[tuple[int, int], Whole] = {}
    for row in _rows_of(batches):
        part, key = np.frombuffer(row["payload"], dtype=np.int64), (row["chunk"], row["width"])
        totals[key] = totals[key] + part if key in totals else part
    for (chunk, width), total in totals.items():
        yield one_row(chunk=chunk, width=width, payload=total.tobytes())


def _opened(batches: "Iterator[pa.RecordBatch]", message: SealedFunction) -> Iterator[tuple[int, int, CSR, Any]]:
    """Yield every block of a partition: its first user, its hash, the converted block, and the work to run on it."""
    for row in _rows_of(batches):
        work, converts = message.opened()
        block = cast(CSR, sp.load_npz(io.BytesIO(row["block"])).astype(np.float64, copy=False))
        for convert in converts:
            block = convert(block)
        yield row["first"], row["digest"], block, work


def one_row(**columns: int | bytes) -> "pa.RecordBatch":
    """Return a batch of a single row."""
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({name: [value] for name, value in columns.items()})


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
