"""Ratings that are streamed batch by batch are those that are read at once, however files are cut."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pricdr.data.reading import formats, jsonlines, text_files
from pricdr.data.reading.batches import open_stream
from pricdr.data.reading.raw_ratings import CheckedRows, CodedIds, encode_rows, to_ratings
from pricdr.data.reading.readers import read_ratings_file as read
from pricdr.errors import InputError
from pricdr.untrusted import sandbox


def streamed(path, **options):
    """The ratings of a stream, merged as those that are read at once."""
    stream = open_stream(path, **options)
    batches = list(stream.batches())
    users, items = (pl.concat([getattr(batch, role) for batch in batches]) for role in ("users", "items"))
    values = np.concatenate([batch.values for batch in batches]) if stream.has_values else None
    times = np.concatenate([batch.seconds for batch in batches]) if stream.has_times else None
    assert users.null_count() == items.null_count() == 0
    rows = CheckedRows(CodedIds.of(users), CodedIds.of(items), values, None if times is None else pl.Series(times))
    return to_ratings(encode_rows(rows, path), path, stream.filtered_by), stream


def same(one, other):
    return one.fingerprint() == other.fingerprint() and one.has_values == other.has_values


def outcome(call):
    try:
        return call().fingerprint()
    except InputError:
        return "refused"


PIECES = st.lists(
    st.sampled_from(["a", "b", ",", '"', "\n", "\r\n", "\r", '""', 'a,"b"\n', "a,b\n", '"x,y",z\n', "c,\n"])
)


@settings(max_examples=100)
@given(pieces=PIECES, block=st.sampled_from([1, 5, 12]), skip=st.booleans())
@example(pieces=['a,"', "\n", '"\r\n', "a,b\n"], block=1, skip=False)
@example(pieces=['a"b,c\n', 'a,"b\n', "a,b\n", 'c"\n', "a,b\n"], block=1, skip=True)
def test_text_in_blocks_is_read_as_all_at_once(tmp_path_factory, pieces, block, skip):
    path = tmp_path_factory.mktemp("csv") / "r.csv"
    path.write_bytes(("user,item\n" + "".join(pieces)).encode())
    options = {"skip_bad_rows": True, "most_bad_rows": 1.0} if skip else {}
    whole = outcome(lambda: read(path, **options).ratings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "_TEXT_BLOCK", block)
        patch.setattr(text_files, "_BLOCK", block)
        parts = outcome(lambda: streamed(path, **options)[0])
    assert parts == whole


# --- however rows are cut -----------------------------------------------------------------------------------------

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "ü", "007"]),
        st.sampled_from(["x", "y", "z,1"]),
        st.integers(1, 5).map(float),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=24,
)
SCHEMA = {"user": pl.String, "item": pl.String, "rating": pl.Float64, "timestamp": pl.Int64}


def frame_of(rows):
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def write_cut(folder, frame, cuts, kind, group):
    """Write the rows between cuts to files of their own, under folders of partitions; some Parquet files are empty."""
    ends = sorted({cut % (frame.height + 1) for cut in cuts} | {frame.height})
    for number, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        part = frame[start:end]
        below = folder / f"country={number % 2}" / f"day={number % 3}"
        below.mkdir(parents=True, exist_ok=True)
        file = below / f"part-{number:05}.{kind}"
        if kind == "parquet":
            part.write_parquet(file, row_group_size=group)
        elif part.height:
            {"csv": part.write_csv, "jsonl": part.write_ndjson}[kind](file)
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.crc").write_bytes(b"x")
    return folder


@settings(max_examples=12)
@given(
    rows=ROWS,
    cuts=st.lists(st.integers(0, 30), max_size=4),
    kind=st.sampled_from(["parquet", "csv", "jsonl"]),
    group=st.integers(1, 9),
    batch=st.integers(1, 9),
)
def test_any_cut_into_files_partitions_and_row_groups_gives_the_same_ratings(
    tmp_path_factory, rows, cuts, kind, group, batch
):
    folder = tmp_path_factory.mktemp("cut")
    frame = frame_of(rows)
    frame.write_parquet(folder / "one.parquet")
    one = read(folder / "one.parquet")
    many = write_cut(folder / "many", frame, cuts, kind, group)
    together = read(many)
    assert same(together.ratings, one.ratings)
    assert (together.rows, together.repeats, together.rating_range) == (one.rows, one.repeats, one.rating_range)
    assert same(read(f"{many}/**/*.{kind}").ratings, one.ratings)
    ratings, stream = streamed(many, batch_rows=batch)
    assert same(ratings, one.ratings)
    assert stream.rows == len(rows)


def test_a_batch_has_the_rows_of_its_file_in_order(tmp_path):
    frame = frame_of([(f"u{at}", f"i{at % 7}", 1.0 + at % 5, at) for at in range(100)])
    frame.write_parquet(tmp_path / "r.parquet", row_group_size=30)
    batches = list(open_stream(tmp_path / "r.parquet", batch_rows=40).batches())
    # Row groups are decoded one by one (30 and 30 do not fit into 40) and are never torn apart needlessly.
    assert [len(batch.users) for batch in batches] == [30, 30, 40]
    assert pl.concat([batch.users for batch in batches]).to_list() == frame["user"].to_list()
    assert np.concatenate([batch.values for batch in batches]).tolist() == frame["rating"].to_list()
    assert np.concatenate([batch.seconds for batch in batches]).tolist() == frame["timestamp"].to_list()


def test_a_large_row_group_comes_in_slices(tmp_path):
    frame_of([(f"u{at}", "x", 1.0, at) for at in range(100)]).write_parquet(tmp_path / "r.parquet")
    sizes = [len(batch.users) for batch in open_stream(tmp_path / "r.parquet", batch_rows=40).batches()]
    assert sizes == [40, 40, 20]


def test_a_row_group_beyond_the_memory_is_refused_and_a_file_of_small_ones_is_not(tmp_path, monkeypatch, refused):
    frame = frame_of([(f"u{at}", "x", 1.0, at) for at in range(60_000)])
    frame.write_parquet(tmp_path / "one.parquet", row_group_size=60_000)
    frame.write_parquet(tmp_path / "many.parquet", row_group_size=5_000)
    monkeypatch.setenv("PRICDR_MEMORY", "6MB")
    message = refused(lambda: list(open_stream(tmp_path / "one.parquet").batches()))
    assert "row group 1 of 60,000 rows" in message
    assert "PRICDR_MEMORY" in message
    assert "memory" in refused(lambda: read(tmp_path / "many.parquet"))
    rows = sum(len(batch.users) for batch in open_stream(tmp_path / "many.parquet", batch_rows=5_000).batches())
    assert rows == 60_000


def test_times_and_missing_values_in_a_stream(tmp_path):
    frame = pl.DataFrame({"user": ["a", "b"], "item": [7, 8], "date": ["2024-05-31", "soon"]})
    frame.write_csv(tmp_path / "r.csv")
    (batch,) = open_stream(tmp_path / "r.csv").batches()
    assert batch.values is None
    assert batch.seconds.tolist() == [1717113600.0, -np.inf]
    assert batch.items.to_list() == ["7", "8"]
    assert batch.users.dtype == batch.items.dtype == pl.String


# --- faults are those of the other way, and name their row --------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [
        ("user", None, "row 8: the user id is empty (null)"),
        ("user", "", "row 8: the user id is empty"),
        ("item", "a\nb", "row 8: the item id 'a\\nb' holds a line break"),
        ("item", "x" * 1001, "has more than 1,000 characters"),
        ("rating", float("nan"), "row 8: the rating nan is not a finite number"),
        ("rating", None, "row 8: the rating is empty"),
    ],
)
def test_a_fault_is_named_alike_in_a_stream_and_at_once(tmp_path, refused, column, value, fault):
    rows = [{"user": f"u{at}", "item": f"i{at}", "rating": 1.0} for at in range(10)]
    rows[7][column] = value
    file = tmp_path / "part-1.parquet"
    pl.DataFrame(rows).write_parquet(file, row_group_size=3)
    at_once, in_a_stream = refused(lambda: read(tmp_path)), refused(lambda: list(open_stream(tmp_path).batches()))
    assert at_once.startswith(f"{file}: row 8: ")
    assert fault in at_once
    assert in_a_stream == at_once
    kept, stream = streamed(tmp_path, skip_bad_rows=True, most_bad_rows=0.2)
    assert same(kept, read(tmp_path, skip_bad_rows=True, most_bad_rows=0.2).ratings)
    assert stream.bad_rows.count == 1
    assert "row 8" in stream.bad_rows.first[0]
    assert "of 10 rows is bad" in refused(lambda: streamed(tmp_path, skip_bad_rows=True, most_bad_rows=0.05))


@pytest.mark.parametrize("name", ["r.csv", "r.jsonl"])
def test_bad_rows_of_text_keep_their_numbers_across_blocks(write, monkeypatch, name):
    lines = [f"u{at},i{at}" for at in range(9)]
    lines[4], lines[7] = "u4", ",i7"
    text, columns = "user,item\n" + "\n".join(lines), None
    if name == "r.jsonl":
        pairs = [line.split(",") for line in lines]
        text = "\n".join(json.dumps(dict(zip(("user", "item"), pair, strict=False))) for pair in pairs)
        columns = "user=user,item=item"
    path = write(name, text)
    monkeypatch.setattr(formats, "_TEXT_BLOCK", 10)
    monkeypatch.setattr(text_files, "_BLOCK", 5)
    monkeypatch.setattr(jsonlines, "_CHUNK", 2)
    options = {"skip_bad_rows": True, "most_bad_rows": 0.5, "columns": columns}
    ratings, stream = streamed(path, **options)
    assert same(ratings, read(path, **options).ratings)
    assert [fault[:5] for fault in stream.bad_rows.first] == ["row 5", "row 8"]
    assert stream.bad_rows.first == read(path, **options).bad_rows.first


def test_bad_rows_are_counted_over_all_files(tmp_path, refused):
    for number in range(4):
        bad = "a\n" if number == 2 else "a,b\n"
        (tmp_path / f"{number}.csv").write_text("user,item\n" + "".join(f"u{at},x\n" for at in range(9)) + bad)
    for call in (read, lambda path, **options: streamed(path, **options)[1]):
        content = call(tmp_path, skip_bad_rows=True, most_bad_rows=0.03)
        assert content.bad_rows.count == 1
        assert content.bad_rows.first[0].startswith(f"{tmp_path / '2.csv'}: row 10 (line 11) is too short")
        message = refused(lambda call=call: call(tmp_path, skip_bad_rows=True, most_bad_rows=0.02))
        assert "1 of 40 rows is bad" in message


def test_a_stream_reads_no_further_than_it_is_asked(tmp_path, monkeypatch):
    """Memory is bounded because a row group is decoded when it is wanted; one process decodes all of them."""
    frame_of([(f"u{at}", "x", 1.0, at) for at in range(40_000)]).write_parquet(
        tmp_path / "r.parquet", row_group_size=500
    )
    asked = []
    ask = sandbox.ask

    def counted(*args, **kwargs):
        asked.append(args[0])
        return ask(*args, **kwargs)

    monkeypatch.setattr("pricdr.untrusted.parquet.ask", counted)
    batches = open_stream(tmp_path / "r.parquet", batch_rows=500).batches()
    first = next(batches)
    assert first.users.to_list()[:2] == ["u0", "u1"]
    assert sum(len(batch.users) for batch in batches) == 39_500
    assert len(asked) == 2  # what the file says, and its rows
