"""Every line of a ledger is chained to all before it, and a signature vouches for the end, which no chain can."""

import json
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings, strategies as st

from pricdr import Guarantee, Ledger, Ratings, Unit, publish, verify
from pricdr.cli import run
from pricdr.errors import BudgetError, LedgerError, ParameterError, VerificationError
from pricdr.privacy.ledger import BudgetLine, Spend, compact, line_hash, parse, signature_line
from pricdr.release.checks import check_ledger, lost_line
from pricdr.signing import create_keys, public_text, read_private_key
from pricdr.strategies import JLT

BUDGET = Guarantee(epsilon=8, delta=1e-6)
PROMISE = Guarantee(epsilon=1, delta=1e-6)
RATINGS = Ratings.from_triples(["a", "b", "c"], ["x", "x", "y"])
KEY, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32) for seed in (1, 2))


def spend(ledger, mu=0.1):
    return ledger.spend(mu=mu, dim=10, unit=Unit.RATING, strategy="jlt", promise="a promise")


def create(path, key=None):
    ledger = Ledger.create(path, BUDGET, key)
    for mu in (0.1, 0.2, 0.3):
        spend(ledger, mu)
    return ledger


@pytest.fixture
def ledger(tmp_path):
    return create(tmp_path / "budget.jsonl")


@pytest.fixture
def signed(tmp_path):
    return create(tmp_path / "signed.jsonl", KEY)


def lines_of(ledger):
    return ledger.path.read_bytes().splitlines(keepends=True)


def assert_noticed(ledger, lines, says=""):
    before = b"".join(lines)
    ledger.path.write_bytes(before)
    for use in (ledger.read, lambda: spend(ledger)):
        with pytest.raises(LedgerError, match=says) as caught:
            use()
        assert "do not begin a new ledger" in str(caught.value)
        assert "ledger init" not in str(caught.value)
        assert "\n" not in str(caught.value)
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "old", "new", "says"),
    [
        (0, b'"epsilon":8.0', b'"epsilon":80.0', "line 1 was changed"),
        (1, b'"mu":0.1', b'"mu":0.01', "line 2 was changed"),
        (3, b'"dim":10', b'"dim":11', "line 4 was changed"),
        (3, b'"mu":0.3', b'"mu":0.3,"mu":0.3', "line 4 is not written the way"),
        (3, b'"mu":0.3', b'"mu": 0.3', "line 4 is not written the way"),
        (3, b'"mu":0.3', b'"mu":NaN', "line 4 is not valid: mu"),
        (3, b"\n", b"\r\n", "line 4 is not written the way"),
        (0, b"{", b"\xef\xbb\xbf{", "line 1 is not written the way.*newest copy"),
        (0, b"\n", b"\n\n", "line 2 is blank.*newest copy"),
        (3, b"\n", b"\n\n", "line 5 is blank.*newest copy"),
        (3, b'"}\n', b"", "line 4 is cut off, or is not JSON.*ledger repair"),
        (3, b'"}\n', b"\n", "line 4 is cut off, or is not JSON.*ledger repair"),
        (2, b'"mu":0.2', b'"mu":0.2}', "line 3 is cut off, or is not JSON.*newest copy"),
    ],
)
def test_an_edited_or_damaged_line_is_named_and_never_answered_with_a_new_ledger(ledger, line, old, new, says):
    lines = lines_of(ledger)
    assert lines[line].count(old) == 1
    lines[line] = lines[line].replace(old, new)
    assert_noticed(ledger, lines, says)


def resealed(line, **changes):
    """A line whose own hash was computed again, as a careful forger does."""
    content = {**json.loads(line), **changes}
    kind = BudgetLine if "pricdr_ledger" in content else Spend
    return compact({**content, "hash": line_hash(kind.model_validate(content))}) + b"\n"


def test_a_forger_who_recomputes_one_hash_is_caught_by_the_next_line(ledger):
    lines = lines_of(ledger)
    for at, changes in ((0, {"epsilon": 80.0}), (1, {"mu": 0.01}), (2, {"recorded": "never"})):
        forged = [*lines]
        forged[at] = resealed(lines[at], **changes)
        assert_noticed(ledger, forged, f"line {at + 2} does not follow")


def test_dropped_swapped_repeated_and_inserted_lines_are_noticed(ledger):
    header, one, two, three = lines_of(ledger)
    plain = b'{"mu":0.1,"dim":1,"strategy":"jlt","promise":"","recorded":"now"}\n'
    for lines, says in (
        ([two, three], "line 2 is release 2 where 1 is expected"),
        ([two, one, three], "line 2 is release 2"),
        ([one, one, two, three], "line 3 is release 1"),
        ([one, plain, two, three], "line 3 is not written the way"),
        ([one, resealed(three, number=2)], "line 3 does not follow"),
    ):
        assert_noticed(ledger, [header, *lines], says)


@pytest.fixture
def releases(tmp_path):
    """A ledger with three releases, and their folders."""
    ledger = Ledger.create(tmp_path / "paid.jsonl", BUDGET)
    folders = []
    for number, strategy in enumerate([JLT(dim=4), JLT(dim=5), JLT(dim=3)]):
        release = publish(RATINGS, PROMISE, strategy=strategy, users=["a", "b"], ledger=ledger)
        folders.append(release.save(tmp_path / f"{number}.release"))
    return ledger, folders


def test_a_ledger_forged_with_all_its_hashes_contradicts_a_release_that_exists(releases):
    ledger, folders = releases
    assert check_ledger(ledger, folders[1:])[1] == (1,)
    ledger.path.write_bytes(lines_of(ledger)[0])
    for _ in range(3):
        spend(ledger, 0.01)
    assert check_ledger(ledger)
    with pytest.raises(VerificationError, match="does not hold release 1"):
        check_ledger(ledger, folders)


def test_a_line_that_no_release_can_state_contradicts_the_release_that_it_records(releases, capsys):
    ledger, folders = releases
    header, line, *_ = lines_of(ledger)
    for changes in ({"nonce": ""}, {"nonce": "zz"}, {"recorded": ""}, {"recorded": "yesterday"}):
        ledger.path.write_bytes(header + resealed(line, **changes))
        assert ledger.read(), "the chain alone accepts it"
        assert run(["ledger", "verify", str(ledger.path), str(folders[0])]) == 1
        assert f"error: {ledger.path} does not hold release 1 as {folders[0]} states it" in capsys.readouterr().err


def test_one_line_pays_for_one_release(releases, tmp_path):
    ledger, folders = releases
    copy = verify(folders[0]).save(tmp_path / "copy.release")
    assert check_ledger(ledger, [folders[0], copy]), "a copy is the same release"
    twin = publish(RATINGS, PROMISE, strategy=JLT(dim=4), users=["a", "b"])
    same_line = verify(folders[0]).certificate.ledger
    twin = type(twin)(twin.matrix.copy(), twin.users, twin.certificate.model_copy(update={"ledger": same_line}))
    with pytest.raises(VerificationError, match="both claim to be release 1"):
        check_ledger(ledger, [folders[0], twin.save(tmp_path / "twin.release")])


def cut(ledger, keep):
    """Cut the last line off after ``keep`` bytes; returns the whole file."""
    whole = ledger.path.read_bytes()
    *before, last = lines_of(ledger)
    ledger.path.write_bytes(b"".join(before) + last[:keep])
    return whole


def test_a_cut_line_is_rebuilt_from_its_release_to_the_byte_and_from_no_other(releases):
    ledger, folders = releases
    lost = [lost_line(verify(folder).certificate) for folder in folders]
    for keep in (1, 30, 150, -3):
        whole = cut(ledger, keep)
        with pytest.raises(LedgerError, match="repair"):
            ledger.read()
        for other in (lost[1], lost[2].model_copy(update={"mu": 1e-3})):
            with pytest.raises(LedgerError, match="is that of release 3, and not of the one given"):
                ledger.rebuild(other)
        assert ledger.rebuild(lost[2]) == ledger.read()
        assert ledger.path.read_bytes() == whole
    with pytest.raises(LedgerError, match="does not name its line"):
        lost_line(publish(RATINGS, PROMISE, users=["a", "b"]).certificate)


def test_a_forfeit_charges_all_that_was_left_as_a_single_number(ledger):
    cut(ledger, 20)
    balance = ledger.forfeit()
    assert balance == ledger.read()
    assert balance.epsilon == pytest.approx(8, rel=1e-8)
    assert [(line.strategy, line.dim) for line in balance.spends] == [("jlt", 10), ("jlt", 10), ("forfeit", 1)]
    with pytest.raises(BudgetError):
        spend(ledger, 0.01)


def test_repair_is_for_a_cut_last_line_alone_and_a_missing_line_break_needs_none(ledger):
    lost = Spend(mu=0.1, dim=1, strategy="jlt", recorded="now", number=1, hash="0" * 64)
    whole = ledger.path.read_bytes()
    lines = lines_of(ledger)
    for content, says in (
        (whole, "needs no repair"),
        (whole.replace(b'"mu":0.3', b'"mu":0.1'), "line 4 was changed"),
        (b"".join([lines[0], lines[1][:30] + b"\n", *lines[2:]]), "line 2 is cut off"),
        (b"".join([lines[0], lines[1].replace(b"0.1", b"0.2"), lines[2][:30]]), "line 2 was changed"),
        (lines[0][:30], "line 1 is cut off"),
        (b"", "is empty"),
    ):
        ledger.path.write_bytes(content)
        for mend in (ledger.forfeit, lambda: ledger.rebuild(lost)):
            with pytest.raises(LedgerError, match=says):
                mend()
        assert ledger.path.read_bytes() == content
    ledger.path.write_bytes(whole.rstrip(b"\n"))
    spend(ledger, 0.4)
    assert [s.mu for s in ledger.read().spends] == [0.1, 0.2, 0.3, 0.4]


# The end of a ledger: the chain alone cannot show what happened to it, and a signature can.


@pytest.fixture(scope="module", params=["signed from the start", "signed later", "not signed"])
def lines(request, tmp_path_factory):
    """The budget and three releases, then a signature or nothing."""
    made = create(tmp_path_factory.mktemp("ledger") / "x", KEY if request.param == "signed from the start" else None)
    if request.param == "signed later":
        Ledger(made.path, KEY).sign()
    found = lines_of(made)
    return found if len(found) == 5 else [*found, b""]


def vouched(content):
    """Whether the ledger is one that the holder of the key wrote."""
    try:
        return parse(content, "x").signed_by == public_text(KEY.public_key())
    except LedgerError:
        return False


EDITS = st.sampled_from([{"mu": 0.29}, {"mu": 1e-9, "dim": 11}, {"strategy": "sjlt"}, {"recorded": "never"}])


@given(st.integers(0, 3), EDITS | st.none(), st.sampled_from(["kept", "dropped", "by another key"]))
@settings(max_examples=60)
def test_another_end_passes_the_chain_and_no_signature(lines, cut_off, edit, signature):
    """Edited with its hash recomputed, or cut: the chain alone accepts both, as the threat model says."""
    kept = lines[: 4 - cut_off]
    if edit and len(kept) > 1:
        kept[-1] = resealed(kept[-1], **edit)
    elif not cut_off:
        kept.pop()
    forged = b"".join(kept)
    parse(forged, "x", trusted=True)  # the chain holds
    ends = {"kept": lines[4], "dropped": b"", "by another key": signature_line(forged, OTHER)}
    assert not vouched(forged + ends[signature])
    assert vouched(b"".join(lines)) == bool(lines[4])


@given(data=st.data())
@settings(max_examples=100)
def test_no_byte_of_a_signed_ledger_is_changed_dropped_or_added_unnoticed(lines, data):
    content = b"".join(lines[:4]) + (lines[4] or signature_line(b"".join(lines[:4]), KEY))
    at = data.draw(st.integers(0, len(content) - 2))
    drop, add = data.draw(st.integers(0, 2)), data.draw(st.binary(max_size=2))
    changed = content[:at] + add + content[at + drop :]
    assert vouched(changed) == (changed.removesuffix(b"\n") == content.removesuffix(b"\n"))


def test_a_ledger_that_began_with_a_signature_is_not_read_without_one(signed):
    for keep in (4, 2, 1):
        assert_noticed(signed, lines_of(signed)[:keep], rf"line {keep + 1} is missing")
        with pytest.raises(LedgerError, match="is missing"):
            signed.require_spendable(Unit.RATING)


def test_a_signed_ledger_is_spent_from_with_its_key_alone(signed):
    before = signed.path.read_bytes()
    for key, says in ((None, "is signed: give the key"), (OTHER, "signed by another key")):
        stranger = Ledger(signed.path, key)
        assert stranger.read() == signed.read()
        cost = {"mu": 0.1, "dim": 1, "strategy": "jlt"}
        for use, more in ((stranger.spend, cost), (stranger.after, cost), (stranger.require_spendable, {})):
            with pytest.raises(ParameterError, match=says):
                use(unit=Unit.RATING, **more)
    assert signed.path.read_bytes() == before
    assert spend(signed) == signed.read() == Ledger(signed.path).read()


def test_a_key_is_changed_by_whoever_has_the_new_one_and_no_spend_is_lost(signed):
    before = signed.read()
    assert Ledger(signed.path, OTHER).sign().spends == before.spends
    assert Ledger(signed.path).read().signed_by == public_text(OTHER.public_key())
    with pytest.raises(ParameterError, match="another key"):
        spend(signed)
    assert len(spend(Ledger(signed.path, OTHER)).spends) == 4


def test_a_key_that_is_given_must_have_signed(tmp_path, ledger, signed):
    _, own = create_keys(tmp_path / "own")
    for other in (signed, ledger):
        assert check_ledger(other)
        with pytest.raises(VerificationError, match="vouches for none of it"):
            check_ledger(other, public_key=own)
        Ledger(other.path, read_private_key(tmp_path / "own")).sign()
        assert check_ledger(other, public_key=own)


def test_a_line_that_was_cut_off_is_repaired_and_signed_again(tmp_path):
    ledger = Ledger.create(tmp_path / "paid", BUDGET, KEY)
    release = publish(RATINGS, PROMISE, strategy=JLT(dim=4), users=["a", "b"], ledger=ledger)
    whole = ledger.path.read_bytes()
    first, second, _ = lines_of(ledger)
    ledger.path.write_bytes(first + second[:50])
    assert len(ledger.rebuild(lost_line(release.certificate)).spends) == 1
    with pytest.raises(LedgerError, match="is missing"):
        ledger.read()
    ledger.sign()
    assert ledger.path.read_bytes() == whole
    for torn in (40, 150):
        ledger.path.write_bytes(whole[:-torn])
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


@pytest.mark.slow
def test_wherever_a_spend_is_killed_the_next_run_goes_on_from_a_whole_signed_ledger(tmp_path):
    """Lines and signature are written in one step: there is no moment between them."""
    create_keys(tmp_path / "key")
    Ledger.create(tmp_path / "x", BUDGET, read_private_key(tmp_path / "key"))
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[0, 1], [9, 0], [9, 1]]
    assert {path.name for path in tmp_path.iterdir()} == {"key", "key.pub", "x"}, "a spend sweeps what the dead left"
