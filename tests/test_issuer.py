"""Who issued a release and when: a claim of the source, bounded, quoted, and never read off the ratings."""

import pytest

from pricdr import Guarantee, Ledger, Ratings, publish, verify
from pricdr.errors import ParameterError
from pricdr.release.readme import readme
from pricdr.strategies import JLT

PROMISE = Guarantee(epsilon=4, delta=1e-6)
RATINGS = Ratings.from_triples(["a", "b", "b"], ["x", "x", "y"])
HOSTILE = ["", " ", "x" * 201, "a\nb", "\x1b[2J", "\u202egnp.exe", "a\u2028b", " a", "a ", "\ud800", "\x00"]


def published(**options):
    return publish(RATINGS, PROMISE, strategy=JLT(dim=2), users=["a", "b"], **options)


def test_what_was_declared_is_in_the_certificate_and_in_the_readme(tmp_path, monkeypatch):
    monkeypatch.setattr("pricdr._publish.today", lambda: "2026-02-03")
    folder = published(issuer="Films & Co. (é)").save(tmp_path / "r")
    certificate = verify(folder).certificate
    assert (certificate.issuer, certificate.issued) == ("Films & Co. (é)", "2026-02-03")
    text = (folder / "README.md").read_text()
    assert 'issuer: "`Films & Co. (é)`"; day of issue: 2026-02-03 (UTC)' in text
    assert "What vouches for them is a signature" in text
    nobody = published().certificate
    assert (nobody.issuer, nobody.issued) == (None, "2026-02-03")
    assert "no issuer is named" in readme(nobody)


def test_an_issuer_is_one_short_printable_line(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.jsonl", Guarantee(epsilon=8, delta=1e-6))
    for issuer in HOSTILE:
        with pytest.raises(ParameterError, match="issuer must be 1 to 200 printable characters"):
            published(issuer=issuer, ledger=ledger)
    assert not ledger.read().spends, "refused before anything was paid"


def test_markup_in_a_name_stays_inside_its_quotation():
    text = readme(published(issuer='x`"** [a](http://e.org) <img src=x> "').certificate)
    assert "\"`x''** [a](http://e.org) <img src=x> '`\"" in text
    assert text.count("http://") == 1


def test_the_day_is_taken_before_any_work(monkeypatch):
    """How long publishing takes may depend on the ratings: the clock is read first, and once."""
    order = []
    monkeypatch.setattr("pricdr._publish.today", lambda: order.append("clock") or "2026-02-03")
    select = Ratings.select
    monkeypatch.setattr(Ratings, "select", lambda *given, **named: order.append("work") or select(*given, **named))
    published()
    assert order[0] == "clock"
    assert order.count("clock") == 1
