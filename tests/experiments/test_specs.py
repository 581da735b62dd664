import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from pricdr.errors import InputError
from pricdr.experiments.arms import Axis, CurvePoint, ReleaseSpec, RowContent
from pricdr.experiments.spec import Spec, read_search, read_specs
from pricdr.models.catalogue import configure

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


SETTINGS = "settings = { width = 50 }"


def read_spec(path, tuned=None) -> Spec:
    (spec,) = read_specs(path, tuned)
    return spec


def write(tmp_path, text):
    path = tmp_path / "table.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_every_committed_spec_can_be_read_and_configured(path):
    specs = read_specs(path, path.parent / "tuned")
    for arm in (arm for spec in specs for arm in spec.arms):
        configure(arm.method_name, arm.settings)
    assert {len(spec.seeds) for spec in specs} == {1 if path.stem in ("quick", "reference") else 5}


def test_a_spec_is_what_its_file_says(tmp_path):
    spec = read_spec(write(tmp_path, GOOD))
    assert spec.name == "table"
    assert spec.seeds == (1, 2)
    assert spec.arms[1].release == ReleaseSpec(strategy="jlt", epsilon=4, delta=1e-6, rows=RowContent.NOISE)
    assert spec.arms[1].settings == {"width": 50}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[data]", "[date]", "unknown key 'date'"),
        ("folder", "folders", "unknown key 'folders' in data"),
        ('source = "a.csv"\n', "", "data needs 'source'"),
        ('method = "popularity"', 'method = "popular"', "no method 'popular'"),
        ('method = "popularity"', 'method = "symmetric"', "arm 'popularity': method symmetric needs"),
        ('"jlt", epsilon', '"jtl", epsilon', "arm 'jlt'.*jtl"),
        ('rows = "noise"', 'rows = "loud"', "loud"),
        ('name = "jlt"', 'name = "popularity"', "'popularity' is that of several"),
        ('name = "jlt"', "name = ['jlt']", r"arm #2.name must be text, got \['jlt'\]"),
        ('name = "jlt"', f'name = "{"x" * 201}"', "one line of 1 to 200 printable"),
        ('title = "a table"', 'title = "a table"\nbaseline = "nobody"', "nobody"),
        ('title = "a table"', 'title = "a \\u001b[31mtable"', "one line of 1 to 200 printable"),
        ('title = "a table"', f'title = "{"x" * 3000}"', "line 2 has 3,010 bytes"),
        ('title = "a table"', "x = " + "[" * 1500, "not TOML|nested"),
        ('title = "a table"', "a" + ".a" * 9 + " = 1", "nested more than 8 levels"),
        ('title = "a table"', f"x = 1{'0' * 1900}", "x must be a number that fits in 64 bits"),
        ("[data]", "[data", "not TOML"),
        ("seeds = [1, 2]", "seeds = [1, 1]", "all different"),
        ("seeds = [1, 2]", "seeds = []", "seeds must have at least 1 item"),
        ("seeds = [1, 2]", "seeds = 3", "seeds must be .*, got 3"),
        ("seeds = [1, 2]", f"seeds = [{2**70}]", f"seeds must be a number that fits in 64 bits, got {2**70}"),
        ("seeds = [1, 2]", "seeds = [1" + ",\n1" * 5000 + "]", "seeds must have at most 1000 items"),
        ("seeds = [1, 2]", "seeds = [-1]", "seeds #1 must be greater than or equal to 0, got -1"),
        ("seeds = [1, 2]", "seeds = [true]", "seeds #1 must be a whole number, got True"),
        ("seeds = [1, 2]", 'arms = [{ name = "a", method = "popularity" }]', "unknown key 'arms'"),
        ("seeds = [1, 2]", "full = 1", "full must be true or false, got 1"),
        ('target = "b.csv"', 'target = "b.csv"\ncold = "x"', "cold must be .*, got 'x'"),
        ('target = "b.csv"', 'target = "b.csv"\ncold = 1.5', "data.cold must be less than 1, got 1.5"),
        ('target = "b.csv"', 'target = "b.csv"\ncore = 0', "core must be greater than or equal to 1"),
        ("epsilon = 4", "epsilon = 4, delta = 2.0", "delta"),
        ("epsilon = 4", "epsilon = 0", "arm #2.release.epsilon must be greater than 0, got 0"),
        ("epsilon = 4", "epsilon = true", "arm #2.release.epsilon must be a number, got True"),
        ("epsilon = 4", "epsilon = nan", "arm.release.epsilon must be a finite number, got nan"),
        ("epsilon = 4", 'epsilon = 4, calibration = "loose"', "release.calibration must be 'exact' or 'paper'"),
        ("epsilon = 4", "epsilon = 4, density = 0.5", "density is a setting of sjlt, not of jlt"),
        ("epsilon = 4", "epsilon = 4, dim = 1000000000000", "dim must be less than or equal to 4096, got 10{12}$"),
        ('"jlt", epsilon', '"sjlt", density = 1.5, epsilon', "density must be less than or equal to 1, got 1.5"),
        ('"jlt", epsilon', '"spectral", calibration = "paper", epsilon', "paper's own jlt and sjlt, not for sp"),
        ("epsilon = 4", "epsilon = 4, source = 2", "arm 'jlt'.*release.source is 2, and there are 1"),
        (SETTINGS, "more_releases = [{ source = 2 }]", "arm 'jlt'.*release.source is 2, and there are 1"),
        (
            'method = "popularity"',
            'method = "popularity"\nmore_releases = [{}]',
            "beside a release, and the arm has none",
        ),
        ('target = "b.csv"', 'target = "b.csv"\nmore_sources = ["c.csv"]', "more_sources are prepared by core alone"),
        ('target = "b.csv"', 'target = "b.csv"\nany_source = true', "any_source is for data with more_sources"),
        (SETTINGS, "settings = { widht = 50 }", "arm 'jlt'.*widht"),
        (SETTINGS, "settings = { width = 1000000000000 }", "width must be at most 1,000,000"),
        (SETTINGS, "settings = { width = 2020-01-01 }", "width must be int"),
        (SETTINGS, "settings = { learning_rate = inf }", "finite number, got inf"),
        (SETTINGS, "settings = { seed = -1 }", "arm 'jlt'.*seed must be"),
        (SETTINGS, 'settings = { device = "toaster" }', "arm 'jlt'.*device.*toaster"),
        (SETTINGS, "tuned = true", "no settings of hetero were chosen"),
        (SETTINGS, 'preset = "printed"', "no preset 'printed'"),
        (SETTINGS, "source_share = 2.0", "source_share must be less than or equal to 1, got 2.0"),
        (SETTINGS, "vary = { epsilon = [] }", "vary.epsilon must have at least 1 item"),
        (SETTINGS, "vary = { epsilon = [1], dim = [2] }", "vary must have at most 1 item"),
        (SETTINGS, f"vary = {{ dim = {list(range(1, 102))} }}", "vary.dim must have at most 100 items"),
        (SETTINGS, "vary = { epsilon = [0] }", "arm 'jlt'.*epsilon must be"),
        (SETTINGS, "vary = { dim = [1.5] }", "arm 'jlt'.*dim must be a whole number"),
        (SETTINGS, "vary = { dim = [9999] }", "arm 'jlt'.*dim must be less than or equal to 4096, got 9999"),
        (SETTINGS, "vary = { density = [0.5] }", "arm 'jlt'.*density is a setting of sjlt"),
        (SETTINGS, "vary = { source_share = [2] }", "arm 'jlt'.*source_share must be less"),
        (SETTINGS, "vary = { width = [2] }", "vary"),
        (SETTINGS, "vary = { epsilon = 3 }", "vary.epsilon must be a list, got 3"),
        (SETTINGS, 'vary = { epsilon = ["a"] }', "must be a number, got 'a'"),
        (SETTINGS, "vary = { epsilon = [1, 1] }", "'jlt, ε = 1' is that of several"),
        (
            'method = "popularity"',
            'method = "popularity"\nsource_share = 0.5',
            "source_share is for an arm",
        ),
    ],
)
def test_a_wrong_spec_is_refused_by_name(tmp_path, old, new, message):
    assert old in GOOD
    with pytest.raises(InputError, match=message) as found:
        read_spec(write(tmp_path, GOOD.replace(old, new, 1)))
    assert "table.toml" in str(found.value)
    assert len(str(found.value)) < 500


def test_a_file_is_bounded_before_it_is_parsed(tmp_path):
    path = write(tmp_path, GOOD)
    with path.open("ab") as file:
        file.truncate(100 << 20)
    with pytest.raises(InputError, match=r"table.toml has more than 262,144 bytes"):
        read_spec(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not TOML"):
        read_spec(path)
    with pytest.raises(InputError, match="no such file"):
        read_spec(tmp_path / "nowhere.toml")


OUTSIDE = ["../b", "/etc/passwd", "..", ".", "", "a/b", ".hidden", "a\\\\b", "x" * 101, "a b", "a\\u0000"]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("key", ["folder", "source", "target", "official", "name"])
def test_data_and_results_stay_in_their_folders(tmp_path, key, name):
    lines = "".join(f'{k} = "{v}"\n' for k, v in {**tomllib.loads(GOOD)["data"], key: name}.items())
    text = re.sub(r"folder = .*\n.*\n.*\n", lambda _: lines, GOOD)
    for read in (read_spec, read_search):
        with pytest.raises(InputError, match=f"table.toml: data.{key} becomes a file name"):
            read(write(tmp_path, text))
    with pytest.raises(InputError, match=r"table.toml: name becomes a file name"):
        read_spec(write(tmp_path, f'name = "{name}"\n{GOOD}'))


def test_a_search_needs_no_chosen_settings_and_keeps_what_the_data_fixes(tmp_path):
    waiting = GOOD.replace(SETTINGS, "tuned = true")
    (data,) = read_search(
        write(tmp_path, waiting.replace("[[arm]]", "[data.search]\nhetero = { batch = 64 }\n[[arm]]", 1))
    )
    assert replace(data, search={}) == read_spec(write(tmp_path, GOOD)).data
    assert data.search == {"hetero": {"batch": 64}}
    for wrong, message in (
        ("[data.search]\nhetreo = { batch = 64 }", "hetreo"),
        ("[data.search]\nhetero = { bacth = 64 }", "bacth"),
        ("[data.search]\ndmf = 3", "dmf"),
        ("[[data.search]]\ndmf = 3", "search must be a table"),
        ("[data.serach]\ndmf = { batch = 64 }", "serach"),
    ):
        with pytest.raises(InputError, match=message):
            read_search(write(tmp_path, waiting.replace("[[arm]]", f"{wrong}\n[[arm]]", 1)))


def test_arms_that_vary_are_points_of_a_curve(tmp_path):
    text = GOOD.replace(SETTINGS, "vary = { epsilon = [0.5, 8] }")
    arms = read_spec(write(tmp_path, text)).arms[1:]
    assert [arm.name for arm in arms] == ["jlt, ε = 0.5", "jlt, ε = 8"]
    assert [arm.release.epsilon for arm in arms] == [0.5, 8]
    assert [arm.point for arm in arms] == [CurvePoint(curve="jlt", axis=Axis.EPSILON, at=at) for at in (0.5, 8)]
    text = GOOD.replace(SETTINGS, "vary = { dim = [100, 800] }")
    assert [arm.release.dim for arm in read_spec(write(tmp_path, text)).arms[1:]] == [100, 800]
    text = GOOD.replace(SETTINGS, "vary = { source_share = [1, 0.125] }")
    varied = read_spec(write(tmp_path, text))
    assert [arm.name for arm in varied.arms[1:]] == ["jlt, sd = 1", "jlt, sd = 0.125"]
    assert [arm.source_share for arm in varied.arms[1:]] == [1, 0.125]
    assert [arm.name for arm in varied.arms if arm.is_called(["jlt"])] == ["jlt, sd = 1", "jlt, sd = 0.125"]
    only = [arm.name for arm in varied.arms if arm.is_called(["jlt, sd = 1", "popularity"])]
    assert only == ["popularity", "jlt, sd = 1"]


def test_a_family_is_one_table_for_each_data(tmp_path):
    second = (
        '[[data]]\nname = "two"\ntitle = "Two"\nfolder = "there"\nsource = "a.csv"\ntarget = "b.csv"\ndelta = 1e-3\n'
    )
    text = GOOD.replace("[data]", f'{second}[[data]]\nname = "one"')
    two, one = read_specs(write(tmp_path, text))
    assert (two.name, two.family, two.title) == ("table_two", "table", "a table: Two")
    assert (one.name, one.family, one.title) == ("table_one", "table", "a table")
    assert [spec.arms[1].release.delta for spec in (two, one)] == [1e-3, 1e-6]
    for wrong in (text.replace('name = "one"\n', ""), text.replace('name = "one"', 'name = "two"')):
        with pytest.raises(InputError, match="each with a name of its own"):
            read_specs(write(tmp_path, wrong))
    with pytest.raises(InputError, match=r"data #2\.name becomes a file name"):
        read_specs(write(tmp_path, text.replace('name = "one"', 'name = "../one"')))


def test_all_tables_of_a_file_together_are_bounded(tmp_path):
    data = "".join(f'[[data]]\nname = "d{n}"\nfolder = "x"\nsource = "a"\ntarget = "b"\n' for n in range(100))
    text = re.sub(r"\[data\](\n.*){3}\n", data, GOOD)
    values = list(range(1, 100))
    text = text.replace(SETTINGS, f"vary = {{ epsilon = {values} }}")
    assert len(read_specs(write(tmp_path, text))) == 100
    with pytest.raises(InputError, match="100 tables of 101 arms each are more than 10,000 rows"):
        read_specs(write(tmp_path, text.replace("99]", "99, 100]")))


def test_settings_come_from_the_search_on_the_data_or_on_other_data_and_stated_ones_win(tmp_path):
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "here.toml").write_text("[hetero]\nwidth = 5\nhidden = 99\n")
    (tmp_path / "tuned" / "there.toml").write_text("[hetero]\nwidth = 10\n")
    (tmp_path / "tuned" / "there_distinct_spectral.toml").write_text("[hetero]\nwidth = 20\n")
    borrowed = GOOD.replace('folder = "here"', 'folder = "here"\ntuned = "there"')
    for text, key, settings in (
        (GOOD, f"tuned = true\n{SETTINGS}", {"width": 50, "hidden": 99}),
        (borrowed, "tuned = true", {"width": 10}),
        (borrowed, 'tuned_with = "spectral"', {"width": 20}),
    ):
        spec = read_spec(write(tmp_path, text.replace(SETTINGS, key)), tmp_path / "tuned")
        assert spec.arms[1].settings == settings
    with pytest.raises(InputError, match="tuned_with becomes a file name"):
        read_spec(write(tmp_path, borrowed.replace(SETTINGS, 'tuned_with = "../there"')), tmp_path / "tuned")
