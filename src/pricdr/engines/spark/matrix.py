"""``SparkMatrix``: a matrix of users x items in blocks on a cluster, on which works run inside ``mapInArrow``."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from pricdr.data.blocks import Convert, Numbers, RowWork, SumWork, Whole
from pricdr.data.csr import CSR
from pricdr.engines.spark.carrying import Message, dispatched
from pricdr.engines.spark.failures import explained
from pricdr.engines.spark.packing import READ, Blocks, block_of
from pricdr.engines.spark.session import BATCH, n_cores, setting
from pricdr.errors import EngineError
from pricdr.progress import Progress, silent

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


COLLECTED_AT_ONCE: Final = 256 << 20
"""The most bytes of a result that the driver fetches at once; a larger one comes partition by partition."""
CHUNK: Final = 4 << 20
"""Bytes of one piece of a sum: a range of items."""
ADDED_UP_BY_DRIVER: Final = 1 << 16
"""The largest product of items and tasks for which the driver adds up the sums of all tasks itself."""
_ROWS: Final = "first bigint, start bigint, digest bigint, payload binary"
_SUMS: Final = "chunk bigint, length bigint, width bigint, payload binary"
_CHECK: Final = -1
"""The chunk that identifies the blocks in a sum."""


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
            task = _RowTask(message, self._blocks.shape[1], block_rows, out.dtype.str)
            frame = self._blocks.frame.select(*READ).mapInArrow(task.function(), _ROWS)
            for batch in _collected(frame, out.nbytes):
                for row in batch.to_pylist():
                    self._require_same(row["first"], row["digest"])
                    part = np.frombuffer(row["payload"], dtype=out.dtype).reshape(-1, *out.shape[1:])
                    at = slice(row["start"], row["start"] + len(part))
                    if arrived[at].any() and not np.array_equal(out[at], part, equal_nan=True):
                        raise EngineError(
                            "Spark computed the same rows twice with different results: please report this"
                        )
                    out[at], arrived[at] = part, True
        if not arrived.all():
            raise EngineError("Spark left out users", f"{int((~arrived).sum()):,} of them; please report this")
        progress(what, 1, 1)

    def total(self, work: SumWork, *, what: str = "", progress: Progress = silent) -> Whole:
        """Return the sum of the results of ``work``: added up within tasks, then by ranges of items."""
        tasks = n_cores(self._blocks.frame.sparkSession)
        progress(what, 0, 1)
        sums: dict[int, Whole] = {}
        shape: tuple[int, ...] = ()
        with self._dispatched(work, what) as message:
            task = _SumTask(message, self._blocks.shape[1], CHUNK)
            # Every task makes a whole sum: as few of them as there are cores.
            partial = self._blocks.frame.select(*READ).coalesce(tasks).mapInArrow(task.function(), _SUMS)
            small = tasks * self.shape[1] <= ADDED_UP_BY_DRIVER
            if not small:
                partial = partial.repartition(2 * tasks, "chunk").mapInArrow(_added, _SUMS)
            for batch in _collected(partial, 0 if small else COLLECTED_AT_ONCE + 1):
                for row in batch.to_pylist():
                    part = np.frombuffer(row["payload"], dtype=np.int64)
                    sums[row["chunk"]] = sums[row["chunk"]] + part if row["chunk"] in sums else part
                    if row["chunk"] != _CHECK:
                        shape = (row["length"], row["width"]) if row["width"] else (row["length"],)
        expected = np.array([*self._blocks.digests.values()], dtype=np.int64).sum(dtype=np.int64)
        if sums.pop(_CHECK).tolist() != [int(expected), len(self._blocks.digests)]:
            raise _changed()
        progress(what, 1, 1)
        return np.concatenate([sums[chunk] for chunk in sorted(sums)]).reshape(shape)

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

    def _require_same(self, first: int, digest: int) -> None:
        if self._blocks.digests[first] != digest:
            raise _changed()


@dataclass(frozen=True)
class _RowTask:
    """Runs a row work on the blocks of a partition."""

    message: Message
    n_items: int
    block_rows: int
    dtype: str

    def __call__(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        for row, block, work in _blocks_of(batches, self.message, self.n_items):
            for at in range(0, block.shape[0], self.block_rows):
                start = row["first"] + at
                part = np.ascontiguousarray(work(block[at : at + self.block_rows], start), dtype=self.dtype)
                columns = {"first": row["first"], "start": start, "digest": row["digest"], "payload": part.tobytes()}
                kinds = {**dict.fromkeys(("first", "start", "digest"), pa.int64()), "payload": pa.binary()}
                yield pa.RecordBatch.from_pydict({k: [v] for k, v in columns.items()}, schema=pa.schema(kinds))

    def function(self) -> Any:  # noqa: ANN401
        """Return it as the function that Spark needs; a query plan shows only its name."""

        def rows(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
            return self(batches)

        return rows


@dataclass(frozen=True)
class _SumTask:
    """Runs a sum work on the blocks of a task and adds up the results."""

    message: Message
    n_items: int
    chunk: int

    def __call__(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        total: Whole | None = None
        check = np.zeros(2, dtype=np.int64)
        for row, block, work in _blocks_of(batches, self.message, self.n_items):
            part = work(block, row["first"])
            if total is None:
                total = np.ascontiguousarray(part, dtype=np.int64)
            else:
                total += part
            check += np.array([row["digest"], 1])  # may wrap around, as it does on the driver
        if total is None:
            return
        yield _sum_row(_CHECK, (2, 0), check)
        width = 1 if total.ndim == 1 else total.shape[1]
        shape = (len(total), 0 if total.ndim == 1 else width)
        lines = max(1, self.chunk // (8 * width))
        for number, at in enumerate(range(0, len(total), lines)):
            yield _sum_row(number, shape, total[at : at + lines])
        total.fill(0)  # partial sums are as secret as the ratings

    def function(self) -> Any:  # noqa: ANN401
        """Return it as the function that Spark needs; a query plan shows only its name."""

        def sums(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
            return self(batches)

        return sums


def _added(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Add up the sums of all tasks, chunk by chunk."""
    totals: dict[int, tuple[tuple[int, int], Whole]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            part = np.frombuffer(row["payload"], dtype=np.int64)
            if row["chunk"] in totals:
                totals[row["chunk"]][1].__iadd__(part)
            else:
                totals[row["chunk"]] = (row["length"], row["width"]), part.copy()
    for chunk, (shape, total) in totals.items():
        yield _sum_row(chunk, shape, total)


def _sum_row(chunk: int, shape: tuple[int, int], content: Whole) -> "pa.RecordBatch":
    import pyarrow as pa

    kinds = {**dict.fromkeys(("chunk", "length", "width"), pa.int64()), "payload": pa.binary()}
    columns = {"chunk": [chunk], "length": [shape[0]], "width": [shape[1]], "payload": [content.tobytes()]}
    return pa.RecordBatch.from_pydict(columns, schema=pa.schema(kinds))


def _blocks_of(
    batches: "Iterator[pa.RecordBatch]", message: Message, n_items: int
) -> "Iterator[tuple[dict[str, Any], CSR, Any]]":
    """Yield every block of a partition: its packed row, the converted block, and the work to run on it."""
    for batch in batches:
        work, converts = message.opened()
        for row in batch.to_pylist():
            block = block_of(row, n_items)
            for convert in converts:
                block = convert(block)
            yield row, block, work


def _collected(frame: "DataFrame", size: int) -> "Iterator[pa.RecordBatch]":
    """Yield the rows of a result: all at once, or partition by partition if they are large."""
    import pyarrow as pa
    from pyspark import StorageLevel

    if size <= COLLECTED_AT_ONCE:
        yield from frame.toArrow().to_batches()
        return
    # Computed on all executors first: the iterator alone would run one partition after another.
    kept = frame.persist(StorageLevel.DISK_ONLY)
    try:
        kept.count()
        for row in kept.toLocalIterator():
            yield pa.RecordBatch.from_pylist([row.asDict()])
    finally:
        with suppress(Exception):  # the context may be gone, and the exception that says why is already being raised
            kept.unpersist()


def _changed() -> EngineError:
    return EngineError(
        "a block of users was lost, and recomputed from different rows: the table changed while it was published "
        "(publish from a snapshot, or from a table that nobody writes to)"
    )
