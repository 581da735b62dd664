"""Hostile id lists and columns: read, or refused in one line. Files of ratings are those of ``stage_one``."""

import string

from hypothesis import HealthCheck, example, given, settings, strategies as st

from pricdr.data.ids import read_ids
from pricdr.data.reading.read import Columns
from pricdr.errors import InputError, ParameterError

quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

NASTY = (
    """ \x00 \ufeff \u202e \ud7ff a\u0300 0 007 1e309 nan -inf NULL None ../x /etc/passwd C:\\x =cmd() ' " "" "," \\"""
)
nasty = st.sampled_from([*NASTY.split(" "), " ", "\t", "\r", "\n", "\r\n", "\u2028", "💥" * 40, "x" * 5000])
field = st.one_of(nasty, st.text(max_size=12), st.integers().map(str), st.floats().map(str))


@quick
@given(st.lists(field, max_size=10), st.sampled_from(["\n", "\r\n"]))
def test_any_id_list(tmp_path, ids, newline):
    path = tmp_path / "users.txt"
    path.write_bytes(newline.join(ids).encode("utf-8", "surrogatepass"))
    try:
        read_back = read_ids(path)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert len(set(read_back)) == len(read_back) > 0
    assert all(read_back)


@quick
@given(st.text(alphabet=string.printable, max_size=40))
@example("user=1,item=1")
@example("user=0,item=2")
@example("user=" + "9" * 400 + ",item=1")
def test_any_columns_option(text):
    try:
        columns = Columns.parse(text)
    except ParameterError as error:
        assert "\n" not in str(error)
        return
    assert columns.user != columns.item
