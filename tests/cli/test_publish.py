"""What ``publish`` accepts and says on screen, and what its options do to the release folder."""

import json

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

from pricdr import verify
from pricdr.privacy.accounting import composed_epsilon, paper_sigma
from tests.alignment.records import SESSION, write_list
from tests.data.kept import KEPT, keep
from tests.settings import config

USERS = [f"u{at:02d}" for at in range(12)]
ITEMS = [f"i{at}" for at in range(8)]
PROMISE = ("--epsilon", 4, "--delta", 1e-6)
SURE = ("--confidence", 0.999999)
"""A test must not fail one time in twenty because a bound was unlucky."""


def rows_of(folder) -> tuple[list[str], np.ndarray]:
    users = (folder / "users.txt").read_text(encoding="utf-8").split("\n")
    return users[:-1], load_file(folder / "release.safetensors")["matrix"]


def certificate_of(folder) -> dict:
    return json.loads((folder / "certificate.json").read_text())


@pytest.mark.parametrize(
    ("options", "dim", "parameters"),
    [((), 8, None), (("--epsilon", 3.9), 4, None), (("--strategy", "sjlt"), 200, {"density": 0.5})],
)
def test_the_defaults_are_the_designs(here, ratings, pricdr, options, dim, parameters):
    assert pricdr("publish", ratings, *PROMISE, "--out", "release", *options).code == 0
    certificate = certificate_of(here / "release")
    assert (certificate["dim"], certificate["unit"], certificate["calibration"]) == (dim, "rating", "exact")
    assert parameters in (None, certificate["strategy"]["parameters"])
    assert certificate["private"]


def test_listed_users_without_ratings_get_a_row_of_noise_and_the_folder_does_not_tell(here, ratings, publish):
    certificates = []
    for name, users in (("first", ["zoe", "carol", "alice", "yan"]), ("second", ["alice", "bob", "carol", "zoe"])):
        (here / "users.txt").write_text("".join(f"{user}\n" for user in users))
        outcome = publish(ratings, "--users", "users.txt", out=name)
        found, vectors = rows_of(here / name)
        assert found == users
        assert np.abs(vectors).max(axis=1).min() > 0
        certificate = certificate_of(here / name)
        del certificate["files"]["release.safetensors"], certificate["files"]["users.txt"], certificate["digest"]
        certificates.append(certificate)
    assert "listed users: 4, of them 1 without ratings; 0 users of the ratings are not listed" in outcome.out
    assert certificates[0] == certificates[1]


def test_a_threshold_drops_rows_and_says_how_many(here, ratings, publish):
    outcome = publish(ratings, "--threshold", 3, *config(insecure_no_noise=True))
    assert "dropped: 2 rated below 3" in outcome.out
    users, vectors = rows_of(here / "release")
    assert users == ["alice", "bob", "carol"], "nobody is filtered away"
    assert [bool(row.any()) for row in vectors] == [True, True, False]
    assert "every item rated at least 3 counts as 1" in (here / "release" / "README.md").read_text()
    assert certificate_of(here / "release")["input"]["threshold"] == 3


def test_paper_calibration_states_the_nominal_and_the_exact_epsilon(here, ratings, publish, pricdr):
    outcome = publish(ratings, *config(calibration="paper"), "--strategy", "jlt")
    certificate = certificate_of(here / "release")
    exact = composed_epsilon([(1 / paper_sigma(4, 1e-6, dim=8), 8)], 1e-6)
    assert (certificate["nominal_epsilon"], certificate["epsilon"]) == (4, pytest.approx(exact))
    assert certificate["sigma"] == pytest.approx(paper_sigma(4, 1e-6, dim=8))
    assert f"nominal epsilon 4, exact {exact:.4g}" in outcome.out
    assert f"nominal epsilon 4, exact epsilon {exact:.4g}" in " ".join(pricdr("inspect", "release").out.split())


def test_a_release_for_tests_is_loudly_not_private(ratings, publish, pricdr):
    for out, options in (("seeded", ("--insecure-seed", 42)), ("bare", config(insecure_no_noise=True))):
        outcome = publish(ratings, *options, out=out)
        assert outcome.code == 0
        assert "NOT PRIVATE and must not leave the source" in outcome.err
        assert "NOT PRIVATE" in pricdr("inspect", out).out.split("\n\n")[0]


@pytest.mark.parametrize("name", ["sub/deeper/a b", "-ünï🙂", "a'b\"c$HOME", "*?{x}[1]"])
def test_inputs_and_outputs_may_have_strange_names(here, publish, pricdr, name):
    file, folder = here / f"{name}.parquet", here / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"]}).write_parquet(file)
    outcome = publish(file, out=folder)
    assert outcome.code == 0
    assert f"{name}.parquet: 2 rows" in outcome.out
    assert pricdr("verify", folder).code == 0
    assert sorted(folder.parent.iterdir()) == sorted([file, folder])


# strategies


@pytest.fixture
def learn(here, pricdr, publish):
    """Run ``publish`` over an agreed list (eight users, one of them without ratings), along a release of the other."""
    rows = [
        f"{user},{item},{(at + place) % 5 + 1}"
        for at, user in enumerate(USERS)
        for place, item in enumerate(ITEMS)
        if (5 * at + 3 * place) % 4
    ]
    (here / "source.csv").write_text("user,item,rating\n" + "\n".join(rows) + "\n")
    (here / "users.txt").write_text("".join(f"{user}\n" for user in [*USERS[:7], "newcomer"]))
    (here / "items.txt").write_text("".join(f"{item}\n" for item in [*ITEMS, "never rated"]))
    table = [f"{item},{place % 3},{place % 2},{place}" for place, item in enumerate(ITEMS)]
    (here / "features.csv").write_text("item,war,love,year\n" + "\n".join(table) + "\n")
    films = [f"{user},film{(3 * at + place) % 9}" for at, user in enumerate(USERS[:5]) for place in range(4)]
    (here / "target.csv").write_text("user,item\n" + "\n".join(films) + "\n")
    assert publish("target.csv", out="guide").code == 0

    def run(*options, out="release"):
        return pricdr("publish", "source.csv", *PROMISE, "--users", "users.txt", "--out", out, *options)

    return run


LEFT_OUT = "5 users of the ratings are not listed and left out"
GUIDED = ("--strategy", "guided", "--guide", "guide")
FEATURES = ("--strategy", "features", *config(item_features="features.csv"))
STRATEGIES = {
    "spectral": ((), 8, LEFT_OUT, ""),
    "spectral of listed items": (("--items", "items.txt"), 8, "listed items: 9; 0", "of the release's cost"),
    "per user": (("--unit", "user", "--clip", 3), 8, LEFT_OUT, "scaled down to a sum of at most 3"),
    "guided": ((*GUIDED, *config(fill_guide=True)), 6, "the guide lacks 3 listed users", "It lacks 3 listed users"),
    "guided once": ((*GUIDED, *config(fill_guide=True, refine=False)), 2, "the guide lacks 3", "along a release of"),
    "features": (FEATURES, 1, "items with features: 8; 0", "Item universe: declared"),
    "jlt": (("--strategy", "jlt", "--dim", 8), 1, LEFT_OUT, ""),
}


@pytest.mark.parametrize(("options", "steps", "says", "states"), STRATEGIES.values(), ids=STRATEGIES)
def test_every_strategy_says_what_it_does_verifies_and_stands_an_audit(
    here, learn, pricdr, options, steps, says, states
):
    outcome = learn(*options)
    assert outcome.code == 0, outcome.err
    assert says in outcome.out
    learnt = f"learnt in {steps} steps, all within the promise; item directions are erased"
    assert (learnt in outcome.out) == (steps > 1)
    assert pricdr("verify", "release").code == 0
    shown = " ".join(pricdr("inspect", "release").out.split())
    assert states in shown
    assert (f"Step {steps} of {steps}, " in shown) == (steps > 1)
    outcome = pricdr("audit", "release", "--draws", 5000, "--canaries", 500, *SURE, "--json", "found.json")
    assert outcome.code == 0, outcome.err
    assert (f"{steps} steps; the adversary is shown what each of them gave" in outcome.out) == (steps > 1)
    finding = json.loads((here / "found.json").read_text())
    assert 0 < finding["lower_bound"] <= finding["claimed_epsilon"]


def test_a_guide_that_is_not_private_is_disclosed(here, learn, publish):
    assert publish("target.csv", "--insecure-seed", 7, out="bare").code == 0
    allowed = config(allow_not_private_guide=True, fill_guide=True)
    outcome = learn("--strategy", "guided", "--guide", "bare", *allowed)
    assert outcome.code == 0
    warning = "the guide is NOT PRIVATE: it protects nobody on the other side"
    assert outcome.err.splitlines()[-1] == f"warning: {warning}"
    assert certificate_of(here / "release")["warnings"] == [warning]


def test_a_guide_that_was_tampered_with_is_refused(here, learn, refused):
    content = bytearray((here / "guide" / "release.safetensors").read_bytes())
    content[len(content) // 2] ^= 1
    (here / "guide" / "release.safetensors").write_bytes(content)
    command = ("publish", "source.csv", *PROMISE, "--users", "users.txt", "--out", "release", *GUIDED)
    refused(*command, says=("--guide guide:", "release.safetensors"), code=1)


# a list that align has written


@pytest.mark.parametrize("where", KEPT)
def test_the_session_of_align_is_in_the_certificate(here, ratings, publish, monkeypatch, where):
    keep(monkeypatch, where)
    write_list(here / "users.txt", ("alice", "bob", "dave"))
    assert "Where the user list came from" in publish(ratings, "--users", "users.txt", "--dry-run").out
    outcome = publish(ratings, "--users", "users.txt")
    assert outcome.code == 0, outcome.err
    assert f"users.txt came from align (session {SESSION}): the certificate says so" in outcome.out
    assert verify(here / "release").certificate.input.alignment.session == SESSION


def test_a_changed_list_is_refused_before_anything_is_read_or_spent(here, refused_publish):
    write_list(here / "users.txt", ("alice", "bob"))
    (here / "users.txt").write_text("alice\nbob\ndave\n")
    says = ("users.txt: this is not the list that align wrote", "give that list, unchanged", "without a record")
    refused_publish("no such ratings.csv", says=says)
    (here / "users.txt.alignment.json").write_text("{}")
    refused_publish("no such ratings.csv", says="users.txt.alignment.json: session: Field required")
