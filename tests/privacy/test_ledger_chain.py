"""Every line of a ledger is chained to all before it: what another line follows is not changed unnoticed."""

import json
import os
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricdr import Guarantee, Ledger, Ratings, Unit, publish, verify
from pricdr.errors import BudgetError, InputError, LedgerError, OutputError, VerificationError
from pricdr.privacy.ledger import BudgetLine, Spend, compact, line_hash, parse
from pricdr.release.checks import check_ledger, lost_line
from pricdr.strategies import JLT

BUDGET = Guarantee(epsilon=8, delta=1e-6)
PROMISE = Guarantee(epsilon=1, delta=1e-6)
RATINGS = Ratings.from_triples(["a", "b", "c"], ["x", "x", "y"])


def spend(ledger, mu=0.1):
    return ledger.spend(mu=mu, dim=10, unit=Unit.RATING, strategy="jlt", promise="a promise")


@pytest.fixture
def ledger(tmp_path):
    made = Ledger.create(tmp_path / "budget.jsonl", BUDGET)
    for mu in (0.1, 0.2, 0.3):
        spend(made, mu)
    return made


def lines_of(ledger):
    return ledger.path.read_bytes().splitlines(keepends=True)


def assert_noticed(ledger, lines, says=""):
    before = b"".join(lines)
    ledger.path.write_bytes(before)
    for use in (ledger.read, lambda: spend(ledger)):
        with pytest.raises(LedgerError, match=says) as caught:
            use()
        assert "do not begin a new ledger" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "old", "new", "says"),
    [
        (0, b'"epsilon":8.0', b'"epsilon":80.0', "line 1 was changed"),
        (0, b'"unit":"rating"', b'"unit":"user"', "line 1 was changed"),
        (1, b'"mu":0.1', b'"mu":0.01', "line 2 was changed"),
        (2, b'"dim":10', b'"dim":11', "line 3 was changed"),
        (3, b'"mu":0.3', b'"mu":0.03', "line 4 was changed"),
        (3, b'"mu":0.3', b'"mu":0.3,"mu":0.3', "line 4 is not written the way"),
        (3, b'"mu":0.3', b'"mu":0.30', "line 4 is not written the way"),
        (3, b'"mu":0.3', b'"mu": 0.3', "line 4 is not written the way"),
        (3, b'"mu":0.3', b'"mu":NaN', "line 4 is not valid: mu"),
        (3, b"\n", b"\r\n", "line 4 is not written the way"),
    ],
)
def test_an_edited_line_is_named(ledger, line, old, new, says):
    lines = lines_of(ledger)
    assert lines[line].count(old) == 1
    lines[line] = lines[line].replace(old, new)
    assert_noticed(ledger, lines, says)


def test_an_edit_of_an_empty_ledgers_header_is_noticed(tmp_path):
    ledger = Ledger.create(tmp_path / "x", Guarantee(epsilon=4, delta=1e-6))
    assert_noticed(ledger, [ledger.path.read_bytes().replace(b"4.0", b"8.0")], "line 1 was changed")


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
    assert_noticed(ledger, [header, two, three], "line 2 is release 2 where 1 is expected")
    assert_noticed(ledger, [header, one, three], "line 3 is release 3 where 2 is expected")
    assert_noticed(ledger, [header, two, one, three], "line 2 is release 2")
    assert_noticed(ledger, [header, one, one, two, three], "line 3 is release 1")
    plain = b'{"mu":0.1,"dim":1,"strategy":"jlt","promise":"","recorded":"now"}\n'
    assert_noticed(ledger, [header, one, plain, two, three], "line 3 is not written the way")
    assert_noticed(ledger, [header, plain], "line 2 is not written the way")
    assert_noticed(ledger, [header, one, resealed(three, number=2)], "line 3 does not follow")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_is_noticed(ledger, data):
    content = ledger.path.read_bytes()
    at = data.draw(st.integers(0, len(content) - 2))
    to = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[at]))
    with pytest.raises(LedgerError):
        parse(content[:at] + bytes([to]) + content[at + 1 :], "x")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda raw: b"\xef\xbb\xbf" + raw, "line 1 begins with a byte order mark.*newest copy"),
        (lambda raw: raw.replace(b"\n", b"\n\n", 1), "line 2 is blank.*newest copy"),
        (lambda raw: raw + b"\n", "line 5 is blank.*newest copy"),
        (lambda raw: raw[:-40], "line 4 is cut off, or is not JSON.*ledger repair"),
        (lambda raw: raw[:-40] + b"\n", "line 4 is cut off, or is not JSON.*ledger repair"),
        (lambda raw: raw.replace(b'"mu":0.2', b'"mu":0.2}', 1), "line 3 is cut off, or is not JSON.*newest copy"),
    ],
)
def test_damage_is_named_by_its_line_and_never_answered_with_a_new_ledger(ledger, damage, says):
    assert_noticed(ledger, [damage(ledger.path.read_bytes())], says)
    with pytest.raises(LedgerError) as caught:
        ledger.read()
    assert "ledger init" not in str(caught.value)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o660])
def test_a_spend_keeps_the_mode(ledger, mode):
    ledger.path.chmod(mode)
    spend(ledger)
    assert stat.S_IMODE(ledger.path.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_spend_keeps_owner_and_group(ledger):
    os.chown(ledger.path, 12345, 23456)
    ledger.path.chmod(0o660)
    spend(ledger)
    status = ledger.path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 23456, 0o660)


def test_where_the_owner_cannot_be_kept_nothing_is_spent(ledger, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.chown", refuse)
    before = ledger.path.read_bytes()
    real = os.fstat

    def foreign(descriptor):
        fields = list(real(descriptor))
        fields[4] += 1
        return os.stat_result(fields)

    monkeypatch.setattr("pricdr.privacy.ledger.os.path.samestat", lambda *_: True)
    monkeypatch.setattr("pricdr.privacy.ledger.os.fstat", foreign)
    with pytest.raises(OutputError, match="not permitted"):
        spend(ledger)
    assert ledger.path.read_bytes() == before


def test_a_read_only_ledger_is_not_spent_from_whoever_asks(ledger):
    ledger.path.chmod(0o444)
    before = ledger.path.read_bytes()
    with pytest.raises(InputError, match="read-only"):
        spend(ledger)
    assert ledger.path.read_bytes() == before
    assert ledger.read()


@pytest.fixture
def releases(tmp_path):
    """A ledger with three releases, and their folders."""
    ledger = Ledger.create(tmp_path / "paid.jsonl", BUDGET)
    folders = []
    for number, strategy in enumerate([JLT(dim=4), JLT(dim=5), JLT(dim=3)]):
        release = publish(RATINGS, PROMISE, strategy=strategy, users=["a", "b"], ledger=ledger)
        folders.append(release.save(tmp_path / f"{number}.release"))
    return ledger, folders


def test_a_ledger_holds_the_releases_it_paid_for(releases):
    ledger, folders = releases
    checked = check_ledger(ledger, folders)
    assert (len(checked.balance.spends), checked.not_presented) == (3, ())
    assert check_ledger(ledger, folders[1:]).not_presented == (1,)
    assert check_ledger(ledger, reversed(folders))
    content = json.loads((folders[1] / "certificate.json").read_bytes())["ledger"]
    line = ledger.read().spends[1]
    assert (content["releases"], content["head"], content["recorded"]) == (2, line.hash, line.recorded)


def test_a_ledger_rolled_back_contradicts_a_release_that_exists(releases):
    ledger, folders = releases
    backup = b"".join(lines_of(ledger)[:2])
    ledger.path.write_bytes(backup)
    assert check_ledger(ledger, folders[:1])
    with pytest.raises(VerificationError, match=r"does not hold release 3 as .*2\.release states it: .* rolled back"):
        check_ledger(ledger, folders[2:])
    publish(RATINGS, PROMISE, strategy=JLT(dim=4), users=["a", "b"], ledger=ledger)
    with pytest.raises(VerificationError, match="does not hold release 2"):
        check_ledger(ledger, folders)


def test_a_ledger_forged_with_all_its_hashes_contradicts_its_releases(releases):
    ledger, folders = releases
    header, *_ = lines_of(ledger)
    ledger.path.write_bytes(header)
    for _ in range(3):
        spend(ledger, 0.01)
    assert check_ledger(ledger)
    with pytest.raises(VerificationError, match="does not hold release 1"):
        check_ledger(ledger, folders)


def test_an_edited_ledger_fails_its_check(releases):
    ledger, _ = releases
    ledger.path.write_bytes(ledger.path.read_bytes().replace(b'"epsilon":8.0', b'"epsilon":9.0'))
    with pytest.raises(VerificationError, match="line 1 was changed"):
        check_ledger(ledger)


def test_releases_of_other_ledgers_and_of_none_are_told_apart(releases, tmp_path):
    ledger, _ = releases
    other = Ledger.create(tmp_path / "other.jsonl", Guarantee(epsilon=7, delta=1e-6))
    elsewhere = publish(RATINGS, PROMISE, users=["a", "b"], ledger=other).save(tmp_path / "other.release")
    nowhere = publish(RATINGS, PROMISE, users=["a", "b"]).save(tmp_path / "none.release")
    with pytest.raises(VerificationError, match=r"other\.release was made with a ledger other than"):
        check_ledger(ledger, [elsewhere])
    with pytest.raises(VerificationError, match=r"none\.release was made without a ledger"):
        check_ledger(ledger, [nowhere])


def test_one_line_pays_for_one_release(releases, tmp_path):
    ledger, folders = releases
    copy = tmp_path / "copy.release"
    copy.mkdir()
    for file in folders[0].iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
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


@pytest.mark.parametrize("keep", [1, 30, 150, -3])
@pytest.mark.parametrize("number", [2, 3])
def test_a_cut_line_is_rebuilt_from_its_release_to_the_byte(releases, number, keep):
    ledger, folders = releases
    ledger.path.write_bytes(b"".join(lines_of(ledger)[: number + 1]))
    whole = cut(ledger, keep)
    with pytest.raises(LedgerError, match="repair"):
        ledger.read()
    balance = ledger.rebuild(lost_line(verify(folders[number - 1]).certificate))
    assert ledger.path.read_bytes() == whole
    assert balance == ledger.read()


def test_a_cut_line_is_not_rebuilt_from_another_release(releases, tmp_path):
    ledger, folders = releases
    cut(ledger, 40)
    before = ledger.path.read_bytes()
    for folder in folders[:2]:
        with pytest.raises(LedgerError, match="is that of release 3, and not of the one given"):
            ledger.rebuild(lost_line(verify(folder).certificate))
    cheaper = lost_line(verify(folders[2]).certificate).model_copy(update={"mu": 1e-3})
    with pytest.raises(LedgerError, match="not of the one given"):
        ledger.rebuild(cheaper)
    unpaid = publish(RATINGS, PROMISE, users=["a", "b"]).certificate
    with pytest.raises(LedgerError, match="does not name its line"):
        ledger.rebuild(lost_line(unpaid))
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize("last", [0.3, 1.0])
def test_a_forfeit_charges_all_that_was_left(tmp_path, last):
    ledger = Ledger.create(tmp_path / "x", BUDGET)
    for mu in (0.1, last):
        spend(ledger, mu)
    cut(ledger, 20)
    balance = ledger.forfeit()
    assert balance == ledger.read()
    assert balance.epsilon == pytest.approx(8, rel=1e-8)
    assert [line.strategy for line in balance.spends] == ["jlt", "forfeit"]
    with pytest.raises(BudgetError):
        spend(ledger, 0.01)


def test_repair_is_for_a_cut_last_line_alone(ledger):
    lost = Spend(mu=0.1, dim=1, strategy="jlt", recorded="now", number=1, hash="0" * 64)
    whole = ledger.path.read_bytes()
    lines = lines_of(ledger)
    cases = [
        (whole, "needs no repair"),
        (whole.replace(b'"mu":0.3', b'"mu":0.1'), "line 4 was changed"),
        (b"".join([lines[0], lines[1][:30] + b"\n", *lines[2:]]), "line 2 is cut off"),
        (b"".join([lines[0], lines[1].replace(b"0.1", b"0.2"), lines[2][:30]]), "line 2 was changed"),
        (lines[0][:30], "line 1 is cut off"),
        (b"", "is empty"),
    ]
    for content, says in cases:
        ledger.path.write_bytes(content)
        for mend in (ledger.forfeit, lambda: ledger.rebuild(lost)):
            with pytest.raises(LedgerError, match=says):
                mend()
        assert ledger.path.read_bytes() == content
