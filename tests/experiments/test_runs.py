import json
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import numpy as np
import pytest

from pricdr import __version__, publish
from pricdr.data.ratings import Ratings
from pricdr.data.reading.read import read_ratings
from pricdr.data.splits import hold_out
from pricdr.data.tables import write_ratings
from pricdr.errors import InputError, ParameterError
from pricdr.evaluation.metrics import NAMES
from pricdr.experiments import search as searching
from pricdr.experiments.arms import Arm, DataSpec, ReleaseSpec, RowContent
from pricdr.experiments.measured import Experiment, markdown_report
from pricdr.experiments.results import (
    COMMIT,
    NOT_PRESENT,
    Outline,
    Provenance,
    ReleaseFacts,
    Result,
    append,
    commit,
    provenance,
    read,
    read_lines,
    read_outline,
    whole_lines,
)
from pricdr.experiments.runner import missing_runs, run, seeded_release
from pricdr.experiments.search import Trial, draws, search, update_tuned
from pricdr.experiments.spec import Spec, require_runnable
from pricdr.experiments.tasks import RunContext, Task, load_task, spread
from pricdr.models.catalogue import METHODS, configure
from pricdr.privacy.accounting import Guarantee, sigma_for
from pricdr.privacy.strategies import BY_NAME
from tests.report import made_up

DATA = DataSpec(folder="toy", source="source.parquet", target="target.parquet", core=1, cold=0.25)
SMALL = {"hidden": 8, "width": 4, "epochs": 2, "batch": 64}
ARMS = (
    Arm(name="popularity", method="popularity"),
    Arm(name="target only", method="dmf", settings=SMALL),
    Arm(name="released", method="hetero", release=ReleaseSpec(dim=8), settings=SMALL),
    Arm(name="plaintext", method="hetero", plaintext=True, settings=SMALL),
)
MEASURED_BY = Provenance(**made_up.PROVENANCE)
SPEC = Spec(name="toy", title="Toy", data=DATA, arms=ARMS, seeds=(1, 2), baseline="popularity")
ONE = replace(SPEC, arms=ARMS[:1], seeds=(1,))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "toy"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in ("source", "target"):
        pairs = [(u, i) for u in range(150) for i in rng.choice(400, 12, replace=False)]
        ratings = Ratings.from_triples([f"u{u:03d}" for u, _ in pairs], [f"{name}{i:03d}" for _, i in pairs])
        write_ratings(folder / f"{name}.parquet", ratings)
    return folder.parent


@pytest.fixture(scope="module")
def context(root, tmp_path_factory):
    return RunContext(root, tmp_path_factory.mktemp("prepared"), "cpu")


def results_of(spec, folder):
    """The results that a folder holds of a spec, in the order of its arms."""
    return Experiment.of(Outline.of(spec), read(folder / f"{spec.name}.jsonl")).runs


def measure(spec, folder, context, **how):
    """Run a spec, in which nothing fails, and return its results."""
    assert run(spec, folder, context, **how) == []
    return results_of(spec, folder)


def test_a_spec_runs_resumes_and_becomes_tables(context, tmp_path):
    first = measure(replace(SPEC, seeds=(1,)), tmp_path, context)
    assert [result.arm for result in first] == [arm.name for arm in ARMS]
    told = []
    results = measure(SPEC, tmp_path, context, progress=lambda what, done, total, note="": told.append((done, total)))
    assert len(results) == 8
    assert told == [(done, 4) for done in range(1, 5)]  # only the second seed was missing
    assert read(tmp_path / "toy.jsonl") == [*first, *(result for result in results if result.seed == 2)]
    again = measure(replace(SPEC, seeds=(1,), arms=ARMS[2:3], baseline=None), tmp_path / "again", context)
    assert again[0].figures == first[2].figures
    for result in results:
        assert set(result.figures) == {"sampled", "full"}
        assert result.users["cold"] == round(0.25 * (result.users["warm"] + result.users["cold"]))
        assert result.figures["sampled"]["cold"]["HR@10"] >= result.figures["full"]["cold"]["HR@10"]
    text = markdown_report(SPEC, results)
    warm, *_, cold = text.split("\n### ")[1:]
    assert re.findall(r"^\| (\w[ \w]*?) *\| \.", warm, re.MULTILINE) == [arm.name for arm in ARMS]
    assert str(Experiment.of(Outline.of(SPEC), results).arms["released"].measured("cold")) in cold
    assert f"run on cpu, version {__version__}." in text
    elsewhere = [replace(r, device="cuda") if r.arm == "plaintext" else r for r in results]
    assert "cpu; on cuda: plaintext, version" in markdown_report(SPEC, elsewhere)


def _measured(arm, seed, few):
    figures = {name: dict.fromkeys(NAMES, 0.25) for name in ("all", "warm", "cold", *(["few"] if few else []))}
    users = {"warm": 30, "cold": 10} | ({"few": few} if few else {})
    return Result(
        **{"spec": "toy", "arm": arm, "key": next((SPEC.key(one) for one in ARMS if one.name == arm), "key")},
        **{"seed": seed, "figures": {"sampled": figures, "full": figures}, "users": users, "validation": 0.1},
        **{"epochs": 3, "seconds": 1.5, "device": "cpu", "trust": {"warm": 0.0, "cold": 1.0}, "memory": None},
        **{"release": ReleaseFacts(dim=8, sigma=0.5, epsilon=4.0, delta=1e-6), "provenance": MEASURED_BY},
    )


def test_users_with_few_ratings_get_a_table_where_every_run_counted_them():
    runs = [(arm.name, seed) for arm in ARMS for seed in (1, 2)]
    new = [_measured(arm, seed, 4 + seed) for arm, seed in runs]
    assert re.findall(r"^### (.*),", markdown_report(SPEC, new), re.MULTILINE) == [
        "30 users with target history (warm)",
        "5 to 6 warm users with 1 to 3 target ratings (few)",
        "10 users without target history (cold)",
    ]
    for old in ([_measured(arm, seed, None) for arm, seed in runs], [_measured(*runs[0], None), *new[1:]]):
        assert "(few)" not in markdown_report(SPEC, old)


def _line(**changes):
    return json.dumps({**asdict(_measured("popularity", 1, 3)), **changes})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[]", "it must be a table, got"),
        ("{", "not JSON"),
        ("[" * 100_000, "nested"),
        (_line(seed="1"), "seed must be .*, got '1'"),
        (_line(seed=True), "seed must be .*, got True"),
        (_line(seed=2**70), "seed must be .*, got"),
        (_line(seconds=float("nan")), "NaN is not a number"),
        (_line(seconds=1).replace('"seconds": 1', '"seconds": 1e999'), "seconds must be .*, got inf"),
        (_line(seconds=1).replace('"seconds": 1', '"seconds": 1, "seconds": 2'), "a key occurs twice"),
        (_line(surprise=1), "unknown key 'surprise'"),
        (_line(figures={}), "figures"),
        (_line(figures={"sampled": {"warm": {"NDCG@10": 0.1}}}), "figures of warm users, sampled, lack"),
        (_line(figures={"sampled": {"warm": 3}}), "figures.sampled.warm must be a table, got 3"),
        (_line().replace('"arm": "popularity", ', ""), "needs 'arm'"),
        (_line(users={"x" * 9999: 0.5}), "users.x+… must be a whole number, got 0.5"),
        (_line(arm="a\x1b[2J"), "arm must be one line of 1 to 200 printable characters"),
        (_line(seed=1).replace('"seed": 1', f'"seed": {"[" * 900}{"]" * 900}'), "seed must be|nested"),
    ],
    ids=range(17),
)
def test_results_are_read_strictly(tmp_path, line, message):
    path = tmp_path / "r.jsonl"
    path.write_text(f"{_line()}\n{line}\n")
    with pytest.raises(InputError, match=rf"r.jsonl, line 2: not a result: .*{message}") as found:
        read(path)
    assert len(str(found.value)) < 500


def test_results_and_trials_that_are_no_text_or_too_much_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\xff\n")
    with pytest.raises(InputError, match=r"r.jsonl is not text"):
        read(path)
    path.write_text('{"data": 1}\n')
    with pytest.raises(InputError, match="line 1: not a trial: data must be text, got 1"):
        read_lines(path, Trial)
    monkeypatch.setattr("pricdr.experiments.results.MAX_BYTES", 10)
    with pytest.raises(InputError, match="more than 10 bytes"):
        read(path)


def test_one_seed_has_no_error_and_a_ceiling_that_gains_nothing_has_no_shares():
    arms = (Arm(name="popularity", method="popularity"), Arm(name="EASE", method="ease"))
    spec = replace(SPEC, seeds=(1,), arms=arms, baseline="popularity", ceiling="EASE")
    text = markdown_report(spec, [replace(_measured(arm.name, 1, 3), key=spec.key(arm)) for arm in arms])
    assert "nan" not in text
    assert "±" not in text
    assert text.endswith("one seed; run on cpu, version 0.6.0.\n")
    assert "%" not in text


def test_markdown_shows_names_and_notes_and_obeys_none():
    evil = "a | b\n# <img src=x> [c](d) `e`\x1b[31m\u202e"
    arms = (Arm(name="popularity", method="popularity"), replace(ARMS[1], name=evil))
    spec = replace(SPEC, title=evil, arms=arms, note=f"two\nlines: {evil}", baseline=evil)
    runs = [(arm, seed) for arm in arms for seed in (1, 2)]
    results = [replace(_measured("", seed, 3), key=spec.key(arm), device=evil) for arm, seed in runs]
    text = markdown_report(spec, results)
    assert all(line.isprintable() for line in text.split("\n"))
    for mark in ("<img", "[c]", "`"):
        assert mark not in text
    rows = [line for line in text.split("\n") if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    assert sum(line.startswith("#") for line in text.split("\n")) == 5  # the title, three tables, and one of the note's


def test_prepared_arrays_are_the_data_and_broken_ones_are_refused(root, tmp_path):
    fresh = load_task(DATA, root)
    load_task(DATA, root, tmp_path)
    with pytest.raises(InputError, match="9999"):
        load_task(replace(DATA, core=9999), root, tmp_path)  # other data are prepared anew
    nowhere = tmp_path / "no data"
    load_task(replace(DATA, cold=0.5), nowhere, tmp_path)  # who is cold is decided by the split
    prepared = load_task(DATA, nowhere, tmp_path)
    assert prepared.pair.users == fresh.pair.users
    for name in ("source", "target"):
        left, right = getattr(prepared.pair, name), getattr(fresh.pair, name)
        assert left.items == right.items
        assert (left.matrix != right.matrix).nnz == 0
    assert np.array_equal(prepared.split(3).test.negatives, fresh.split(3).test.negatives)
    (kept,) = tmp_path.glob("*.npz")
    arrays = dict(np.load(kept))
    kept.write_bytes(kept.read_bytes()[:100])
    damages = [("", 0, 0), ("source_indices", 0, 10**6), ("target_indptr", 1, -5), ("target_indptr", -1, 10**6)]
    for name, at, value in damages:
        if name:
            broken = arrays[name].copy()
            broken[at] = value
            np.savez(kept, **{**arrays, name: broken})
        with pytest.raises(InputError, match="does not hold prepared arrays"):
            load_task(DATA, root, tmp_path)


def test_an_official_split_is_the_same_from_prepared_arrays(root, tmp_path):
    """A user with two ratings, both held out, is cold; one who is not in the split is not evaluated."""
    target = read_ratings(root / "toy" / "target.parquet")
    rows = [np.flatnonzero(row) for row in target.matrix.toarray()]
    coo = target.matrix.tocoo()
    (tmp_path / "toy").mkdir()
    keep = (coo.row > 0) | np.isin(coo.col, rows[0][:2])
    write_ratings(tmp_path / "toy" / "target.parquet", target.only(keep))
    write_ratings(tmp_path / "toy" / "source.parquet", read_ratings(root / "toy" / "source.parquet"))
    lines = ["user,valid_item,test_item,negatives_99"]
    for user, row in zip(target.users[:-1], rows[:-1], strict=True):
        others = [item for at, item in enumerate(target.items) if at not in row][:99]
        lines.append(f"{user},{target.items[row[0]]},{target.items[row[1]]},{' '.join(others)}")
    (tmp_path / "toy" / "split.csv").write_text("\n".join(lines) + "\n")
    spec = replace(DATA, core=None, filtered=True, official="split.csv", cold=0.0)
    fresh, kept = (load_task(spec, tmp_path, tmp_path / "kept").split(1) for _ in range(2))
    assert fresh.cold.sum() == 1
    assert fresh.not_evaluated == 1
    assert np.array_equal(kept.cold, fresh.cold)
    assert kept.not_evaluated == fresh.not_evaluated
    assert (kept.train.matrix != fresh.train.matrix).nnz == 0
    assert np.array_equal(kept.test.negatives, fresh.test.negatives)


def test_distinct_data_has_no_twins_and_keeps_the_target(root, tmp_path):
    source, target = (read_ratings(root / "toy" / f"{name}.parquet") for name in ("source", "target"))
    coo = source.matrix.tocoo()
    twin = target.items[5]
    rated = np.flatnonzero(target.matrix[:, [5]].toarray())
    users = [source.users[at] for at in coo.row] + [target.users[at] for at in rated]
    items = [source.items[at] for at in coo.col] + [twin] * len(rated)
    (tmp_path / "toy").mkdir()
    write_ratings(tmp_path / "toy" / "source.parquet", Ratings.from_triples(users, items))
    write_ratings(tmp_path / "toy" / "target.parquet", target)
    whole, distinct = (load_task(replace(DATA, distinct=d), tmp_path, tmp_path / "kept") for d in (False, True))
    assert whole.pair.duplicate_items() == (twin,)
    assert set(whole.pair.source.items) - set(distinct.pair.source.items) == {twin}
    assert np.array_equal(whole.split(1).test.items, distinct.split(1).test.items)
    assert len(list((tmp_path / "kept").iterdir())) == 2  # one does not pass for the other
    assert SPEC.key(ARMS[0]) != replace(SPEC, data=replace(DATA, distinct=True)).key(ARMS[0])


def test_narrow_releases_are_searched_by_their_own_settings_and_no_search_is_absurd():
    for method in ("hetero", "symmetric"):
        wide, narrow = draws(method, 12), draws(method, 12, dim=8)
        assert wide[0] == narrow[0] == {}
        assert all("release_dropout" in drawn and "narrow_dropout" not in drawn for drawn in wide[1:])
        assert all("release_dropout" not in drawn and "narrow_dropout" in drawn for drawn in narrow[1:])
        for drawn in narrow:
            configure(method, drawn)
    assert draws("dmf", 4, dim=8) == draws("dmf", 4)
    for trials in (0, -1, 10**12):
        with pytest.raises(ParameterError, match="trials must be a whole number from 1 to 1,000"):
            draws("bpr", trials)


def test_several_commands_may_add_to_one_file(tmp_path):
    log = tmp_path / "log.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: append(log, replace(MEASURED_BY, version=f"{number} " + "x" * 500)), range(200)))
    assert sorted(int(json.loads(line)["version"].split()[0]) for line in whole_lines(log)) == list(range(200))


def test_a_line_that_a_kill_cut_short_is_written_again(context, tmp_path):
    spec, out = replace(SPEC, arms=ARMS[:1]), tmp_path / "toy.jsonl"
    results = measure(spec, tmp_path, context)
    out.write_bytes(out.read_bytes()[:-30])
    assert len(read(out)) == 1
    assert [r.figures for r in measure(spec, tmp_path, context)] == [r.figures for r in results]
    assert len(read(out)) == 2


@pytest.mark.parametrize("strategy", ["jlt", "sjlt"])
def test_a_simulated_release_is_the_one_publish_makes_from_the_same_seed_and_controls_hold_nothing(strategy):
    source = Ratings.from_triples([f"u{u}" for u in range(200) for _ in range(3)], [f"i{i}" for i in range(600)])
    spec, kind = ReleaseSpec(strategy=strategy, dim=32, epsilon=1, delta=1e-5), BY_NAME[strategy](dim=32)
    promise = Guarantee(epsilon=1, delta=1e-5)
    private, clean, shuffled, noise = (
        seeded_release(source, replace(spec, rows=rows), 5).matrix
        for rows in (RowContent.PRIVATE, RowContent.NOISELESS, RowContent.SHUFFLED, RowContent.NOISE)
    )
    assert np.array_equal(private, publish(source, promise, strategy=kind, insecure_seed=5).matrix)
    bare = publish(source, promise, strategy=kind, insecure_seed=5, insecure_no_noise=True)
    assert np.array_equal(clean, bare.matrix)
    assert sorted(map(tuple, clean.tolist())) == sorted(map(tuple, shuffled.tolist()))
    assert (clean != shuffled).any(axis=1).all()  # nobody keeps a row
    sigma = sigma_for(1, 1e-5, sensitivity=1.0, dim=32)
    assert noise.std() == pytest.approx(sigma, rel=0.05)
    assert abs((noise * clean).sum() / (np.linalg.norm(clean) * sigma)) < 5


class Blind:
    """A split whose test items cannot be looked at."""

    def __init__(self, split):
        self.train, self.validation, self.cold = split.train, split.validation, split.cold


def test_a_search_draws_the_same_settings_again_and_never_sees_test(context, tmp_path, monkeypatch):
    for method in METHODS:
        drawn = draws(method, 6)
        assert drawn == draws(method, 6) == draws(method, 9)[:6]
        for settings in drawn:
            configure(method, settings)
    assert draws("conet", 6, {"batch": 512}) == [{**drawn, "batch": 512} for drawn in draws("conet", 6)]
    monkeypatch.setattr(
        searching, "draws", lambda method, trials, fixed, dim: [{**SMALL, "width": 2 + n} for n in range(trials)]
    )
    monkeypatch.setattr(Task, "split", lambda self, seed: Blind(hold_out(self.pair.target, seed=seed, cold=0.25)))
    log = tmp_path / "log.jsonl"
    best = search(DATA, ["dmf", "hetero"], 2, log, context)
    trials, before = read_lines(log, Trial), log.read_text()
    assert len(trials) == 4
    for method, settings in best.items():
        tried = [trial for trial in trials if trial.method == method]
        assert settings == max(tried, key=lambda trial: trial.validation).settings
    assert search(DATA, ["dmf", "hetero"], 2, log, context) == best
    assert log.read_text() == before
    update_tuned(tmp_path / "t.toml", best, "x")
    assert "[dmf]\n" in (tmp_path / "t.toml").read_text()


def test_a_trial_that_fails_counts_as_nothing_and_one_that_the_machine_failed_is_tried_again(
    context, tmp_path, monkeypatch
):
    log, settings = tmp_path / "log.jsonl", [{**SMALL, "learning_rate": 1e30}, SMALL]
    monkeypatch.setattr(searching, "draws", lambda method, trials, fixed, dim: settings[:trials])
    with monkeypatch.context() as patch:
        patch.setattr(searching, "fit", lambda *_: (_ for _ in ()).throw(MemoryError("no room")))
        assert search(DATA, ["dmf"], 2, log, context) == {}
    assert read_lines(log, Trial) == []
    assert search(DATA, ["dmf"], 2, log, context) == {"dmf": SMALL}
    failed, _ = read_lines(log, Trial)
    assert failed.validation == 0
    assert "loss became" in failed.failure


def test_a_run_that_fails_is_named_and_the_others_go_on(context, tmp_path):
    broken = Arm(name="diverges", method="dmf", settings={**SMALL, "learning_rate": 1e30})
    spec = replace(SPEC, arms=(ARMS[0], broken, ARMS[1]), seeds=(1,))
    (failure,) = run(spec, tmp_path, context)
    assert re.match("toy, diverges, seed 1: .*loss became", failure)
    results = results_of(spec, tmp_path)
    assert [result.arm for result in results] == ["popularity", "target only"]
    assert missing_runs(spec, tmp_path) == [(broken, 1)]  # so that it is tried again
    report = markdown_report(spec, results)
    assert "Not run: diverges." in report
    assert "| diverges" not in report


def test_a_part_of_a_spec_can_be_run(context, tmp_path):
    assert [r.arm for r in measure(SPEC, tmp_path, context, only=["popularity"], seeds=[2])] == ["popularity"]
    with pytest.raises(ParameterError, match="no arm or curve of these specs is called 'nobody'"):
        require_runnable([SPEC], ["popularity", "nobody"])
    few = read(tmp_path / "toy.jsonl")
    assert "Not run: popularity (seeds 1) · target only · released · plaintext." in markdown_report(SPEC, few)


def test_what_another_table_measured_is_not_run_again_and_what_other_settings_or_seeds_gave_does_not_count(
    context, tmp_path, monkeypatch
):
    spec = replace(SPEC, arms=ARMS[:2], seeds=(1,))
    first = measure(spec, tmp_path, context)
    wider = replace(spec, arms=(ARMS[0], replace(ARMS[1], settings={**SMALL, "width": 5})))
    lines = read(tmp_path / "toy.jsonl")
    asked = (spec, wider, replace(spec, seeds=(2,)))
    assert [Experiment.of(Outline.of(one), lines).stale for one in asked] == [0, 1, 2]
    assert [len(missing_runs(one, tmp_path)) for one in asked] == [0, 1, 2]
    other = replace(spec, name="other", arms=(replace(ARMS[0], name="most popular"), ARMS[1]), baseline=None)
    monkeypatch.setattr("pricdr.experiments.runner.run_arm", None)  # nothing is left to run
    adopted = measure(other, tmp_path, context)
    assert [(r.spec, r.arm) for r in adopted] == [("other", "most popular"), ("other", "target only")]
    assert [(r.figures, r.provenance) for r in adopted] == [(r.figures, r.provenance) for r in first]


def test_a_folder_of_results_describes_itself_whether_its_data_is_there_or_not(context, tmp_path):
    nowhere = RunContext(tmp_path / "nowhere")
    assert run(SPEC, tmp_path, nowhere) == []
    found = read_outline(tmp_path / "toy.spec.json")
    assert found.missing == NOT_PRESENT == "data not present: point PRICDR_DATA at it"
    assert [*found.keys] == [arm.name for arm in ARMS]
    assert not (tmp_path / "toy.jsonl").exists()
    (result,) = measure(ONE, tmp_path, context)
    assert run(ONE, tmp_path, nowhere) == []  # what was measured elsewhere stays
    found = read_outline(tmp_path / "toy.spec.json")
    assert found == Outline.of(ONE)
    assert [result.key] == [*found.keys.values()]
    assert result.provenance.version == __version__
    assert results_of(ONE, tmp_path) == [result]
    hostile = (tmp_path / "toy.spec.json").read_text().replace('"name": "toy"', '"name": "../toy"')
    for wrong, message in ((hostile, "name becomes a file name"), ("{}", "needs"), ("[]", "must be a table")):
        (tmp_path / "wrong.spec.json").write_text(wrong)
        with pytest.raises(InputError, match=rf"wrong.spec.json: not an outline of results: .*{message}"):
            read_outline(tmp_path / "wrong.spec.json")


def test_a_result_says_what_its_release_delivered(context, tmp_path):
    arms = (ARMS[2], replace(ARMS[2], name="clear", release=ReleaseSpec(dim=8, rows=RowContent.NOISELESS)))
    private, clear = measure(replace(SPEC, arms=arms, seeds=(1,), baseline=None), tmp_path, context)
    assert private.release.dim == 8
    assert private.release.epsilon == pytest.approx(8)
    assert private.release.sigma == pytest.approx(sigma_for(8, 1e-6, sensitivity=1, dim=8), rel=1e-3)
    assert clear.release.epsilon is None
    assert set(private.trust) == {"warm", "cold"}
    assert private.memory is None or private.memory > 1 << 20


def test_the_commit_is_that_of_the_program(tmp_path, monkeypatch):
    here = provenance("cpu")
    assert here.version == __version__
    assert here.machine.endswith(("core", "cores"))
    for given, expected in (("0123456789ab", "0123456789ab"), ("0123456789ab+", "0123456789ab+"), ("$(rm)", "unknown")):
        commit.cache_clear()
        monkeypatch.setenv(COMMIT, given)
        assert commit() == expected
    commit.cache_clear()


def _kill(task, device, number):
    """A run of number 3 dies as the kernel would have it."""
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.slow
def test_a_run_whose_process_is_killed_is_named_and_the_others_go_on(root, tmp_path):
    context = RunContext(root, tmp_path, "cpu", jobs=2)
    outcomes = list(spread(_kill, DATA, context, [(number,) for number in range(6)]))
    assert sorted(outcome.plan[0] for outcome in outcomes) == list(range(6))
    (failed,) = [outcome for outcome in outcomes if outcome.failure]
    assert failed.plan == (3,)
    assert "killed" in failed.failure


@pytest.mark.slow
def test_workers_do_not_import_from_the_working_folder(root, tmp_path, monkeypatch):
    """A spec from elsewhere may lie in a folder with a socket.py, and be run from there."""
    for name in ("socket", "pickle", "signal"):
        (tmp_path / f"{name}.py").write_text("open('taken over', 'w').close()\nraise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    quick = replace(SPEC, arms=ARMS[:1], baseline=None)
    assert len(measure(quick, tmp_path, RunContext(root, None, "cpu", 2))) == 2
    assert not (tmp_path / "taken over").exists()
    assert "PYTHONSAFEPATH" not in os.environ
