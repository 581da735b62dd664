"""The end of a ledger: the chain alone cannot show what happened to it, and a signature can."""

import json
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from pricdr import Guarantee, Ledger, Ratings, Unit, publish, verify
from pricdr.errors import LedgerError, ParameterError, VerificationError
from pricdr.privacy.ledger import BudgetLine, Spend, compact, line_hash, parse, signature_line
from pricdr.release.checks import check_ledger, lost_line
from pricdr.signing import create_keys, public_text, read_private_key
from pricdr.strategies import JLT

BUDGET = Guarantee(epsilon=8, delta=1e-6)
KEY, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32) for seed in (1, 2))


def spend(ledger, mu=0.1):
    return ledger.spend(mu=mu, dim=10, unit=Unit.RATING, strategy="jlt", promise="a promise")


def create(path, key):
    ledger = Ledger.create(path, BUDGET, key)
    for mu in (0.1, 0.2, 0.3):
        spend(ledger, mu)
    return ledger


@pytest.fixture
def ledger(tmp_path):
    return create(tmp_path / "budget.jsonl", KEY)


@pytest.fixture(scope="module", params=["signed from the start", "signed later", "not signed"])
def lines(request, tmp_path_factory):
    """The budget and three releases, then a signature or nothing."""
    how = request.param
    ledger = create(tmp_path_factory.mktemp("ledger") / "x", KEY if how == "signed from the start" else None)
    if how == "signed later":
        Ledger(ledger.path, KEY).sign()
    found = ledger.path.read_bytes().splitlines(keepends=True)
    return found if len(found) == 5 else [*found, b""]


def resealed(line, changes):
    """A line whose own hash was computed again, as a careful forger does."""
    content = {**json.loads(line), **changes}
    kind = BudgetLine if "pricdr_ledger" in content else Spend
    return compact({**content, "hash": line_hash(kind.model_validate(content))}) + b"\n"


def vouched(content):
    """Whether the ledger is one that the holder of the key wrote."""
    try:
        return parse(content, "x").signed_by == public_text(KEY.public_key())
    except LedgerError:
        return False


def chained(content):
    """Whether the chain holds, whatever else."""
    try:
        parse(content, "x", trusted=True)
    except LedgerError:
        return False
    return True


EDITS = st.fixed_dictionaries(
    {},
    optional={
        "mu": st.floats(1e-9, 0.29),
        "dim": st.integers(11, 99),
        "strategy": st.just("sjlt"),
        "recorded": st.just("never"),
    },
).filter(bool)


@st.composite
def endings(draw):
    """What somebody without the key makes of the lines: another end that the chain accepts, under any signature."""
    cut, edit = draw(st.integers(0, 3)), draw(EDITS | st.none())
    if not cut and not edit:
        cut = 1
    return cut, edit, draw(st.sampled_from(["kept", "dropped", "by another key"]))


@given(ending=endings())
@settings(max_examples=300, deadline=None)
def test_another_end_passes_the_chain_and_no_signature(lines, ending):
    """Edited with its hash recomputed, or cut: the chain alone accepts both, as the threat model says."""
    cut, edit, how = ending
    kept = lines[: 4 - cut]
    if edit and len(kept) > 1:
        kept[-1] = resealed(kept[-1], edit)
    elif not cut:
        return
    forged = b"".join(kept)
    assert chained(forged)
    assert not vouched(
        forged + {"kept": lines[4], "dropped": b"", "by another key": signature_line(forged, OTHER)}[how]
    )
    assert vouched(b"".join(lines)) == bool(lines[4])


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_no_byte_of_a_signed_ledger_is_changed_dropped_or_added_unnoticed(lines, data):
    content = b"".join(lines[:4]) + (lines[4] or signature_line(b"".join(lines[:4]), KEY))
    at = data.draw(st.integers(0, len(content) - 2))
    drop, add = data.draw(st.integers(0, 2)), data.draw(st.binary(max_size=2))
    changed = content[:at] + add + content[at + drop :]
    assert vouched(changed) == (changed.removesuffix(b"\n") == content.removesuffix(b"\n"))


def test_a_ledger_that_began_with_a_signature_is_not_read_without_one(ledger):
    whole = ledger.path.read_bytes()
    for keep in (1, 2, 4):
        ledger.path.write_bytes(b"".join(whole.splitlines(keepends=True)[:keep]))
        for use in (ledger.read, lambda: spend(ledger), lambda: ledger.require_spendable(Unit.RATING)):
            with pytest.raises(LedgerError, match=rf"line {keep + 1} is missing.*do not begin a new ledger"):
                use()


def test_a_signed_ledger_is_spent_from_with_its_key_alone(ledger):
    before = ledger.path.read_bytes()
    for key, says in ((None, "is signed: give the key"), (OTHER, "signed by another key")):
        stranger = Ledger(ledger.path, key)
        assert stranger.read() == ledger.read()
        cost = {"mu": 0.1, "dim": 1, "unit": Unit.RATING, "strategy": "jlt"}
        for use in (stranger.spend, stranger.after):
            with pytest.raises(ParameterError, match=says):
                use(**cost)
        with pytest.raises(ParameterError, match=says):
            stranger.require_spendable(Unit.RATING)
    assert ledger.path.read_bytes() == before
    assert spend(ledger) == ledger.read() == Ledger(ledger.path).read()


def test_a_key_is_changed_by_whoever_has_the_new_one_and_no_spend_is_lost(ledger):
    before = ledger.read()
    assert Ledger(ledger.path, OTHER).sign().spends == before.spends
    assert Ledger(ledger.path).read().signed_by == public_text(OTHER.public_key())
    with pytest.raises(ParameterError, match="another key"):
        spend(ledger)
    assert len(spend(Ledger(ledger.path, OTHER)).spends) == 4


def test_a_key_that_is_given_must_have_signed(tmp_path, ledger):
    _, own = create_keys(tmp_path / "own")
    signer = read_private_key(tmp_path / "own")
    for other in (ledger, create(tmp_path / "unsigned", None)):
        assert check_ledger(other)
        with pytest.raises(VerificationError, match="vouches for none of it"):
            check_ledger(other, public_key=own)
        Ledger(other.path, signer).sign()
        assert check_ledger(other, public_key=own)


def test_a_line_that_was_cut_off_is_repaired_and_signed_again(tmp_path):
    ledger = Ledger.create(tmp_path / "paid", BUDGET, KEY)
    ratings = Ratings.from_triples(["a", "b"], ["x", "y"])
    promise = Guarantee(epsilon=1, delta=1e-6)
    folders = [
        publish(ratings, promise, strategy=JLT(dim=4), users=["a", "b"], ledger=ledger).save(tmp_path / name)
        for name in ("one", "two")
    ]
    whole = ledger.path.read_bytes()
    first, second, third, _ = whole.splitlines(keepends=True)
    ledger.path.write_bytes(first + second + third[:50])
    with pytest.raises(LedgerError, match="repair"):
        ledger.read()
    assert len(ledger.rebuild(lost_line(verify(folders[1]).certificate)).spends) == 2
    with pytest.raises(LedgerError, match="is missing"):
        ledger.read()
    ledger.sign()
    assert ledger.path.read_bytes() == whole
    for torn in (len(whole) - 40, len(whole) - 150):
        ledger.path.write_bytes(whole[:torn])
        with pytest.raises(LedgerError, match=r"cut off, or is not JSON.*ledger sign"):
            ledger.read()
        ledger.sign()
        assert ledger.path.read_bytes() == whole


KILLED = """
import json, os, sys
from pricdr.files import replace_file
from pricdr.privacy.accounting import Unit
from pricdr.privacy.ledger import Ledger
from pricdr.signing import public_text, read_private_key

key = read_private_key("key")
ledger, seen, lines = Ledger("x", key), [], 0


def die_after(left):
    def trace(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename.endswith("pricdr/files.py"):
            left -= event == "line"
            if left < 0:
                os._exit(9)
            return trace
    return trace


while not seen or seen[-1][0] == 9:
    before = len(ledger.read().spends)
    if (child := os.fork()) == 0:
        sys.settrace(die_after(lines))
        ledger.spend(mu=0.01, dim=1, unit=Unit.RATING, strategy="jlt")
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    after = ledger.read()
    assert after.signed_by == public_text(key.public_key())
    seen.append((code, len(after.spends) - before))
    lines += 1
print(json.dumps(sorted(set(seen))))
"""


def test_wherever_a_spend_is_killed_the_next_run_goes_on_from_a_whole_signed_ledger(tmp_path):
    """Lines and signature are written in one step: there is no moment between them."""
    create_keys(tmp_path / "key")
    Ledger.create(tmp_path / "x", BUDGET, read_private_key(tmp_path / "key"))
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[0, 1], [9, 0], [9, 1]]
