"""A series on the command line: four weeks published, checked, trained with, and everything that is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pricdr import Ledger, Release, Unit, cli
from pricdr.signing import create_keys
from tests.forging import reseal
from tests.settings import config

USERS = [f"u{at:03d}" for at in range(90)]
WEEKS = 4
BASIS = ("--delta", 1e-6, "--ledger", "budget")
NEXT = ("week5.csv", "--users", "users5.txt", "--epsilon", 2, *BASIS, "--out", "new")
"""What every refused command asks for, but for the releases that it goes on from."""


def rows_of(week):
    """Ratings up to a week, by people of three tastes: ten join every week, and the first five leave after two."""
    lines, rng = ["user,item,rating"], np.random.default_rng(0)
    for at in range(50 + 10 * min(week, WEEKS)):
        items = rng.choice(20, 8, replace=False)[: 2 + week]
        lines += [f"{USERS[at]},film{at % 3}-{item},{1 + (at + item) % 5}" for item in items]
    return "\n".join(lines) + "\n"


def listed(week):
    """Return who is on the list in a week."""
    return USERS[0 if week <= 2 else 5 : 50 + 10 * min(week, WEEKS)]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A source's folder after four weeks, and releases that do not belong to the series."""
    folder = tmp_path_factory.mktemp("series")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for week in range(1, WEEKS + 2):
            Path(f"week{week}.csv").write_text(rows_of(week))
            Path(f"users{week}.txt").write_text("".join(f"{user}\n" for user in listed(week)))
        Path("strangers.txt").write_text("nobody\nno one\n")
        Path("weeks").mkdir()
        create_keys(Path("key"))
        create_keys(Path("other-key"))
        run("ledger", "init", "budget", "--epsilon", 16, "--delta", 1e-6)
        for week in range(1, WEEKS + 1):
            how = ("--dim", 3, "--epsilon", 8) if week == 1 else ("--continues", "weeks", "--epsilon", 4)
            given = (f"week{week}.csv", "--users", f"users{week}.txt", *BASIS, *how)
            run("publish", *given, "--out", f"weeks/{week}")
        apart = ("week2.csv", "--users", "users2.txt", "--epsilon", 4, "--delta", 1e-6)
        for name, options in {
            "also-second": ("--continues", "weeks/1"),
            "foreign": (),
            "of-users": ("--unit", "user", "--clip", 3),
            "jlt": ("--strategy", "jlt", "--dim", 3),
            "seeded": ("--dim", 3, "--insecure-seed", 1),
            "signed": ("--sign", "key"),
        }.items():
            run("publish", *apart, *options, "--out", name)
        run("publish", *apart, "--continues", "signed", "--sign", "key", "--out", "signed-second")
        shutil.copytree("signed-second", "unsigned-second")
        Path("unsigned-second/certificate.json.sig").unlink()
        reseal(Path("unsigned-second"), signed_by=None)
    return folder


def run(*arguments):
    assert cli.run([str(argument) for argument in arguments]) == 0, arguments


@pytest.fixture
def here(published, tmp_path, monkeypatch):
    """A copy of that folder to work in."""
    folder = shutil.copytree(published, tmp_path / "here")
    monkeypatch.chdir(folder)
    return folder


def weeks(*numbers):
    return [f"weeks/{number}" for number in numbers]


def continuing(*folders):
    return [word for folder in folders for word in ("--continues", folder)]


def series_of(folder):
    return json.loads((Path(folder) / "certificate.json").read_text())["series"]


def test_four_weeks_follow_each_other_and_are_paid_by_one_ledger(here, pricdr):
    first = Release.load("weeks/1").sha256()
    assert series_of("weeks/1") is None
    for week in (2, 3, 4):
        before = Release.load(f"weeks/{week - 1}").sha256()
        assert series_of(f"weeks/{week}") == {
            **{"first": first, "place": week},
            **{"before": before, "before_place": week - 1},
        }
        assert Release.load(f"weeks/{week}").certificate.strategy.name == "continued"
        assert Release.load(f"weeks/{week}").certificate.dim == 3, "as the first, though 4 is the default for epsilon 2"
    assert len(Ledger("budget").read().spends) == 4
    assert pricdr("ledger", "verify", "budget", *weeks(1, 2, 3, 4)).code == 0


def test_verify_checks_that_they_follow_each_other_in_whatever_order_they_are_given(here, pricdr):
    for given in (weeks(1, 2, 3, 4), weeks(3, 1, 4, 2)):
        outcome = pricdr("verify", *given)
        assert outcome.code == 0
        assert "ok: 4 releases of a series, which follow each other" in outcome.out
        assert "no release at place" not in outcome.err
    mixed = pricdr("verify", *weeks(1, 2), "foreign")
    assert (mixed.code, "ok: 2 releases of a series" in mixed.out) == (0, True)
    broken = pricdr("verify", "weeks/1", "also-second", "weeks/3")
    assert broken.code == 1
    last = broken.err.splitlines()[-1]
    assert last == "error: the release at place 3 of the series follows another release than the one given at place 2"


def test_inspect_says_what_a_series_costs_and_how_much_of_it_is_noise(here, pricdr):
    outcome = pricdr("inspect", *weeks(1, 2, 3, 4), "--json", "summary.json")
    found, spent = json.loads(Path("summary.json").read_text()), Ledger("budget").read()
    assert outcome.code == 0
    assert "4 releases of one series" in outcome.out
    assert (found["places"], found["missing"], found["users"]) == ([1, 2, 3, 4], [], 90)
    assert found["mu"] == pytest.approx(spent.mu)
    assert found["epsilon"] == pytest.approx(spent.epsilon, rel=1e-6)
    assert 0 < found["noise_in_sum"] < found["noise_in_newest"] < 1
    assert "1 of promises more" not in outcome.out
    assert pricdr("inspect", "weeks/1", "foreign").code == 1, "two of different series are compared as ever"


def test_a_folder_of_releases_is_each_of_them(here, pricdr):
    assert pricdr("verify", "weeks").out == pricdr("verify", *weeks(1, 2, 3, 4)).out
    assert pricdr("inspect", "weeks").out == pricdr("inspect", *weeks(1, 2, 3, 4)).out


def test_a_config_file_names_one_folder_as_well_as_a_list_of_them(here, pricdr, tmp_path):
    for text in ('"weeks"', '["weeks"]'):
        (tmp_path / "shop.toml").write_text(f"continues = {text}\n")
        outcome = pricdr("publish", *NEXT, "--config", tmp_path / "shop.toml", "--dry-run")
        assert (outcome.code, "of the series" in outcome.out) == (0, True), outcome.err


def test_a_lost_week_leaves_its_place_empty_and_is_warned_of(here, pricdr):
    """The ledger counts it; the others are added up and verified without it."""
    shutil.rmtree("weeks/3")
    for outcome in (pricdr("verify", *weeks(1, 2, 4)), pricdr("publish", *NEXT, "--continues", "weeks")):
        assert outcome.code == 0
        assert "warning: the series has no release at place 3: it failed, was lost or revoked" in outcome.err
    assert (series_of("new")["place"], series_of("new")["before_place"]) == (5, 4)
    assert "At places 1, 2, 4; nothing at 3" in pricdr("inspect", *weeks(1, 2, 4)).out
    shutil.rmtree("weeks/4")
    assert pricdr("publish", *NEXT[:-1], "newer", *continuing(*weeks(1, 2))).code == 0
    after = series_of("newer")
    assert (after["place"], after["before_place"]) == (6, 2), "by the ledger, three were paid for since place 2"


def test_a_dry_run_states_the_place_and_spends_nothing(here, pricdr, tree):
    before = tree()
    outcome = pricdr("publish", *NEXT, "--continues", "weeks", "--dry-run")
    assert outcome.code == 0
    assert "It is at place 5 of the series" in outcome.out
    assert tree() == before


def test_a_signed_series_goes_on_with_the_same_key_alone(here, pricdr):
    assert pricdr("verify", "signed", "signed-second", "--public-key", "key.pub").code == 0
    given = (*NEXT, *continuing("signed", "signed-second"))
    assert pricdr("publish", *given, "--sign", "key", *config(public_key="key.pub")).code == 0
    assert pricdr("verify", "new", "--public-key", "key.pub").code == 0


REFUSED = {
    "a foreign member": (continuing("weeks", "foreign"), "must be of one series, got those of 2"),
    "two at one place": (continuing(*weeks(1, 2), "also-second"), "two releases are at place 2 of the series"),
    "one that follows another": (
        continuing("weeks/1", "also-second", "weeks/3"),
        "place 3 of the series follows another release than the one given at place 2",
    ),
    "one given twice": (continuing("weeks/1", "weeks/1"), "releases 1 and 2 are the same: give each once"),
    "no learnt release": (continuing("jlt"), "a series begins with a learnt release (spectral, guided), and jlt is"),
    "a first one that is not private": (continuing("seeded"), "at place 1 of the series is NOT PRIVATE"),
    "a unit": ((*continuing("weeks"), "--unit", "user", "--clip", 3), "--unit and --clip: --continues takes it over"),
    "columns": ((*continuing("weeks"), "--dim", 3), "--dim: --continues takes it over from the series"),
    "a strategy and a guide": (
        (*continuing("weeks"), "--strategy", "guided", "--guide", "foreign"),
        "--strategy and --guide: --continues takes it over",
    ),
    "values": (
        (*continuing("weeks"), "--values", "--rating-bound", 5, "--rating-step", 1),
        "--values: --continues takes it over",
    ),
    "a threshold": ((*continuing("weeks"), "--threshold", 3), "--threshold: --continues takes it over"),
    "a unit of another release": (continuing("weeks", "of-users"), "must be of one series"),
    "no key": (continuing("signed"), "--sign must be the key that signed the series"),
    "another key": ((*continuing("signed"), "--sign", "other-key"), "--sign must be the key that signed the series"),
    "a key for an unsigned series": ((*continuing("weeks"), "--sign", "key"), "or absent where nobody did"),
    "a member that lost its signature": (
        (*continuing("signed", "unsigned-second"), "--sign", "key"),
        "at place 2 of the series has the signer nobody",
    ),
    "no such folder": (continuing("nowhere"), "nowhere"),
    "a setting of guides": (
        (*continuing("weeks"), *config(allow_not_private_guide=True)),
        "allow-not-private-guide is about a guide, and there is no --guide",
    ),
    "no releases": (("--strategy", "continued"), "--strategy continued needs --continues: the releases before it"),
    "a budget of another unit": (continuing("of-users"), "counts in unit rating, this release in unit user"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_go_on_is_refused_in_one_line_with_nothing_spent(here, refused, name):
    options, says = REFUSED[name]
    refused("publish", *NEXT, *options, says=says)


def test_a_list_of_strangers_costs_nothing(here, pricdr):
    ledger = Path("budget").read_bytes()
    outcome = pricdr("publish", *NEXT, "--continues", "weeks", "--users", "strangers.txt")
    assert outcome.code == 2
    assert "error: no release of the series has a row for any listed user" in outcome.err
    assert (Path("budget").read_bytes(), Path("new").exists()) == (ledger, False)


@pytest.mark.parametrize("spoil", ["users.txt", "certificate.json", "release.safetensors"])
def test_a_member_that_does_not_verify_costs_nothing(here, refused, spoil):
    (here / "weeks/2" / spoil).unlink()
    refused("publish", *NEXT, "--continues", "weeks/2", says=spoil, code=1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"place": 2, "before_place": 2}, "contradicts itself"),
        ({"place": 2, "before_place": 3}, "contradicts itself"),
        ({"before": "0" * 64}, "contradicts itself"),  # at place 1 is the first itself
        ({"first": "0" * 64}, "contradicts itself"),
        ({"place": 1 << 21}, "series.place"),
        ({"place": 1}, "series.place"),
        ({"first": "somebody's"}, "series.first"),
    ],
)
def test_a_series_that_runs_backwards_or_nowhere_does_not_verify(here, refused, change, says):
    reseal(here / "weeks/2", lambda content: content["series"].update(change), rewrite_readme=True)
    refused("publish", *NEXT, "--continues", "weeks/2", says=says, code=1)


def test_a_series_of_thousands_of_places_is_said_in_short(here, pricdr):
    reseal(here / "weeks/4", lambda content: content["series"].update(place=9999), rewrite_readme=True)
    for outcome in (pricdr("verify", *weeks(1, 4)), pricdr("inspect", *weeks(1, 4))):
        assert outcome.code == 0
        assert len(outcome.out + outcome.err) < 2000
    assert "and more" in outcome.out


@pytest.mark.slow
def test_the_target_trains_with_the_sum_and_folds_in_the_next_week(here, pricdr):
    rng = np.random.default_rng(1)
    lines = [f"{USERS[at]},book{at % 3}-{item},5" for at in range(70) for item in rng.choice(15, 5, replace=False)]
    Path("target.csv").write_text("\n".join(["user,item,rating", *lines]) + "\n")
    Path("small.toml").write_text("hidden = 16\nwidth = 8\nbatch = 64\nseed = 3\ndevice = 'cpu'\nepochs = 3\n")
    given = ("--config", "small.toml")
    trained = pricdr("train", "target.csv", *given, "--release", "weeks/1", "--release", "weeks/3", "--out", "model")
    assert trained.code == 0, trained.err
    assert "the 2 releases of the series, added up, cover 70 of 70 users" in trained.out
    assert "warning: the series has no release at place 2" in trained.err
    folded = pricdr("recommend", "model", "--release", "weeks", "--out", "top.csv", "-k", 3)
    assert folded.code == 0, folded.err
    assert "folded in weeks: 10 users are new to the model" in folded.out
    recommended = {line.split(",")[0] for line in Path("top.csv").read_text().splitlines()[1:]}
    assert set(USERS) <= recommended
    mixed = pricdr("recommend", "model", "--release", "weeks", "--release", "foreign", "--out", "other.csv")
    assert mixed.code == 2
    assert "must be of one series, got 2 series" in mixed.err


@pytest.fixture
def split(here, pricdr):
    """A split of a target, and on it a model of the series and one without; names of weeks are not in their order."""
    rng = np.random.default_rng(1)
    lines = [f"{USERS[at]},book{at % 3}-{item},5" for at in range(70) for item in rng.choice(120, 12, replace=False)]
    Path("target.csv").write_text("\n".join(["user,item,rating", *lines]) + "\n")
    for week in (1, 2, 3, 4):
        Path(f"weeks/{week}").rename(f"weeks/{5 - week}-weeks-ago")
    for given in (
        ("split", "target.csv", "--out", "split"),
        ("train", "split", "--method", "ridge-release", "--release", "weeks", "--out", "measured"),
        ("train", "split", "--method", "popularity", "--out", "popular"),
    ):
        assert pricdr(*given).code == 0
    return "split"


def test_training_again_like_a_measured_model_knows_its_series(split, pricdr):
    again = pricdr("train", "target.csv", "--like", "measured", "--release", "weeks", "--out", "final")
    assert again.code == 0
    assert "these are not the releases" not in again.err


def test_repeating_takes_the_folder_of_a_series(split, pricdr):
    told = pricdr(
        "evaluate", "measured", "popular", split, "--repeat", 2, "--target", "target.csv", "--release", "weeks"
    )
    assert (told.code, told.err) == (0, "")


def test_a_plan_with_a_larger_first_release_adds_up_to_the_budget(here, pricdr, refused):
    assert pricdr("ledger", "init", "fresh", "--epsilon", 8, "--delta", 1e-6).code == 0
    outcome = pricdr("ledger", "plan", "fresh", "--releases", 26, "--first", 0.4, "--json", "plan.json")
    assert outcome.code == 0
    plan = json.loads(Path("plan.json").read_text())
    left = Ledger("fresh").read().mu_left
    assert plan["first"]["mu"] ** 2 == pytest.approx(0.4 * left**2)
    assert plan["first"]["mu"] ** 2 + 25 * plan["each"]["mu"] ** 2 == pytest.approx(left**2)
    ledger = Ledger("fresh")
    for mu in (plan["first"]["mu"], *[plan["each"]["mu"]] * 25):
        ledger.spend(mu=mu, dim=8, unit=Unit.RATING, strategy="continued", promise="")
    assert ledger.read().epsilon == pytest.approx(8, rel=1e-9)
    for bad in (("--releases", 1, "--first", 0.5), ("--releases", 4, "--first", 0), ("--releases", 4, "--first", 1)):
        refused("ledger", "plan", "fresh", *bad, says="--first is a part between 0 and 1, of two --releases or more")
    refused("ledger", "plan", "fresh", "--each", 1, "--first", 0.5, says="--first is a part")
