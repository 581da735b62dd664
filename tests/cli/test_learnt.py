"""``publish`` with the strategies that learn, and with public features: what they accept, say, certify and spend."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from pricdr import Ledger
from tests.settings import config

USERS = [f"u{at:02d}" for at in range(12)]
ITEMS = [f"i{at}" for at in range(8)]
PROMISE = ("--epsilon", 4, "--delta", 1e-6)
NO_LEDGER = (
    "warning: no ledger: this release is not counted against a budget; others of the same ratings add to its cost\n"
)
STARS = "warning: ratings from 1 to 5 look like stars: without a threshold each row counts as a like, even one of 1\n"
SURE = ("--confidence", 0.999999)
"""A test must not fail one time in twenty because a bound was unlucky."""


def certificate_of(folder) -> dict:
    return json.loads((folder / "certificate.json").read_text())


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def source(here):
    """Ratings of twelve users, values from 1 to 5."""
    rows = [
        f"{user},{item},{(at + place) % 5 + 1}"
        for at, user in enumerate(USERS)
        for place, item in enumerate(ITEMS)
        if (5 * at + 3 * place) % 4
    ]
    (here / "source.csv").write_text("user,item,rating\n" + "\n".join(rows) + "\n")
    return here / "source.csv"


@pytest.fixture
def lists(here):
    """The agreed list (eight users, one of them without ratings), everybody, and the public items."""
    (here / "users.txt").write_text("".join(f"{user}\n" for user in [*USERS[:7], "newcomer"]))
    (here / "everybody.txt").write_text("".join(f"{user}\n" for user in USERS))
    (here / "items.txt").write_text("".join(f"{item}\n" for item in [*ITEMS, "never rated"]))
    return here


@pytest.fixture
def other(here, lists, publish):
    """A release of the other party over the agreed list."""
    rows = [f"{user},film{(3 * at + place) % 9}" for at, user in enumerate(USERS) for place in range(4)]
    (here / "target.csv").write_text("user,item\n" + "\n".join(rows) + "\n")
    outcome = publish("target.csv", "--users", "users.txt", out="other")
    assert outcome.code == 0, outcome.err
    return here / "other"


@pytest.fixture
def features(here):
    """Public features of all items."""
    rows = [f"{item},{place % 3},{place % 2},{place}" for place, item in enumerate(ITEMS)]
    (here / "features.csv").write_text("item,war,love,year\n" + "\n".join(rows) + "\n")
    return here / "features.csv"


@pytest.fixture
def learn(pricdr, source, lists):
    """Run ``publish`` over the agreed list, with everything else at its default."""

    def run(*options, out="release"):
        return pricdr("publish", source, *PROMISE, "--users", "users.txt", "--out", out, *options)

    return run


@pytest.fixture
def refused_learn(refused, source, lists, ledger):
    """The same, refused: one line, and nothing changed on disk, the ledger included."""

    def run(*options, says, code=2):
        fixed = ("--users", "users.txt", "--ledger", ledger, "--out", "release")
        return refused("publish", source, *PROMISE, *fixed, *options, says=says, code=code)

    return run


def test_the_default_learns_and_says_so(here, learn):
    outcome = learn()
    assert (outcome.code, outcome.err) == (0, STARS + NO_LEDGER)
    assert "listed users: 8, of them 1 without ratings; 5 users of the ratings are not listed and left out" in (
        outcome.out
    )
    assert "learnt in 8 steps, all within the promise; item directions are erased" in outcome.out
    assert "published Release(8 users x 8, spectral, epsilon=4, delta=1e-06 per rating)" in outcome.out
    certificate = certificate_of(here / "release")
    assert certificate["input"]["item_universe"] == "not needed"
    assert [step["published"] for step in certificate["steps"]] == [False] * 7 + [True]
    assert {step["payer"] for step in certificate["steps"]} == {"listed users"}
    assert sum(step["share"] for step in certificate["steps"]) == pytest.approx(1)
    assert sum(step["mu"] ** 2 for step in certificate["steps"]) == pytest.approx(certificate["mu"] ** 2)


def test_projections_are_not_said_to_learn(learn):
    assert "learnt" not in learn("--strategy", "jlt").out


def test_listed_items_are_the_universe(here, learn):
    outcome = learn("--items", "items.txt")
    assert outcome.code == 0
    assert "listed items: 9; 0 others are left out" in outcome.out
    certificate = certificate_of(here / "release")
    assert (certificate["input"]["item_universe"], certificate["items"]) == ("declared", 9)


def test_values_are_what_is_learnt_from(here, learn):
    assert learn("--values", "--rating-bound", 5, "--rating-step", 0.5).code == 0
    certificate = certificate_of(here / "release")
    assert certificate["sensitivity"] == 5
    assert (certificate["bounds"]["counts"], certificate["bounds"]["rating_step"]) == ("values", 0.5)


def test_the_user_unit_bounds_the_sum_of_a_users_ratings(here, learn, pricdr):
    assert learn("--unit", "user", "--clip", 3).code == 0
    certificate = certificate_of(here / "release")
    assert (certificate["unit"], certificate["sensitivity"], certificate["bounds"]["clip"]) == ("user", 6, 3)
    assert "scaled down to a sum of at most 3" in flat(pricdr("inspect", "release").out)


@pytest.mark.parametrize(
    ("options", "universe", "rows"),
    [
        (config(learn_from="all"), "hashed into buckets", 65536),
        (config(learn_from="all", buckets=50), "hashed into buckets", 50),
        ((*config(learn_from="all"), "--items", "items.txt"), "declared", 9),
    ],
    ids=["hashed", "fifty buckets", "listed items"],
)
def test_users_outside_the_list_are_learnt_from_and_pay(here, learn, pricdr, ledger, options, universe, rows):
    outcome = learn("--ledger", ledger, *options)
    assert (outcome.code, outcome.err) == (0, STARS)
    assert "5 users of the ratings are not listed and get no row; directions are learnt from them first" in outcome.out
    assert "they are protected by the same promise" in outcome.out
    certificate = certificate_of(here / "release")
    assert certificate["users"] == 8
    assert certificate["input"]["item_universe"] == universe
    paid = dict.fromkeys(("listed users", "users outside the list"), 0.0)
    for step in certificate["steps"]:
        paid[step["payer"]] += step["mu"] ** 2
    assert paid["users outside the list"] == pytest.approx(certificate["mu"] ** 2)
    assert paid["listed users"] == pytest.approx(certificate["mu"] ** 2), "nobody is in both groups: each pays once"
    others = [step for step in certificate["steps"] if step["payer"] == "users outside the list"]
    assert [(step["rows"], step["published"]) for step in others] == [(rows, False)] * 2
    (spend,) = Ledger(ledger).read().spends
    assert spend.mu == pytest.approx(certificate["mu"])
    assert certificate["ledger"]["releases"] == 1
    assert "listed or not" in certificate["neighbours"]
    shown = flat(pricdr("inspect", "release").out)
    assert "of what the users outside the list paid" in shown
    assert "item sums 1" in shown


def test_learning_from_all_without_a_list_has_nobody_else_to_learn_from(here, source, pricdr):
    outcome = pricdr("publish", source, *PROMISE, *config(learn_from="all"), "--out", "release")
    assert outcome.code == 0
    assert "warning: learn-from all: every user is listed" in outcome.err
    assert pricdr("verify", "release").code == 0


@pytest.mark.parametrize(
    ("options", "steps", "refine"), [((), 6, 1), (config(refine=True), 6, 1), (config(refine=False), 2, 0)]
)
def test_a_guide_is_followed_and_stated(here, learn, other, pricdr, options, steps, refine):
    outcome = learn("--strategy", "guided", "--guide", other, *options)
    assert (outcome.code, outcome.err) == (0, STARS + NO_LEDGER)
    assert f"learnt in {steps} steps, all within the promise" in outcome.out
    certificate = certificate_of(here / "release")
    assert len(certificate["steps"]) == steps
    assert certificate["strategy"]["parameters"]["refine"] == refine
    theirs = certificate_of(other)
    guide = certificate["guide"]
    assert guide["sha256"] == theirs["files"]["release.safetensors"]
    assert (guide["private"], guide["epsilon"], guide["unit"]) == (True, 4, "rating")
    assert (guide["strategy"], guide["missing_users"]) == ("spectral", 0)
    shown = flat(pricdr("inspect", "release").out)
    assert "learnt along a release of the other party (spectral, private at epsilon 4" in shown
    assert "holds whatever that release is" in shown
    assert pricdr("verify", "release").code == 0


def test_a_guide_may_know_more_users_than_are_listed(here, learn, lists, publish, other):
    assert publish("target.csv", "--users", "everybody.txt", out="wide").code == 0
    (here / "users.txt").write_text("".join(f"{user}\n" for user in reversed(USERS[:5])))
    assert learn("--strategy", "guided", "--guide", "wide").code == 0
    assert certificate_of(here / "release")["guide"]["missing_users"] == 0


def test_a_guide_that_lacks_users_is_refused_or_filled(here, refused_learn, learn, other, pricdr):
    (here / "users.txt").write_text("".join(f"{user}\n" for user in USERS))
    guided = ("--strategy", "guided", "--guide", other)
    refused_learn(*guided, says=("the guide lacks 5 of 12 listed users", f"'{USERS[7]}'", "fill-guide"))
    outcome = learn(*guided, *config(fill_guide=True))
    assert (outcome.code, outcome.err) == (0, STARS + NO_LEDGER)
    assert "the guide lacks 5 listed users" in outcome.out
    assert certificate_of(here / "release")["guide"]["missing_users"] == 5
    assert "It lacks 5 listed users, who got a row of zeros in it." in flat(pricdr("inspect", "release").out)
    rows = load_file(here / "release" / "release.safetensors")["matrix"]
    assert np.abs(rows).max(axis=1).min() > 0, "they get a row of the release like everybody else"


def test_a_guide_that_knows_nobody_is_refused_even_where_it_may_be_filled(here, refused_learn, source, publish, lists):
    (here / "t.csv").write_text("user,item\nstranger,x\nforeigner,y\n")
    assert publish("t.csv", out="strange").code == 0
    guided = ("--strategy", "guided", "--guide", "strange")
    refused_learn(*guided, says="lacks 8 of 8 listed users")
    refused_learn(*guided, *config(fill_guide=True), says="no row for any listed user")


@pytest.mark.parametrize("flag", [("--insecure-seed", 7), config(insecure_no_noise=True)], ids=["seeded", "no noise"])
def test_a_guide_that_is_not_private_is_refused_or_disclosed(here, refused_learn, learn, other, publish, pricdr, flag):
    assert publish("target.csv", "--users", "users.txt", *flag, out="bare").code == 0
    guided = ("--strategy", "guided", "--guide", "bare")
    refused_learn(*guided, says=("the guide is marked NOT PRIVATE", "allow_not_private_guide"))
    outcome = learn(*guided, *config(allow_not_private_guide=True))
    assert outcome.code == 0
    warning = "the guide is NOT PRIVATE: it protects nobody on the other side"
    assert outcome.err == f"{STARS}{NO_LEDGER}warning: {warning}\n"
    certificate = certificate_of(here / "release")
    assert certificate["private"] is True, "the promise to these users holds whatever the guide is"
    assert certificate["guide"]["private"] is False
    assert certificate["warnings"] == [warning]
    shown = flat(pricdr("inspect", "release").out)
    assert "(spectral, NOT PRIVATE; SHA-256" in shown
    assert warning in shown


@pytest.mark.parametrize("name", ["release.safetensors", "users.txt", "README.md", "certificate.json"])
def test_a_guide_that_was_tampered_with_is_refused(here, refused_learn, other, name):
    content = bytearray((other / name).read_bytes())
    content[len(content) // 2] ^= 1
    (other / name).write_bytes(content)
    refused_learn("--strategy", "guided", "--guide", other, says=("--guide", str(other), name), code=1)
    (other / name).unlink()
    refused_learn("--strategy", "guided", "--guide", other, says=("--guide", name, "missing"), code=1)


def test_a_guide_that_is_no_folder_is_refused(refused_learn, source):
    refused_learn("--strategy", "guided", "--guide", "nowhere", says="--guide nowhere is not a release folder: no such")
    refused_learn("--strategy", "guided", "--guide", source, says=("--guide", "source.csv", "it is not a folder"))


def test_public_features_are_used_as_they_are(here, learn, features, pricdr):
    outcome = learn("--strategy", "features", *config(item_features=features))
    assert (outcome.code, outcome.err) == (0, STARS + NO_LEDGER)
    assert "learnt" not in outcome.out
    assert "items with features: 8; 0 others are left out" in outcome.out
    certificate = certificate_of(here / "release")
    assert (certificate["dim"], certificate["items"], len(certificate["steps"])) == (3, 8, 1)
    assert certificate["input"]["item_universe"] == "declared"
    assert pricdr("verify", "release").code == 0
    assert learn("--strategy", "features", *config(item_features=features), "--dim", 2, out="two").code == 0
    assert certificate_of(here / "two")["dim"] == 2


def test_items_without_features_are_left_out_and_the_screen_says_so(here, learn, features):
    features.write_text("".join(features.read_text().splitlines(keepends=True)[:-2]))
    assert "items with features: 6; 2 others are left out" in (
        learn("--strategy", "features", *config(item_features=features)).out
    )
    outcome = learn("--strategy", "features", *config(item_features=features), "--items", "items.txt", out="listed")
    assert "listed items: 9; 0 others are left out" in outcome.out
    assert certificate_of(here / "listed")["items"] == 9


def test_features_that_cannot_be_used_are_refused(here, refused_learn, features):
    strategy = ("--strategy", "features")
    refused_learn(*strategy, says=("--strategy features", "item-features"))
    refused_learn(*strategy, *config(item_features="nowhere.csv"), says=("nowhere.csv", "no such file"))
    refused_learn(*strategy, *config(item_features=features), "--dim", 4, says=("dim 4", "3 columns"))
    (here / "words.csv").write_text("item,genre\ni0,war\n")
    refused_learn(*strategy, *config(item_features="words.csv"), says=("words.csv", "genre", "number"))


STRANGERS = [
    ("refine", True, "guided"),
    ("refine", False, "guided"),
    ("fill_guide", True, "guided"),
    ("allow_not_private_guide", True, "guided"),
    ("learn_from", "listed", "spectral"),
    ("buckets", 10, "spectral"),
    ("density", 0.5, "sjlt"),
]


@pytest.mark.parametrize(("setting", "value", "owner"), STRANGERS)
def test_settings_of_another_strategy_are_refused(refused_learn, setting, value, owner):
    for strategy in {"spectral", "guided", "jlt"} - {owner}:
        says = "is about a guide" if setting.startswith("allow") else f"no setting of strategy {strategy}"
        refused_learn("--strategy", strategy, *config(**{setting: value}), says=(setting.replace("_", "-"), says))
    refused_learn("--guide", "other", says="--guide other is not a release folder")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--strategy", "guided"), ("--strategy guided", "--guide")),
        (config(density=0.5), "density is no setting of strategy spectral"),
        (config(buckets=10), "buckets belongs to learn-from all"),
        ((*config(buckets=10, learn_from="all"), "--items", "items.txt"), ("buckets", "--items")),
        (config(buckets=0, learn_from="all"), ("buckets", "at least 1")),
        (config(buckets=10**9, learn_from="all"), "buckets, got 1,000,000,000"),
        (("--dim", 257), "at most 256 numbers per user, got 257"),
        (("--dim", 0), ("dim", "at least 1")),
        (config(learn_from="others"), ("learn-from", "others", "listed", "all")),
        (config(calibration="paper"), ("paper", "not for spectral")),
        (("--clip", 3), ("clip", "unit rating")),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(refused_learn, options, says):
    refused_learn(*options, says=says)


@pytest.mark.parametrize(("epsilon", "dim"), [(2, 4), (4, 8)])
def test_the_dimension_follows_epsilon_alone(here, learn, epsilon, dim):
    assert learn("--epsilon", epsilon).code == 0
    assert certificate_of(here / "release")["dim"] == dim


def test_the_largest_dimension_is_256(here, learn):
    outcome = learn("--dim", 256)
    assert outcome.code == 0
    assert "dim 256 is above the number of items" in outcome.out
    assert certificate_of(here / "release")["dim"] == 256


KINDS = {
    "spectral": ((), 8),
    "spectral from all": (config(learn_from="all", buckets=20), 9),
    "spectral per user": (("--unit", "user", "--clip", 3), 8),
    "guided": (("--strategy", "guided", "--guide", "other"), 6),
    "guided once": (("--strategy", "guided", "--guide", "other", *config(refine=False)), 2),
    "features": (("--strategy", "features", *config(item_features="features.csv")), 1),
    "jlt": (("--strategy", "jlt", "--dim", 8), 1),
}


@pytest.mark.parametrize(("options", "steps"), KINDS.values(), ids=KINDS)
def test_every_kind_of_release_verifies_shows_its_steps_and_stands_an_audit(
    here, learn, other, features, pricdr, options, steps
):
    assert learn(*options).code == 0
    assert pricdr("verify", "release").code == 0
    shown = flat(pricdr("inspect", "release").out)
    for number in range(1, steps + 1):
        assert (f"Step {number} of {steps}, " in shown) == (steps > 1)
    assert ("Erasure: directions were learnt from everybody's ratings" in shown) == (steps > 1)
    outcome = pricdr("audit", "release", "--draws", 20_000, "--canaries", 1000, *SURE, "--json", "found.json")
    assert outcome.code == 0, outcome.err
    assert (f"{steps} steps; the adversary is shown what each of them gave" in outcome.out) == (steps > 1)
    finding = json.loads((here / "found.json").read_text())
    assert 0 < finding["lower_bound"] <= finding["claimed_epsilon"]


@pytest.mark.parametrize("strategy", ["spectral", "guided", "features"])
@pytest.mark.parametrize(("options", "dim"), [((), 4), (("--dim", 6), 6)])
def test_an_audit_without_a_release_takes_publishs_dimension(here, pricdr, strategy, options, dim):
    fixed = ("--strategy", strategy, "--epsilon", 2, "--delta", 1e-6, "--users", 50)
    outcome = pricdr("audit", *fixed, "--draws", 5000, "--canaries", 500, *SURE, *options)
    assert outcome.code == 0, outcome.err
    assert f"{strategy}, dim {dim}, unit rating" in outcome.out


def test_an_audit_takes_users_without_a_folder_alone(refused, learn):
    fixed = ("--strategy", "spectral", "--epsilon", 2, "--delta", 1e-6)
    refused("audit", *fixed, "--users", 0, says=("users", "at least 1", "0"))
    assert learn().code == 0
    refused("audit", "release", "--users", 50, says="a release folder states its own parameters")


def test_the_ledger_pays_once_for_each_release_whatever_its_steps(here, learn, other, ledger, pricdr):
    guided = ("--strategy", "guided", "--guide", "other")
    for number, options in enumerate([(), config(learn_from="all", buckets=20), guided], 1):
        out = here / f"release{number}"
        assert learn("--epsilon", 2, "--ledger", ledger, *options, out=out).code == 0
        spends = Ledger(ledger).read().spends
        certificate = certificate_of(out)
        assert len(spends) == certificate["ledger"]["releases"] == number
        assert spends[-1].mu == pytest.approx(certificate["mu"])
        assert pricdr("verify", out).code == 0
    assert Ledger(ledger).read().epsilon < 6
    refusal = learn("--epsilon", 8, "--ledger", ledger, *guided, out="more")
    assert refusal.code == 1
    assert len(Ledger(ledger).read().spends) == 3


def test_a_seeded_guide_gives_the_same_bytes_twice(here, learn, other):
    for out in ("one", "two"):
        assert learn("--strategy", "guided", "--guide", "other", "--insecure-seed", 5, out=out).code == 0
    for name in ("README.md", "certificate.json", "release.safetensors", "users.txt"):
        assert (here / "one" / name).read_bytes() == (here / "two" / name).read_bytes()


def test_a_guide_stays_as_it_was_and_need_not_stay(here, learn, other, tree, pricdr):
    before = {name: state for name, state in tree().items() if name.startswith("other")}
    assert learn("--strategy", "guided", "--guide", "other").code == 0
    assert {name: state for name, state in tree().items() if name.startswith("other")} == before
    shutil.rmtree(other)
    assert pricdr("verify", "release").code == 0
    assert pricdr("audit", "release", "--draws", 2000, "--canaries", 200, *SURE).code == 0
