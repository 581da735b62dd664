from pathlib import Path

import pytest

from pricdr.errors import InputError
from pricdr.experiments.spec import ReleaseSpec, Rows, read_search, read_spec
from pricdr.models.catalogue import METHODS

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.toml"))
GOOD = """
title = "a table"
seeds = [1, 2]

[data]
folder = "here"
source = "a.csv"
target = "b.csv"

[[arm]]
name = "popularity"
method = "popularity"

[[arm]]
name = "jlt"
method = "hetero"
release = { strategy = "jlt", epsilon = 4, rows = "noise" }
settings = { width = 50 }
"""


def write(tmp_path, text):
    path = tmp_path / "table.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_every_committed_spec_can_be_read_and_configured(path):
    spec = read_spec(path, path.parent / "tuned")
    for arm in spec.arms:
        METHODS[arm.method].configure(arm.settings, preset=arm.preset)
    assert len(spec.seeds) == 5


def test_a_spec_is_what_its_file_says(tmp_path):
    spec = read_spec(write(tmp_path, GOOD))
    assert spec.name == "table"
    assert spec.seeds == (1, 2)
    assert spec.arms[1].release == ReleaseSpec(strategy="jlt", epsilon=4, rows=Rows.NOISE)
    assert spec.arms[1].settings == {"width": 50}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[data]", "[date]", r"no \[data\]"),
        ("folder", "folders", "unknown key 'folders'"),
        ('source = "a.csv"\n', "", "needs 'source'"),
        ('method = "popularity"', 'method = "popular"', "no method 'popular'"),
        ('method = "popularity"', 'method = "hetero"', "method hetero needs"),
        ('"jlt", epsilon', '"jtl", epsilon', "jtl"),
        ("epsilon = 4", "epsilon = 0", "epsilon"),
        ('rows = "noise"', 'rows = "loud"', "loud"),
        ('name = "jlt"', 'name = "popularity"', "different names"),
        ('title = "a table"', 'title = "a table"\nbaseline = "nobody"', "nobody"),
        ("[data]", "[data", "not TOML"),
        ("seeds = [1, 2]", "seeds = [1, 1]", "all different"),
        ("seeds = [1, 2]", "seeds = []", "one or more"),
        ("seeds = [1, 2]", "seeds = 3", "seeds cannot be 3"),
        ('target = "b.csv"', 'target = "b.csv"\ncold = "x"', "cold cannot be 'x'"),
        ('target = "b.csv"', "target = 3", "target cannot be 3"),
        ("epsilon = 4", "epsilon = 4, delta = 2.0", "delta"),
        ("settings = { width = 50 }", "settings = { widht = 50 }", "arm 'jlt'.*widht"),
        ("settings = { width = 50 }", "settings = { width = 0 }", "arm 'jlt'.*width"),
        ("settings = { width = 50 }", "tuned = true", "no settings of hetero were chosen"),
        ("settings = { width = 50 }", 'preset = "printed"', "no preset 'printed'"),
        ('{ strategy = "jlt", epsilon = 4, rows = "noise" }', "3", "release cannot be 3"),
    ],
)
def test_a_wrong_spec_is_refused_by_name(tmp_path, old, new, message):
    assert old in GOOD
    with pytest.raises(InputError, match=message) as found:
        read_spec(write(tmp_path, GOOD.replace(old, new, 1)))
    assert "table.toml" in str(found.value)


def test_tuned_settings_come_from_the_folder_of_the_data(tmp_path):
    text = GOOD.replace("settings = { width = 50 }", "tuned = true\nsettings = { width = 50 }")
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "here.toml").write_text("[hetero]\nwidth = 10\nhidden = 99\n")
    spec = read_spec(write(tmp_path, text), tmp_path / "tuned")
    assert spec.arms[1].settings == {"width": 50, "hidden": 99}


def test_a_key_tells_arms_data_and_settings_apart(tmp_path):
    keys = set()
    for text in (GOOD, GOOD.replace("width = 50", "width = 51"), GOOD.replace('"here"', '"there"')):
        spec = read_spec(write(tmp_path, text))
        keys |= {spec.key(arm) for arm in spec.arms}
    assert len(keys) == 5  # popularity is the same arm on the same data twice


def test_a_search_needs_no_chosen_settings_and_keeps_what_the_spec_fixes(tmp_path):
    waiting = GOOD.replace("settings = { width = 50 }", "tuned = true")
    data, fixed = read_search(write(tmp_path, f"{waiting}\n[search]\nhetero = {{ batch = 64 }}\n"))
    assert data == read_spec(write(tmp_path, GOOD)).data
    assert fixed == {"hetero": {"batch": 64}}
    for wrong, message in (
        ("[search]\nhetreo = { batch = 64 }", "hetreo"),
        ("[search]\nhetero = { bacth = 64 }", "bacth"),
        ("[search]\ndmf = 3", "dmf"),
        ("[[search]]\ndmf = 3", "table of settings"),
        ("[serach]\ndmf = { batch = 64 }", "serach"),
    ):
        with pytest.raises(InputError, match=message):
            read_search(write(tmp_path, f"{waiting}\n{wrong}\n"))
