"""A pinned key, by option or by environment: whatever reads a release, or verifies a ledger, asks for its signature."""

import shutil

import pytest

from pricdr import Guarantee, Ledger, Ratings, publish
from pricdr.signing import create_keys, read_private_key
from pricdr.strategies import Spectral
from tests.settings import config

QUICK = ("--epochs", 1, "--device", "cpu")
PROMISE = ("--epsilon", 4, "--delta", 1e-6)
COMMANDS = ("verify", "inspect", "audit", "train", "publish", "ledger verify")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The key that the target trusts and another, and releases signed by the one, by the other and by none."""
    folder = tmp_path_factory.mktemp("made")
    source = Ratings.from_triples(["alice", "alice", "bob", "bob", "carol"], ["dune", "emma", "dune", "it", "emma"])
    ledger = Ledger.create(folder / "budget.jsonl", Guarantee(epsilon=8, delta=1e-6))
    release = publish(source, Guarantee(epsilon=4, delta=1e-6), strategy=Spectral(dim=8), ledger=ledger)
    for name, key in (("signed", "trusted"), ("resigned", "other"), ("unsigned", None)):
        if key is not None:
            create_keys(folder / key)
        release.save(folder / name, signing_key=None if key is None else folder / key)
    Ledger(ledger.path, read_private_key(folder / "trusted")).sign()
    return folder


@pytest.fixture
def releases(here, made, monkeypatch):
    """All of these in the working folder."""
    monkeypatch.delenv("PRICDR_PUBLIC_KEY", raising=False)
    shutil.copytree(made, here, dirs_exist_ok=True)
    return here


@pytest.fixture
def read(pricdr, releases, ratings):
    """Run a command that reads a release folder."""

    def run(command, release, *options):
        shutil.rmtree(releases / "out", ignore_errors=True)
        arguments = {
            "verify": (release,),
            "inspect": (release,),
            "audit": (release, "--draws", 1000, "--canaries", 100, "--confidence", 0.999999),
            "train": (ratings, "--release", release, "--out", "out", *QUICK),
            "publish": (ratings, *PROMISE, "--strategy", "guided", "--guide", release, "--out", "out"),
            "ledger verify": ("budget.jsonl", release),
        }[command]
        return pricdr(*command.split(), *arguments, *options)

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_only_what_the_pinned_key_signed_is_read(read, monkeypatch, command):
    assert read(command, "unsigned").code == 0, "without a key a signature is not asked for"
    pinned = config(public_key="trusted.pub") if command == "publish" else ("--public-key", "trusted.pub")
    outcome = read(command, "signed", *pinned)
    assert outcome.code == 0, outcome.err
    for given in (pinned, ()):
        for release, says in (("unsigned", "not signed"), ("resigned", "a key other than")):
            outcome = read(command, release, *given)
            assert (outcome.code, outcome.err.count("\n"), says in outcome.err) == (1, 1, True)
        monkeypatch.setenv("PRICDR_PUBLIC_KEY", "trusted.pub")


def test_the_option_wins_over_the_environment_and_a_key_that_is_not_there_is_refused(read, monkeypatch):
    monkeypatch.setenv("PRICDR_PUBLIC_KEY", "trusted.pub")
    assert read("verify", "resigned", "--public-key", "other.pub").code == 0
    for pinned, says in (("nowhere.pub", "nowhere.pub"), ("", "PRICDR_PUBLIC_KEY is set and empty")):
        monkeypatch.setenv("PRICDR_PUBLIC_KEY", pinned)  # an empty one is no way to switch the check off
        for command in COMMANDS:
            outcome = read(command, "signed")
            assert (outcome.code, outcome.err.count("\n"), says in outcome.err) == (2, 1, True)
    assert read("verify", "signed", "--public-key", "trusted.pub").code == 0


def test_a_pinned_key_and_no_verification_exclude_each_other(read, monkeypatch):
    for pinned in (("--public-key", "trusted.pub"), ()):
        outcome = read("train", "unsigned", "--allow-unverified", *pinned)
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert "--allow-unverified" in outcome.err
        assert "PRICDR_PUBLIC_KEY" in outcome.err
        monkeypatch.setenv("PRICDR_PUBLIC_KEY", "trusted.pub")


@pytest.mark.parametrize(
    ("name", "key", "says"),
    [
        ("ridge", "source.key.pub", ""),
        ("popularity", "source.key.pub", ""),
        ("ridge", "trusted.pub", "signed with a key other than"),
        ("linear", "source.key.pub", "was not signed, or that was not verified"),
        ("unverified", "source.key.pub", "was not signed, or that was not verified"),
    ],
)
def test_a_pinned_key_is_asked_of_models_too(target, releases, pricdr, monkeypatch, name, key, says):
    pinned = target / key if (target / key).exists() else releases / key
    evaluate = ("evaluate", target / name, target / "split", "--public-key", pinned)
    for command in (evaluate, ("recommend", target / name, "--out", "r.csv")):
        outcome, refused = pricdr(*command), int(says != "")
        assert (outcome.code, outcome.err.count("\n"), says in outcome.err) == (refused, refused, True)
        monkeypatch.setenv("PRICDR_PUBLIC_KEY", str(pinned))


def test_a_ledger_that_the_pinned_key_did_not_sign_is_not_verified(pricdr, releases):
    for key, code in (("trusted.pub", 0), ("other.pub", 1)):
        assert pricdr("ledger", "verify", "budget.jsonl", "--public-key", key).code == code
    lines = (releases / "budget.jsonl").read_bytes().splitlines(keepends=True)
    (releases / "budget.jsonl").write_bytes(b"".join(lines[:-1]))
    assert pricdr("ledger", "verify", "budget.jsonl", "signed").code == 0
    outcome = pricdr("ledger", "verify", "budget.jsonl", "signed", "--public-key", "trusted.pub")
    assert (outcome.code, "not signed, so trusted.pub vouches for none of it" in outcome.err) == (1, True)


def test_repair_heeds_the_key(pricdr, releases):
    whole = b"".join((releases / "budget.jsonl").read_bytes().splitlines(keepends=True)[:-1])  # not the signature
    (releases / "budget.jsonl").write_bytes(whole[:-30])
    repair = ("ledger", "repair", "budget.jsonl")
    assert pricdr(*repair, "unsigned", "--public-key", "trusted.pub").code == 1
    assert (releases / "budget.jsonl").read_bytes() == whole[:-30]
    assert pricdr(*repair, "signed", "--public-key", "trusted.pub").code == 0
    assert (releases / "budget.jsonl").read_bytes() == whole
