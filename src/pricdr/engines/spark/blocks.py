"""Works on blocks of users on executors, in ``mapInArrow``: each block is one row in Spark, each work is sent sealed.

Spark writes Python broadcasts to files, on the driver and on every executor. So a work is encrypted in its broadcast,
under a key that is made for one job and travels inside the function, which Spark keeps in memory. Nothing is unpickled
before the seal has shown that this driver wrote it. ``docs/threat-model.md`` says what an attacker gets.
"""

import io
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np

from pricdr.data.blocks import Convert, Matrix, Numbers, RowFunction, SumFunction, Total, Whole
from pricdr.data.csr import CSR, sp
from pricdr.engines.spark.session import explained, persisted
from pricdr.errors import EngineError
from pricdr.privacy.noise import DiscreteGaussian, OpenedStreams
from pricdr.progress import Progress, silent
from pricdr.randomness import Seal

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Broadcast, SparkContext
    from pyspark.sql import DataFrame

Digests: TypeAlias = Mapping[int, bytes]
"""The hash of every block, by its first user: a block that was lost is recomputed, and must have the same hash."""
COLLECTED_AT_ONCE: Final = 256 << 20
"""The most bytes of a result that the driver fetches at once; a larger one comes partition by partition."""
CHUNK: Final = 4 << 20
"""Bytes of one piece of a sum: a range of items."""
_BYTES_PER_ITEM: Final = 264
"""Of a sum, about: learnt directions have at most 32 numbers, and a count."""
_BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ROWS: Final = "start bigint, payload binary"
_SUMS: Final = "chunk bigint, width bigint, payload binary"
_PIECE: Final = 1 << 26
"""Bytes that are sealed in one piece: AES-GCM takes less than 2^31."""
_received: Final[dict[str, Any]] = {}
"""The last work that this process received, by the number of its message; and its seal, while it is being opened."""


@dataclass(frozen=True)
class SealedFunction:
    """A work on its way to executors: an encrypted broadcast, and its key, which is never in a broadcast."""

    contents: "Broadcast[list[list[bytes]]]"
    """The work and each of its arrays, in sealed chunks."""
    wrapping: bytes = field(repr=False)
    number: str

    def opened(self) -> Any:  # noqa: ANN401
        """Return the work; a process opens each message once, and keeps only the last."""
        from pyspark import cloudpickle

        if self.number not in _received:
            _received.clear()
            seal = _received["seal"] = Seal(self.wrapping)
            work, *arrays = [
                b"".join(seal.open(chunk, f"{number} {at}") for at, chunk in enumerate(chunks))
                for number, chunks in enumerate(self.contents.value)
            ]
            # Arrays share the memory of their bytes, which nobody can write to: works are pure.
            _received[self.number] = cloudpickle.loads(work, buffers=arrays)
            _received.pop("seal").erase()
        return _received[self.number]


@contextmanager
def dispatched(context: "SparkContext", work: object) -> Iterator[SealedFunction]:
    """Yield ``work`` as a message to executors while a job runs; afterwards destroy its broadcast everywhere."""
    wrapping = secrets.token_bytes(32)
    seal = Seal(wrapping)
    contents = [
        [seal.close(piece[at : at + _PIECE], f"{number} {at // _PIECE}") for at in range(0, max(1, len(piece)), _PIECE)]
        for number, piece in enumerate(_pickled(work, seal))
    ]
    seal.erase()
    broadcast = context.broadcast(contents)
    try:
        yield SealedFunction(broadcast, wrapping, secrets.token_hex(8))
    finally:
        broadcast.destroy()


def _pickled(work: object, seal: Seal) -> list[memoryview]:
    """Return a work without its arrays, and the bytes of each array."""
    from pyspark import cloudpickle

    base: Any = cloudpickle.CloudPickler  # pyspark has no types for it

    class Pickler(base):  # type: ignore[misc]
        def reducer_override(self, value: object) -> Any:  # noqa: ANN401
            # Keys refuse to be pickled; noise hands out the sealed keys of its own streams.
            if isinstance(value, DiscreteGaussian):
                return _unsealed_noise, value.sealed(seal)
            return super().reducer_override(value)

    file, arrays = io.BytesIO(), list[Any]()
    Pickler(file, protocol=5, buffer_callback=arrays.append).dump(work)
    return [file.getbuffer(), *(array.raw() for array in arrays)]


def _unsealed_noise(name: str, refinement: int, keys: dict[str, bytes]) -> DiscreteGaussian:
    return DiscreteGaussian(OpenedStreams(keys, _received["seal"]), name, refinement=refinement)


class SparkMatrix(Matrix):
    """Blocks on executors; every block is converted whenever it is read, before a work gets it."""

    def __init__(self, frame: "DataFrame", digests: Digests, shape: tuple[int, int], convert: Convert) -> None:
        self._frame, self._digests, self.shape, self._convert = frame, digests, shape, convert

    def rows(
        self, work: RowFunction, out: Numbers, *, block_rows: int, what: str = "", progress: Progress = silent
    ) -> None:
        """Fill ``out`` with the results of ``work`` for every user."""
        arrived = np.zeros(len(out), dtype=bool)
        with self._dispatched(work, what, progress) as message:
            frame = self._frame.mapInArrow(_row_task(message, block_rows, out.dtype.str), _ROWS)
            for row in _collected(frame, out.nbytes):
                part = np.frombuffer(row["payload"], dtype=out.dtype).reshape(-1, *out.shape[1:])
                at = slice(row["start"], row["start"] + len(part))
                out[at], arrived[at] = part, True
        if not arrived.all():
            raise EngineError("Spark left out users", f"{int((~arrived).sum()):,} of them; please report this")

    def total(self, work: SumFunction) -> Whole:
        """Return the sum of the results of ``work``: added up within tasks, then by ranges of items."""
        tasks = self._frame.sparkSession.sparkContext.defaultParallelism
        with self._dispatched(work) as message:
            # Every task makes a whole sum: as few of them as there are cores.
            frame = self._frame.coalesce(tasks).mapInArrow(_sum_task(message, CHUNK), _SUMS)
            frame = frame.repartition(2 * tasks, "chunk").mapInArrow(_added, _SUMS)
            rows = sorted(_collected(frame, self.shape[1] * _BYTES_PER_ITEM), key=lambda row: row["chunk"])
        sums = [np.frombuffer(row["payload"], dtype=np.int64) for row in rows]
        if any(part[-1] != len(self._digests) for part in sums):
            raise EngineError("Spark left out blocks of users, or counted some twice; please report this")
        return np.concatenate([part[:-1].reshape(-1, row["width"]) for part, row in zip(sums, rows, strict=True)])

    @contextmanager
    def _dispatched(
        self, work: RowFunction | SumFunction, what: str = "", progress: Progress = silent
    ) -> Iterator[SealedFunction]:
        session = self._frame.sparkSession
        progress(what, 0, 1)
        session.conf.set(_BATCH, "1")  # a row is a block of megabytes: one at a time
        try:
            with (
                explained(f"compute {what or 'what is published'}"),
                dispatched(session.sparkContext, (work, self._convert, self._digests)) as message,
            ):
                yield message
        finally:
            session.conf.unset(_BATCH)
        progress(what, 1, 1)


# A query plan shows the names of functions, and not what is inside them: so these are inside others.
def _row_task(message: SealedFunction, block_rows: int, dtype: str) -> Any:  # noqa: ANN401
    def rows(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for first, block, work in _opened(batches, message):
            for at in range(0, block.shape[0], block_rows):
                part = np.ascontiguousarray(work(block[at : at + block_rows], first + at), dtype=dtype)
                yield one_row(start=first + at, payload=part.tobytes())

    return rows


def _sum_task(message: SealedFunction, chunk: int) -> Any:  # noqa: ANN401
    def sums(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        total, blocks = Total(), 0
        for first, block, work in _opened(batches, message):
            total.add(np.array(work(block, first), dtype=np.int64))
            blocks += 1
        if not blocks:
            return
        width = total.sum.shape[1]
        lines = max(1, chunk // (8 * max(1, width)))
        for number, at in enumerate(range(0, max(1, len(total.sum)), lines)):
            # The number of blocks is added up with the sums: the driver sees whether each was counted once.
            payload = np.append(total.sum[at : at + lines], blocks).tobytes()
            yield one_row(chunk=number, width=width, payload=payload)
        total.sum.fill(0)  # partial sums are as secret as the ratings

    return sums


def _added(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    totals: dict[tuple[int, int], Whole] = {}  # of all tasks, chunk by chunk
    for row in _rows_of(batches):
        key = row["chunk"], row["width"]
        totals[key] = totals.get(key, 0) + np.frombuffer(row["payload"], dtype=np.int64)
    for (chunk, width), total in totals.items():
        yield one_row(chunk=chunk, width=width, payload=total.tobytes())


def _opened(batches: "Iterator[pa.RecordBatch]", message: SealedFunction) -> Iterator[tuple[int, CSR, Any]]:
    """Yield every block of a partition: its first user, the converted block, and the work to run on it.

    A block with another hash than before the spend is refused: two results under the same noise differ by ratings.
    """
    for row in _rows_of(batches):
        work, convert, digests = message.opened()
        if row["digest"] != digests[row["first"]]:
            fault = "a block of users was lost, and recomputed from different rows: the table changed while it was"
            raise RuntimeError(f"{fault} published (publish from a snapshot, or from a table that nobody writes to)")
        block = cast(CSR, sp.load_npz(io.BytesIO(row["block"])).astype(np.float64, copy=False))
        yield row["first"], convert(block), work


def one_row(**columns: int | bytes) -> "pa.RecordBatch":
    """Return a batch of a single row."""
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({name: [value] for name, value in columns.items()})


def _rows_of(batches: "Iterator[pa.RecordBatch]") -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def _collected(frame: "DataFrame", size: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a result: all at once, or partition by partition if they are large."""
    if size <= COLLECTED_AT_ONCE:
        yield from _rows_of(frame.toArrow().to_batches())
        return
    # Computed on all executors first: the iterator alone would run one partition after another.
    with persisted(frame, "DISK_ONLY") as kept:
        kept.count()
        yield from (row.asDict() for row in kept.toLocalIterator())
