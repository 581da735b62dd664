"""Ratings that are streamed batch by batch are those that are read at once, however files are cut."""

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pricdr.data.reading import formats, text_files
from pricdr.data.reading.batches import open_stream
from pricdr.data.reading.raw_ratings import CheckedRows, CodedIds, encode_rows, to_ratings
from pricdr.data.reading.readers import read_ratings_file as read
from pricdr.errors import InputError


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


def outcome(call):
    try:
        return call().fingerprint()
    except InputError as error:
        assert "\n" not in str(error)
        return "refused"


PIECES = st.lists(
    st.sampled_from(["a", "b", ",", '"', "\n", "\r\n", "\r", '""', 'a,"b"\n', "a,b\n", '"x,y",z\n', "c,\n"])
)


@settings(max_examples=200)
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
