"""``pricdr reproduce --table3``."""

from pricdr.experiments.table3 import read
from tests.raw_files import FORMS, known_pair


def test_table_3_is_counted_written_and_shown(pricdr, tmp_path):
    FORMS[1].put(tmp_path / "data", *known_pair())
    done = pricdr("reproduce", "--table3", "--data", tmp_path / "data", "--out", tmp_path / "out")
    assert done.code == 0
    assert "Amazon Music→Book | ours: differs (rating ≥ 3, the five steps) | 7 | 7 | 49 | 100.00%" in done.out
    assert done.out.count("data not present: point PRICDR_DATA at it") == 8
    assert read(tmp_path / "out" / "table3.json").rows[0].measured.users == 7


def test_without_a_spec_there_is_nothing_to_reproduce(pricdr, tmp_path):
    done = pricdr("reproduce", "--data", tmp_path, "--out", tmp_path / "out")
    assert done.code == 2
    assert "nothing to reproduce: name a spec, or say --table3" in done.err
