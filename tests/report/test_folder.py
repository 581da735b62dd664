"""A results folder is read whole and checked; what is missing, stale or not ours is counted and named."""

import json
import os

import pytest

from pricdr.errors import InputError
from pricdr.report.ablation import ablation
from pricdr.report.cost import costs
from pricdr.report.folder import Access, read_folder
from pricdr.report.provenance import environments, provenance
from pricdr.report.searches import searches
from tests.report import made_up


def simple(folder, **more):
    arms = [made_up.arm("DMF", "dmf", settings={"width": 64}), made_up.arm("popularity", "popularity")]
    levels = {"DMF": {"warm": 0.3}, "popularity": {"warm": 0.1}}
    content = made_up.outline("toy", "toy", arms, **more)
    return made_up.write(folder, content, made_up.results("toy", levels))


def test_a_folder_that_is_no_results_folder_is_refused_in_one_line(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match=r"is not a results folder: it holds no \*\.spec\.json"):
        read_folder(tmp_path)
    with pytest.raises(InputError, match="is not a results folder: no such folder"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is not a results folder: it is not a folder"):
        read_folder(tmp_path / "notes.txt")


def test_a_broken_line_is_refused_with_its_file_and_number(tmp_path):
    simple(tmp_path)
    path = tmp_path / "toy.jsonl"
    path.write_text(path.read_text() + '{"spec": "toy"}\n')
    with pytest.raises(InputError, match=r"toy\.jsonl, line 11: not a result"):
        read_folder(tmp_path)


def test_an_outline_under_another_name_is_refused(tmp_path):
    simple(tmp_path)
    (tmp_path / "toy.spec.json").rename(tmp_path / "other.spec.json")
    with pytest.raises(InputError, match=r"other\.spec\.json is the outline of 'toy', not of 'other'"):
        read_folder(tmp_path)


def test_stale_and_missing_runs_are_counted(tmp_path):
    simple(tmp_path)
    path = tmp_path / "toy.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    stale = [{**line, "key": "an older key"} for line in lines[:3]]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines[1:], *stale]))
    (tmp_path / "old_table.jsonl").write_text("")
    folder = read_folder(tmp_path)
    (experiment,) = folder.experiments
    assert (experiment.runs, experiment.stale, experiment.missing) == (9, 3, (("DMF", 1),))
    (row,) = provenance(folder)
    assert (row.runs, row.missing, row.missing_in_words, row.stale) == (9, 1, "DMF: seed 1", 3)
    assert (row.first, row.last) == ("2026-11-16", "2026-11-16")
    assert folder.unclaimed == ("old_table.jsonl",)


def test_machines_that_differ_are_counted(tmp_path):
    simple(tmp_path)
    path = tmp_path / "toy.jsonl"
    path.write_text(path.read_text().replace("x86_64, 2 cores", "NVIDIA H200", 2))
    processor, card = environments(read_folder(tmp_path))
    assert (processor.words[:3], processor.runs) == (("x86_64, 2 cores", "0123456789abcdef", "0.6.0"), 8)
    assert (card.words[0], card.runs, card.first) == ("NVIDIA H200", 2, "2026-11-16T10:00:00Z")


def test_a_spec_without_results_is_all_missing(tmp_path):
    made_up.write(tmp_path, made_up.outline("toy", "toy", [made_up.arm("DMF", "dmf")]))
    (row,) = provenance(read_folder(tmp_path))
    assert (row.runs, row.missing, row.missing_in_words) == (0, 5, "every run")
    assert costs(read_folder(tmp_path)) == ()


def test_costs_are_medians_and_ratios_to_the_targets_network(tmp_path):
    simple(tmp_path)
    path = tmp_path / "toy.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["seconds"] = 10.0 * line["seed"] if line["arm"] == "DMF" else 1.5
        line["memory"] = None if line["arm"] == "DMF" else 2.0**20 * line["seed"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    network, popular = costs(read_folder(tmp_path))
    assert (network.seconds, network.memory, network.ratio) == (30.0, None, 1.0)
    assert (popular.seconds, popular.memory, popular.ratio) == (1.5, 5 * 2.0**20, 0.05)


def trial(number, validation, settings, failure="", method="dmf"):
    return {
        **{"data": "toy", "method": method, "number": number, "settings": settings, "validation": validation},
        **{"epochs": 3, "seconds": 2.0, "failure": failure},
    }


def test_a_search_is_told_with_its_best_and_with_the_test_of_that(tmp_path):
    simple(tmp_path)
    (tmp_path / "search").mkdir()
    trials = [trial(0, 0.21, {}), trial(1, 0.25, {"width": 64}), trial(2, 0.0, {"width": 8}, "diverged")]
    trials += [trial(0, 0.11, {"count": 3}, method="popularity")]
    (tmp_path / "search" / "toy.jsonl").write_text("".join(json.dumps(one) + "\n" for one in trials))
    network, popular = searches(read_folder(tmp_path))
    assert (network.trials, network.failed, network.default, network.best) == (3, 1, 0.21, 0.25)
    assert (network.settings, network.tested_as) == ("width = 64", "DMF")
    assert network.test.value == pytest.approx(0.3)
    # The arm of that name has other settings: its test says nothing about this search.
    assert (popular.tested_as, bool(popular.test)) == ("", False)


@pytest.mark.parametrize(
    ("one", "access"),
    [
        (made_up.arm("a"), Access.TARGET),
        (made_up.arm("a", plaintext=True), Access.PLAINTEXT),
        (made_up.released("a"), Access.PRIVATE),
        (made_up.control("noise"), Access.CONTROL),
        (made_up.control("shuffled"), Access.CONTROL),
        (made_up.released("a", release={"rows": "noiseless"}), Access.NOISELESS),
        (made_up.released("a", strategy="guided", release={"guide": "clear"}), Access.CLEAR_GUIDE),
        (made_up.released("a", strategy="guided"), Access.PRIVATE),
    ],
)
def test_what_an_arm_saw_is_read_off_its_settings_not_its_name(tmp_path, one, access):
    made_up.write(tmp_path, made_up.outline("toy", "toy", [one]))
    (experiment,) = read_folder(tmp_path).experiments
    assert Access.of(experiment.outline.arms[0]) is access


@pytest.mark.parametrize(("symmetric", "counts"), [(0.2, (1, 0, 0)), (0.4, (0, 1, 0)), (0.3, (0, 0, 1))])
def test_the_ablation_counts_who_is_ahead(tmp_path, symmetric, counts):
    arms = [
        made_up.arm("DMF", "dmf"),
        made_up.released("PriCDR-SYM, ε = 8", method="symmetric"),
        made_up.released("PriCDR-J, ε = 8"),
        made_up.released("PriCDR-J, ε = 8, gates off"),
    ]
    levels = {"DMF": 0.3, "PriCDR-SYM, ε = 8": symmetric, "PriCDR-J, ε = 8": 0.3, "PriCDR-J, ε = 8, gates off": 0.2}
    content = made_up.outline("rq3_toy", "rq3", arms, baseline="DMF")
    lines = made_up.results("rq3_toy", {name: {"warm": level} for name, level in levels.items()})
    made_up.write(tmp_path, content, lines)
    found = ablation(read_folder(tmp_path))
    assert found is not None
    ahead, behind, unclear = counts
    assert (
        f"of 1 comparisons they are ahead of PriCDR-SYM in {ahead}, behind it in {behind}, and cannot be told from it "
        f"in {unclear}."
    ) in found.sentences[1]
    rows = {row.arm: row for row in found.rows}
    assert not rows["DMF"].gain
    assert rows["PriCDR-SYM, ε = 8"].gain.value == pytest.approx(symmetric - 0.3, abs=0.001)
    # What an arm adds to another's name is what it is compared by.
    assert rows["PriCDR-J, ε = 8, gates off"].change == "gates off"
    assert rows["PriCDR-J, ε = 8, gates off"].difference.value == pytest.approx(-0.1, abs=0.001)
    assert rows["PriCDR-J, ε = 8"].change == ""
    assert "gates off: worse in 1 of 1, better in 0" in found.sentences[2]


def test_no_ablation_without_a_spec_of_it(tmp_path):
    simple(tmp_path)
    assert ablation(read_folder(tmp_path)) is None


@pytest.mark.parametrize("name", ["toy.spec.json", "toy.jsonl"])
def test_a_pipe_in_the_folder_is_refused_and_not_waited_for(tmp_path, name):
    simple(tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match=rf"{name} is not a file of results: it is a folder, a pipe, or"):
        read_folder(tmp_path)


def test_a_search_is_shown_with_the_test_figure_of_the_split_that_it_was_made_on(tmp_path):
    """The same files may be split in two ways: a figure of the other split would look like overfitting."""
    for name, cold, validation, warm in (("cold", 0.2, 0.2, 0.1), ("plain", 0.0, 0.4, 0.35)):
        content = made_up.outline(name, "toy", [made_up.arm("DMF", "dmf")], data={"cold": cold})
        lines = made_up.results(name, {"DMF": {"warm": warm}}, validation=validation)
        made_up.write(tmp_path, content, lines)
    (tmp_path / "search").mkdir()
    trial = {"data": "toy", "method": "dmf", "number": 0, "settings": {}, "validation": 0.39, "epochs": 1, "seconds": 1}
    (tmp_path / "search" / "toy.jsonl").write_text(json.dumps(trial) + "\n")
    (row,) = searches(read_folder(tmp_path))
    assert (row.tested_as, row.tested_in) == ("DMF", "plain")
    assert row.test.value == pytest.approx(0.35)
