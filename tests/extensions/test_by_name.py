"""``publish(strategy="jlt")`` and ``transfer(method="hetero")``: by name, or one line that says what it takes."""

import pytest

from pricdr import Guarantee, Ledger, Ratings, publish, transfer
from pricdr.errors import ParameterError
from pricdr.models.catalogue import METHODS
from pricdr.privacy.strategies import BY_NAME
from pricdr.strategies import JLT, SJLT, Projection

PROMISE = Guarantee(epsilon=4, delta=1e-6)
SOURCE = Ratings.from_triples(["a", "b", "b"], ["x", "y", "z"])


def test_a_strategy_that_needs_nothing_is_published_by_name():
    by_name, by_hand = (
        publish(SOURCE, PROMISE, strategy=strategy, users=["a", "b"], insecure_seed=1) for strategy in ("sjlt", SJLT())
    )
    assert by_name.certificate == by_hand.certificate
    assert (by_name.matrix == by_hand.matrix).all()


@pytest.mark.parametrize(
    ("strategy", "says"),
    [
        ("guided", r"^strategy guided takes dim, .*guide \(needed\), refine, .*such as strategy=Guided\(guide=…\)$"),
        ("features", r"^strategy features takes dim, features \(needed\): .*strategy=Features\(features=…\)$"),
        ("jtl", "^there is no strategy 'jtl': spectral, guided, continued, features, jlt, sjlt"),
        ("JLT", "^there is no strategy 'JLT'"),
        ("", "^there is no strategy ''"),
        (JLT, r"such as pricdr.strategies.JLT\(dim=200\), or its name, got the class JLT$"),
        (None, "got NoneType"),
    ],
)
def test_whatever_is_no_strategy_says_what_is(strategy, says):
    with pytest.raises(ParameterError, match=says):
        publish(SOURCE, PROMISE, strategy=strategy)


def test_a_strategy_that_leaves_its_columns_open_is_refused_before_it_is_paid_for(tmp_path, forgetting):
    class Open(Projection):
        name = "open"

        def item_rows(self, items, randomness, progress):
            raise AssertionError("nothing is computed")

    ledger = Ledger.create(tmp_path / "ledger", PROMISE)
    with pytest.raises(ParameterError, match="strategy open leaves its number of columns open"):
        publish(SOURCE, PROMISE, strategy=Open(), ledger=ledger)
    assert not ledger.read().spends


def test_a_method_is_fitted_by_name():
    assert transfer(SOURCE, method="popularity").method == "popularity"


def test_the_registries_hold_each_under_its_own_name(forgetting):
    for registry in (METHODS, BY_NAME):
        assert all(registry[name].name == name for name in registry.own)
        assert list(registry) == list(registry.own)
        assert len(registry) == len(registry.own)
