"""``open_ratings``: ratings in Spark, in blocks of users as publishing needs them, and how they were read.

Rows are shuffled once, by blocks of users. Inside a block repeated pairs are merged by the same rule as in memory, then
the threshold is applied. Blocks stay on their executors for all passes of a release.
"""

import hashlib
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from pricdr import __version__
from pricdr.data.blocks import Convert
from pricdr.data.csr import csr_of_cells, sp
from pricdr.data.ids import Ids, require_ids
from pricdr.data.reading.columns import Columns
from pricdr.data.reading.read import Reading, Repeats, deduplicate
from pricdr.engines.spark.blocks import SparkMatrix, one_row
from pricdr.engines.spark.session import explained, opened_session
from pricdr.engines.spark.table import CheckedRows, checked_rows, require_no_text_file
from pricdr.errors import MAX_SCALE, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_COUNTS: Final = ("kept", "rows", "pairs", "raters", "untimed")
_PACKED: Final = "first bigint, digest bigint, block binary, " + ", ".join(f"{name} bigint" for name in _COUNTS)
_BLOCK_ENTRIES: Final = 1 << 22
_BLOCKS_PER_CORE: Final = 4
_BROADCAST_IDS: Final = 1 << 20
"""A list of at most this many ids is sent to every executor, so that rows need not be shuffled for the join."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SparkRatings:
    """Ratings of listed users and items in blocks on executors: reading and checking them is complete.

    Selecting other users or items sorts the rows again. That happens before a budget is spent, since ``publish``
    selects before it spends.
    """

    source: CheckedRows
    users: Ids
    items: Ids
    threshold: float | None
    frame: "DataFrame"
    """One row per block of users, persisted on the executors."""
    digests: dict[int, int]
    """The hash of every block, by its first user: a block that was lost is recomputed, and must have the same hash."""
    counts: Mapping[str, int]
    """``rows``, ``pairs`` (distinct ones), ``kept`` (those that count), ``raters``, and ``untimed``: the rows of
    repeated pairs whose time cannot be read."""

    @property
    def filtered_by(self) -> str | None:
        """The filter on counts that the files disclose."""
        return self.source.filtered_by

    @property
    def has_values(self) -> bool:
        """Whether there is a rating column."""
        return self.source.has_values

    def __len__(self) -> int:
        """Return the number of rated (user, item) pairs."""
        return self.counts["kept"]

    def __repr__(self) -> str:
        """Show sizes only: ratings are private."""
        return f"SparkRatings({len(self.users)} users x {len(self.items)} items, {len(self)} rated)"

    @classmethod
    def of(cls, source: CheckedRows, users: Ids | None, items: Ids | None, threshold: float | None) -> Self:
        """Return the ratings of these users and items, in this order; by default of all that occur."""
        import pyarrow as pa
        from pyspark import StorageLevel
        from pyspark.sql import functions as sql

        users = source.ids("user") if users is None else require_ids("user", users)
        items = source.ids("item") if items is None else require_ids("item", items)
        session, shape = source.frame.sparkSession, (len(users), len(items))
        # From sizes alone, and no result depends on it. Without users there is one empty block: its sums are zeros.
        least_blocks = max(source.count // _BLOCK_ENTRIES, _BLOCKS_PER_CORE * session.sparkContext.defaultParallelism)
        per_block = max(1, -(-shape[0] // least_blocks))
        n_blocks = max(1, -(-shape[0] // per_block))

        def positions(role: str, ids: Ids) -> "DataFrame":
            at = pa.array(np.arange(len(ids), dtype=np.int32))
            table = session.createDataFrame(pa.table({role: pa.array(ids, pa.string()), f"{role}_at": at}))
            return sql.broadcast(table) if len(ids) <= _BROADCAST_IDS else table

        with explained("sort the ratings into blocks of users"):
            found = source.frame.join(positions("item", items), "item").join(positions("user", users), "user")
            keyed = found.selectExpr(f"int(user_at div {per_block}) block", "user_at", "item_at", "value", "seconds")
            # One more row for every block: users without a rating get rows too.
            none = "int(id) block", "-1 user_at", "-1 item_at", "0d value", "0d seconds"
            together = keyed.unionByName(session.range(n_blocks).selectExpr(*none))
            pack = _pack_task(per_block, shape, threshold, has_values=source.has_values)
            frame = together.repartition(n_blocks, "block").sortWithinPartitions("block").mapInArrow(pack, _PACKED)
            source.kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
            counts = frame.select("first", "digest", *_COUNTS).toArrow().to_pydict()
        assert len(counts["first"]) == n_blocks, "every block exists once"
        return cls(
            source=source,
            users=users,
            items=items,
            threshold=threshold,
            frame=frame,
            digests=dict(zip(counts["first"], counts["digest"], strict=True)),
            counts={name: sum(counts[name]) for name in _COUNTS},
        )

    def select(self, users: Ids | None = None, items: Ids | None = None) -> Self:
        """Return the ratings over exactly these users and items, in this order."""
        users = self.users if users is None else users
        items = self.items if items is None else items
        if users == self.users and items == self.items:
            return self
        return self.of(self.source, users, items, self.threshold)

    def outside(self, users: Ids, items: Ids) -> Self:
        """Return the ratings of all other users than these, over these items."""
        listed = set(users)
        return self.select(tuple(user for user in self.source.ids("user") if user not in listed), items)

    def units(self, convert: Convert) -> SparkMatrix:
        """Return the values as whole units, as ``convert`` computes them block by block."""
        return SparkMatrix(self.frame, self.digests, (len(self.users), len(self.items)), convert)


def _pack_task(per_block: int, shape: tuple[int, int], threshold: float | None, *, has_values: bool) -> Any:  # noqa: ANN401
    """Return the function that executors pack blocks with: inside a function, since query plans show only its name."""
    driver = __version__

    def pack(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        import pricdr

        if pricdr.__version__ != driver:  # its noise might differ
            fault = f"executors have pricdr {pricdr.__version__}, the driver has {driver}: install the same version"
            raise RuntimeError(fault)
        for number, parts in groupby(_cut(batches), key=lambda part: part["block"][0].as_py()):
            table, first = pa.Table.from_batches(list(parts)), number * per_block
            real = table["user_at"].to_numpy() >= 0
            columns = (table[name].to_numpy()[real] for name in ("user_at", "item_at", "value", "seconds"))
            users, at, values, seconds = columns
            users = users.astype(np.int64) - first
            kept, untimed = deduplicate(users * shape[1] + at, values, seconds)
            counts = {"rows": len(users), "pairs": int(kept.sum()), "raters": len(np.unique(users)), "untimed": untimed}
            if threshold is not None:
                kept &= values >= threshold
            cells = values[kept] if has_values else np.ones(int(kept.sum()), dtype=np.int8)
            block = csr_of_cells(users[kept], at[kept], cells, (min(per_block, shape[0] - first), shape[1]))
            block.indices, block.indptr = (part.astype(np.int32) for part in (block.indices, block.indptr))
            digest, content = hashlib.blake2b(first.to_bytes(8, "big"), digest_size=8), io.BytesIO()
            for part in (block.indptr, block.indices, block.data):
                digest.update(part.tobytes())
            sp.save_npz(content, block, compressed=False)
            hashed = int.from_bytes(digest.digest(), "big", signed=True)
            yield one_row(first=first, digest=hashed, block=content.getvalue(), kept=block.nnz, **counts)

    return pack


def _cut(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Yield rows, which arrive sorted by block, in pieces that belong to one block each."""
    for batch in batches:
        cuts = np.flatnonzero(np.diff(batch["block"])) + 1
        for start, stop in pairwise([0, *cuts.tolist(), len(batch)] if len(batch) else []):
            yield batch.slice(start, stop - start)


@contextmanager
def open_ratings(
    location: str,
    *,
    columns: Columns | str | None = None,
    threshold: float | None = None,
    users: Ids | None = None,
    items: Ids | None = None,
    settings: Mapping[str, str] | None = None,
    session: "SparkSession | None" = None,
) -> Iterator[Reading[SparkRatings]]:
    """Open ratings in Parquet or a table for ``publish``: they are checked, sorted and kept on executors.

    Args:
        location: a path or URL of Parquet that the cluster can read, or ``table:`` and the name of a table.
        columns: the columns to read; found by name by default.
        threshold: keep only pairs rated at least this.
        users: the agreed user list; by default all users that occur.
        items: the item universe; by default all items that occur.
        settings: settings of the Spark session that is created, such as ``spark.master``.
        session: an existing session to use instead; it must encrypt what it writes and sends.

    Pass the same lists to ``publish``: for other lists the rows would be sorted again.
    """
    if threshold is not None and not abs(threshold) <= MAX_SCALE:
        raise ParameterError(f"threshold must be a finite number from -1e15 to 1e15, got {threshold!r}")
    require_no_text_file(location)
    parsed = Columns.parse(columns) if isinstance(columns, str) else columns
    with opened_session(settings or {}, session) as own:
        source = checked_rows(own, location, parsed, need_rating=threshold is not None)
        try:
            ratings = SparkRatings.of(source, users, items, threshold)
            yield _reading(ratings, of_listed=users is not None or items is not None)
        finally:
            with suppress(Exception):  # Java may be gone, and the exception that says why is already being raised
                source.release()


def _reading(ratings: SparkRatings, *, of_listed: bool) -> Reading[SparkRatings]:
    """Return the ratings, and how they were read. Ids of users stay on the cluster: none is fetched for the screen."""
    source, counts = ratings.source, ratings.counts
    left_out, below = source.count - counts["rows"], counts["pairs"] - counts["kept"]
    dropped = [("rows of users or items that are not listed", left_out)] if left_out else []
    return Reading(
        ratings=ratings,
        name=source.location,
        rows=source.count,
        raters=None,
        n_raters=counts["raters"],
        n_ratings=len(ratings),
        of_listed=of_listed,
        repeats=Repeats(counts["rows"] - counts["pairs"], source.has_times, counts["untimed"]),
        dropped=(*dropped, *([(f"rated below {ratings.threshold:g}", below)] if below else [])),
        rating_range=source.rating_range if source.has_values else None,
        half_steps=source.half_steps,
    )
