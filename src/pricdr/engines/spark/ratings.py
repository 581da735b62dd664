"""``open_ratings``: ratings in Spark, in blocks of users as publishing needs them, and how they were read.

Executors check rows as those of files are, and merge repeated pairs; rows are shuffled once, by blocks, which stay.
"""

import hashlib
import io
import re
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from pricdr import __version__
from pricdr.data.blocks import Convert, RatingsSource
from pricdr.data.csr import csr_of_cells, sp
from pricdr.data.ids import CONTROLS_IN_RE2, MAX_ID_LENGTH, Ids, require_ids
from pricdr.data.periods import Window
from pricdr.data.reading.columns import Columns, find_named
from pricdr.data.reading.formats import DATE, FILTERED, NUMBER, values_fault
from pricdr.data.reading.read import Reading, Repeats, last_of_each
from pricdr.data.reading.text_files import file_refusal, refusal, shorten
from pricdr.engines.spark.blocks import Digests, SparkMatrix, one_row
from pricdr.engines.spark.session import explained, is_local, opened_session, persisted
from pricdr.errors import MAX_SCALE, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_TABLE: Final = "table:"
"""The prefix of a location that names a table in Spark's catalogue."""
_INFINITE: Final = "double('infinity')"
_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_NUMBERS: Final = (*_WHOLE, "float", "double", "decimal")
_KINDS: Final = {
    **dict.fromkeys(("user", "item"), ((*_WHOLE, "string"), "ids must be text or whole numbers")),
    "rating": (_NUMBERS, "ratings must be numbers"),
    "time": ((*_NUMBERS, "string", "date", "timestamp", "timestamp_ntz"), "times must be dates, numbers or text"),
}
_READ_AS: Final = {"decimal": "double", "date": "timestamp", "timestamp_ntz": "timestamp"}
_FOOTERS_AT_A_TIME: Final = 16
_COUNTS: Final = ("kept", "rows", "pairs", "raters", "untimed")
_PACKED: Final = "first bigint, digest binary, block binary, " + ", ".join(f"{name} bigint" for name in _COUNTS)
_BLOCK_ENTRIES: Final = 1 << 22
_BLOCKS_PER_CORE: Final = 4
_TEXT_FILES: Final = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".dat", ".inter", ".gz")


@dataclass(frozen=True, eq=False, repr=False)
class CheckedRows:
    """Checked rows (``user``, ``item``, ``value`` and ``seconds``), and figures about them."""

    frame: "DataFrame"
    """Persisted, until ``lifetime`` ends: every pass sees the same rows, even if somebody writes to the table."""
    lifetime: ExitStack
    has_values: bool
    has_times: bool
    filtered_by: str | None
    report: dict[str, Any]
    """What a :class:`Reading` says of all rows."""
    window: Window | None = None

    def ids(self, role: str, listed: Ids | None) -> Ids:
        """Return the ids that are listed; without a list all of a column, sorted by their UTF-8 bytes, as in memory."""
        if listed is not None:
            return require_ids(role, listed)
        with explained(f"list the {role}s of {self.report['name']}"):
            distinct = self.frame.select(role).distinct().toArrow()
        # Python compares text by code points, which is also the order of UTF-8 bytes.
        return tuple(sorted(distinct.column(role).to_pylist()))


def checked_rows(
    session: "SparkSession",
    location: str,
    columns: Columns | None,
    lifetime: ExitStack,
    *,
    need_rating: bool,
    window: Window | None = None,
) -> CheckedRows:
    """Return the rows at ``location``, each checked: a path or URL of Parquet, or ``table:`` and a name."""
    with explained(f"read {location}"):
        frame = _frame(session, location)
        kinds = {name: kind.partition("(")[0] for name, kind in frame.dtypes}
    found_at = find_named(location, list(kinds), columns, need_rating=need_rating)
    names = {role: frame.columns[at] for role, at in found_at.items()}
    time_asked = window is not None or (columns is not None and columns.time is not None)
    if window is not None and "time" not in names:
        raise file_refusal(location, "a period needs the time of every row, and there is no time column")
    if "time" in names and not time_asked and kinds[names["time"]] not in _KINDS["time"][0]:
        del names["time"]
    for role, name in names.items():
        accepted, rule = _KINDS[role]
        if kinds[name] not in accepted:
            raise file_refusal(location, f"the {role} column {shorten(name)} holds {kinds[name]}; {rule}")
    time_kind = kinds.get(names.get("time", ""), "")
    types = {"user": "string", "item": "string", "rating": "double", "time": _READ_AS.get(time_kind, time_kind)}
    quoted = {role: "`{}`".format(name.replace("`", "``")) for role, name in names.items()}  # a dot is no path
    with explained(f"read {location}"):
        rows = frame.selectExpr(*(f"CAST({name} AS {types[role]}) AS {role}" for role, name in quoted.items()))
        text_times = time_kind == "string"
        checks = _checks(names, text_times=text_times, time_asked=time_asked, lenient=window is not None)
        rows = rows.selectExpr(*checks)
        rows = lifetime.enter_context(persisted(rows, "DISK_ONLY"))
        figures = ("count(*) n", "count_if(bad) bad", "min(value) least", "max(value) most")
        found: Any = rows.selectExpr(*figures, "min(rint(2 * value) = 2 * value) half_steps").first()
    if found.bad and (bad := rows.filter("bad").first()) is not None:
        raise refusal(location, f"a row{values_fault(bad.asDict(), time_asked=time_asked)}")
    if not found.n:
        raise file_refusal(location, "it has columns and no rows")
    if window is not None:  # before repeats are merged, and before anything is read off rows
        rows = rows.filter(window.inside)
    shuffles = max(2 * session.sparkContext.defaultParallelism, found.n >> 20)
    session.conf.set("spark.sql.shuffle.partitions", str(shuffles))
    rated, timed = "rating" in names, "time" in names
    rating_range = (found.least, found.most) if rated else None
    report = {"name": location, "rows": found.n, "rating_range": rating_range, "half_steps": found.half_steps}
    return CheckedRows(rows, lifetime, rated, timed, _filter_of(frame, location), report, window)


def _frame(session: "SparkSession", location: str) -> "DataFrame":
    if location.startswith(_TABLE):
        return session.table(location.removeprefix(_TABLE))
    if is_local(session.sparkContext.master or "") and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", location):
        # A path on this machine stays local, whatever default file system Hadoop's settings name.
        location = Path(location).absolute().as_uri()
    return session.read.parquet(location)


def _checks(roles: Collection[str], *, text_times: bool, time_asked: bool, lenient: bool) -> list[str]:
    """Return the columns of checked rows in SQL: what works read, whether a row is bad, and what it holds.

    ``lenient``: an absent time is none at all, and not a bad one.
    """
    # -0 equals 0, so rows of a pair may be in either order; as bytes the blocks would differ.
    value = "rating + 0d" if "rating" in roles else "1d"
    seconds = "double(time)" if "time" in roles else "0d"
    if text_times:
        text = "trim(BOTH ' \\t\\n\\u000b\\f\\r' FROM time)"
        moment = f"CASE WHEN {text} RLIKE r'^{DATE}$' THEN unix_micros(try_cast({text} AS timestamp)) / 1e6d END"
        seconds = f"CASE WHEN {text} RLIKE r'^{NUMBER}$' THEN try_cast({text} AS double) ELSE {moment} END"
    finite = f"abs({{}}) < {_INFINITE}"  # to Spark, NaN is larger than any number
    wrong = [
        f"NOT is_valid_utf8({role}) OR {role} = '' OR char_length({role}) > {MAX_ID_LENGTH} OR "
        f"{role} RLIKE r'{CONTROLS_IN_RE2}'"
        for role in ("user", "item")
    ]
    wrong += [f"NOT {finite.format('rating')}"] * ("rating" in roles)
    unreadable = f"NOT coalesce({finite.format(f'({seconds})')}, false)"
    wrong += [f"time IS NOT NULL AND {unreadable}" if lenient else unreadable] * time_asked
    return [
        "user",
        "item",
        f"{value} AS value",
        f"CASE WHEN {finite.format(f'({seconds})')} THEN {seconds} + 0d ELSE -{_INFINITE} END AS seconds",
        f"coalesce({' OR '.join(wrong)}, true) AS bad",
        *(role for role in ("rating", "time") if role in roles),
    ]


def _filter_of(frame: "DataFrame", location: str) -> str | None:
    """Return the filter on counts that the Parquet files disclose; all of them must disclose the same."""
    session = cast(Any, frame.sparkSession)
    jvm, conf = session._jvm, session._jsc.hadoopConfiguration()
    with explained(f"list the files of {location}"):
        files = [file for file in frame.inputFiles() if not location.startswith(_TABLE) or ".parquet" in file]

    def filter_in(file: str) -> Any:  # noqa: ANN401
        path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))
        opened = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(path, conf)
        with closing(jvm.org.apache.parquet.hadoop.ParquetFileReader.open(opened)) as reader:
            return reader.getFileMetaData().getKeyValueMetaData().get(FILTERED)

    with explained(f"read the footers of {location}"), ThreadPoolExecutor(_FOOTERS_AT_A_TIME) as pool:
        filters = set(pool.map(filter_in, files))
    if len(filters) > 1:
        fault = "its files went through different filters on counts (pricdr prepare): publish those of one filter"
        raise file_refusal(location, fault)
    return filters.pop() if filters else None


class SparkRatings(RatingsSource):
    """Checked ratings of listed users and items in blocks on executors; selecting others sorts the rows again."""

    def __init__(self, source: CheckedRows, users: Ids | None, items: Ids | None, threshold: float | None) -> None:
        import pyarrow as pa

        self.source, self.threshold = source, threshold
        self.filtered_by, self.has_values, self.window = source.filtered_by, source.has_values, source.window
        self.users, self.items = source.ids("user", users), source.ids("item", items)
        session, shape = source.frame.sparkSession, (len(self.users), len(self.items))
        # From sizes alone, and no result depends on it. Without users there is one empty block: its sums are zeros.
        cores = session.sparkContext.defaultParallelism
        least_blocks = max(source.report["rows"] // _BLOCK_ENTRIES, _BLOCKS_PER_CORE * cores)
        per_block = max(1, -(-shape[0] // least_blocks))
        n_blocks = max(1, -(-shape[0] // per_block))
        rows = source.frame
        with explained("sort the ratings into blocks of users"):
            for role, ids in (("item", self.items), ("user", self.users)):
                at = pa.array(np.arange(len(ids), dtype=np.int32))
                positions = pa.table({role: pa.array(ids, pa.string()), f"{role}_at": at})
                rows = rows.join(session.createDataFrame(positions), role)
            columns = ("user_at", "item_at", "seconds", "value")
            keyed = rows.selectExpr(f"int(user_at div {per_block}) block", *columns)
            # One more row for every block: users without a rating get rows too.
            none = "int(id) block", "-1 user_at", "-1 item_at", "0d seconds", "0d value"
            together = keyed.unionByName(session.range(n_blocks).selectExpr(*none))
            pack = _pack_task(per_block, shape, threshold, has_values=source.has_values)
            blocks = together.repartition(n_blocks, "block")
            frame = blocks.sortWithinPartitions("block", *columns).mapInArrow(pack, _PACKED)
            frame = source.lifetime.enter_context(persisted(frame, "MEMORY_AND_DISK"))
            counts = frame.select("first", "digest", *_COUNTS).toArrow().to_pydict()
        assert len(counts["first"]) == n_blocks, "every block exists once"
        self.frame = frame.select("first", "digest", "block")
        """One row per block of users, persisted on the executors."""
        self.digests: Digests = dict(zip(counts["first"], counts["digest"], strict=True))
        self.counts: dict[str, int] = {name: sum(counts[name]) for name in _COUNTS}
        """Of pairs distinct ones, of which those ``kept`` count; ``untimed`` as in :class:`Repeats`."""

    def __len__(self) -> int:
        return self.counts["kept"]

    def over(self, users: Ids, items: Ids) -> "SparkRatings":
        """Return the ratings over exactly these users and items."""
        return SparkRatings(self.source, users, items, self.threshold)

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
            columns = ("user_at", "item_at", "value", "seconds")
            users, at, values, seconds = (table[name].to_numpy()[real] for name in columns)
            users = users.astype(np.int64) - first
            kept, untimed = last_of_each(users * shape[1] + at, seconds)
            counts = {"rows": len(users), "pairs": int(kept.sum()), "raters": len(np.unique(users)), "untimed": untimed}
            if threshold is not None:
                kept &= values >= threshold
            cells = values[kept] if has_values else np.ones(int(kept.sum()), dtype=np.int8)
            block = csr_of_cells(users[kept], at[kept], cells, (min(per_block, shape[0] - first), shape[1]))
            block.indices, block.indptr = (part.astype(np.int32) for part in (block.indices, block.indptr))
            file = io.BytesIO()
            sp.save_npz(file, block, compressed=False)
            content = file.getvalue()
            digest = hashlib.blake2b(content).digest()
            yield one_row(first=first, digest=digest, block=content, kept=block.nnz, **counts)

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
    window: Window | None = None,
    settings: Mapping[str, str] | None = None,
    session: "SparkSession | None" = None,
) -> Iterator[Reading[SparkRatings]]:
    """Open ratings in Parquet or a table for ``publish``: they are checked, sorted and kept on executors.

    ``location`` is a path or URL of Parquet that the cluster can read, or ``table:`` and the name of a table.
    ``settings`` (such as ``spark.master``) are those of the session that is created; one that is given must encrypt
    what it writes and sends. Pass the same ``users`` and ``items`` to ``publish``: others would be sorted again.
    """
    if threshold is not None and not abs(threshold) <= MAX_SCALE:
        raise ParameterError(f"threshold must be a finite number from -1e15 to 1e15, got {threshold!r}")
    if window is not None and window.days is not None:
        raise ParameterError("unit user-period is for ratings in memory: leave --engine spark out")
    if Path(location).suffix.lower() in _TEXT_FILES:  # before Spark is started
        raise file_refusal(location, "--engine spark reads Parquet or a table (table:catalog.db.name), not text files")
    parsed = Columns.parse(columns) if isinstance(columns, str) else columns
    with opened_session(settings or {}, session) as own, ExitStack() as lifetime:
        source = checked_rows(own, location, parsed, lifetime, need_rating=threshold is not None, window=window)
        ratings = SparkRatings(source, users, items, threshold)
        counts = ratings.counts
        dropped = {"rows of users or items that are not listed": source.report["rows"] - counts["rows"]}
        if threshold is not None:
            dropped[f"rated below {threshold:g}"] = counts["pairs"] - counts["kept"]
        yield Reading(
            ratings=ratings,
            raters=None,  # they stay on the cluster: none is fetched for the screen
            n_raters=counts["raters"],
            n_ratings=len(ratings),
            of_listed=users is not None or items is not None,
            repeats=Repeats(counts["rows"] - counts["pairs"], source.has_times, counts["untimed"]),
            dropped={reason: count for reason, count in dropped.items() if count},
            **source.report,
        )
