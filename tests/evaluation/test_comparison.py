import json
import weakref
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pytest

import pricdr
from pricdr.data.ids import Ids
from pricdr.data.splits import hold_out
from pricdr.errors import InputError, ParameterError
from pricdr.evaluation.metrics import NAMES, of_lists, per_user
from pricdr.evaluation.ranking import ranks
from pricdr.evaluation.verdict import compare, standard_error
from pricdr.models import EASE

METRICS = [f"{measure}@{k}" for k in (5, 10) for measure in ("HR", "NDCG", "MRR", "Recall", "MAP")]
ITEMS = tuple(f"i{n:03d}" for n in range(260))


@dataclass(eq=False)
class TableModel:
    """Scores written out in a table."""

    users: Ids
    items: Ids
    table: np.ndarray

    def score(self, users):
        return self.table[users]

    def score_candidates(self, users, candidates):
        return np.take_along_axis(self.table[users], candidates, axis=1)


def _ratings(seed=0, users=80, fewest=2, most=20):
    rng = np.random.default_rng(seed)
    pairs = [
        (f"u{u:02d}", i) for u in range(users) for i in rng.choice(ITEMS, rng.integers(fewest, most), replace=False)
    ]
    return pricdr.Ratings.from_triples(*zip(*pairs, strict=True)).select(items=ITEMS)


def _split(cold=0.25):
    return hold_out(_ratings(), seed=1, cold=cold)


def _model(split, seed, *, skill=0.0):
    """Random scores, with some skill: so much is added to the score of what is held out."""
    table = np.random.default_rng(seed).random((len(split.train.users), len(split.train.items)))
    table[split.test.users, split.test.items] += skill
    return TableModel(split.train.users, split.train.items, table)


@pytest.fixture(scope="module")
def split():
    return _split()


@pytest.fixture(scope="module")
def models(split):
    return {"guess": _model(split, 1), "good": _model(split, 2, skill=0.6), "other guess": _model(split, 3)}


def test_figures_are_means_over_the_users_of_each_stratum(split, models):
    frame = pricdr.evaluate(models, split).to_frame()
    assert frame.columns == ["model", "ranking", "stratum", "metric", "value", "standard_error", "users"]
    expected = set()
    for model, scored in models.items():
        measured = ranks(scored.score, split.test, split.train.matrix)
        for ranking, places in zip(("sampled", "full"), measured, strict=True):
            for metric, values in of_lists(places, np.arange(len(places))).items():
                for stratum, keep in split.strata().items():
                    own = values[keep]
                    expected.add((model, ranking, stratum, metric, own.mean(), standard_error(own), keep.sum()))
    assert set(frame.rows()) == expected
    assert frame.height == len(expected) == 3 * 2 * 4 * len(METRICS)


def test_of_pairs_one_model_at_a_time_is_held(split, models):
    """Several large ones may not fit into memory together."""
    held = weakref.WeakSet()

    def read():
        for name, model in models.items():
            assert not held
            own = replace(model)
            held.add(own)
            yield name, own
            del own

    by_pairs = pricdr.evaluate(read(), split, ranking="sampled")
    assert by_pairs.to_dict() == pricdr.evaluate(models, split, ranking="sampled").to_dict()


def test_every_further_model_is_compared_with_the_first(split, models):
    comparison = pricdr.evaluate(models, split)
    assert comparison.models == ("guess", "good", "other guess")
    assert len(comparison.differences) == 2 * 2 * 4
    values = {name: comparison.values[name]["full"]["NDCG@10"] for name in models}
    for one in comparison.differences:
        assert one.baseline == "guess"
        if one.ranking == "full":
            keep = split.strata()[one.stratum]
            assert one.difference == compare(values[one.model][keep], values["guess"][keep])
    better = {one.model: one.difference for one in comparison.differences if one.stratum == "all"}
    assert better["good"].low > 0.1
    assert better["good"].p_value < 0.001
    assert better["other guess"].p_value > 0.001


def test_printing_shows_every_table_and_comparison(split, models):
    """The whole text of one comparison, its figures taken from elsewhere."""
    comparison = pricdr.evaluate({name: models[name] for name in ("guess", "good")}, split, ranking="sampled")
    frame, differences = comparison.to_frame(), comparison.differences
    expected = ["sampled ranking (99 stored negatives)", "sampled ranking", " ".join(["model kind users", *NAMES])]
    for model in ("guess", "good"):
        for stratum in ("all", "warm", "few", "cold"):
            shown = pl.col("metric").is_in(NAMES)
            own = frame.filter((pl.col("model") == model) & (pl.col("stratum") == stratum) & shown)
            cells = [f"{v:.4f} ± {e:.4f}" for v, e in own.select("value", "standard_error").iter_rows()]
            expected.append(" ".join([model, stratum, str(own["users"][0]), *cells]))
    expected += ["sampled ranking, difference from guess", "model kind NDCG@10 95 % interval p-value"]
    for one in differences:
        d = one.difference
        expected.append(f"good {one.stratum} {d.mean:+.4f} [{d.low:+.4f}, {d.high:+.4f}] {d.p_value:.4f}")
    expected.append("one test item per user: Recall is HR, and MAP is MRR")
    expected.append("good against guess, sampled ranking: does it help?")
    for kind, one in zip(("warm users", "users with few ratings", "cold users"), differences[1:], strict=True):
        d = one.difference
        assert (d.low > 0) == (d.p_value <= 0.05)
        words = "good helps over guess" if d.low > 0 else "it cannot be told whether good helps over guess"
        interval = f"95 % interval {d.low:+.4f} to {d.high:+.4f}"
        expected.append(f"{kind}: {words} (NDCG@10 {d.mean:+.4f}, {interval})")
    assert [" ".join(line.split()) for line in str(comparison).split("\n")] == expected
    assert len({len(line) for line in str(comparison).split("\n")[2:11]}) == 1  # columns are aligned
    assert repr(comparison) == str(comparison)


def test_a_name_cannot_begin_a_line_of_its_own(split, models):
    text = str(pricdr.evaluate({"x\nfull ranking": models["guess"]}, split, ranking="sampled"))
    assert "x\\u000afull ranking" in text
    assert not any(line.startswith("full") for line in text.split("\n"))


def test_the_dictionary_holds_everything_that_is_shown(split, models):
    comparison = pricdr.evaluate(models, split)
    content = comparison.to_dict()
    assert content["schema_version"] == 3
    assert (content["users"], content["test_items"], content["cutoffs"]) == (len(split.test), len(split.test), [5, 10])
    assert (content["rankings"], content["compared_by"]) == (["sampled", "full"], "NDCG@10")
    frame = comparison.to_frame()
    for model, ranking, stratum, metric, value, error, users in frame.iter_rows():
        figures = content["models"][model][ranking][stratum]
        assert (figures[metric], figures["standard_error"][metric], figures["users"]) == (value, error, users)
    for one, written in zip(comparison.differences, content["differences"], strict=True):
        assert written == {
            **{"model": one.model, "baseline": one.baseline, "ranking": one.ranking, "stratum": one.stratum},
            **{"metric": "NDCG@10", "confidence": 0.95, "mean": one.difference.mean, "low": one.difference.low},
            **{"high": one.difference.high, "p_value": one.difference.p_value},
        }
    json.dumps(content, allow_nan=False)


def test_figures_also_stand_where_version_one_had_them(split, models):
    one, several = (pricdr.evaluate(given, split).to_dict() for given in ({"good": models["good"]}, models))
    assert one["full"] == one["models"]["good"]["full"]
    assert several["good"] == one["models"]["good"]
    assert list(one["full"]["few"]) == [*METRICS, "users", "standard_error"]
    assert one["differences"] == []
    clash = pricdr.evaluate({"users": models["good"], "b": models["guess"]}, split).to_dict()
    assert (clash["users"], clash["models"]["users"]) == (len(split.test), several["good"])


def test_values_per_user_average_to_the_figures(split, models):
    comparison = pricdr.evaluate(models, split)
    frame = comparison.per_user()
    assert frame.columns == ["user", "cold", *METRICS, "model", "ranking"]
    means = frame.group_by("model", "ranking", "cold").agg(pl.col("HR@5").mean(), pl.len())
    for model, ranking, cold, value, users in means.iter_rows():
        figures = comparison.to_dict()[model][ranking]["cold" if cold else "warm"]
        assert figures["HR@5"] == pytest.approx(value)
        assert figures["users"] == users
    assert set(frame["user"]) == {split.train.users[at] for at in split.test.users}


def test_a_stratum_without_users_has_no_figures():
    split = _split(cold=0.0)
    comparison = pricdr.evaluate({"a": _model(split, 1), "b": _model(split, 2)}, split, ranking="sampled")
    empty = comparison.to_frame().filter(pl.col("stratum") == "cold")
    assert empty["users"].to_list() == [0] * 20
    assert empty["value"].null_count() == empty["standard_error"].null_count() == 20
    nothing = {**dict.fromkeys(METRICS, 0.0), "users": 0, "standard_error": dict.fromkeys(METRICS)}
    assert comparison.to_dict()["a"]["sampled"]["cold"] == nothing
    assert {one.stratum for one in comparison.differences} == {"all", "warm", "few"}
    assert ["a", "cold", "0", *["–"] * 6] in [line.split() for line in str(comparison).split("\n")]


def test_one_ranking_alone_gives_the_same_figures(split, models):
    both = pricdr.evaluate(models, split).to_dict()["models"]
    for ranking in ("sampled", "full"):
        alone = pricdr.evaluate(models, split, ranking=ranking).to_dict()["models"]
        assert alone == {model: {ranking: figures[ranking]} for model, figures in both.items()}


def test_what_cannot_be_compared_is_refused(split, models):
    with pytest.raises(ParameterError, match="at least one model"):
        pricdr.evaluate({}, split)
    with pytest.raises(ParameterError, match="both, sampled or full, got 'half'"):
        pricdr.evaluate(models, split, ranking="half")
    for part in ("users", "items"):
        stranger = _model(split, 1)
        setattr(stranger, part, getattr(stranger, part)[::-1])
        with pytest.raises(InputError, match=r"^stranger has other users or items than the split$"):
            pricdr.evaluate({"guess": models["guess"], "stranger": stranger}, split)


def test_models_of_this_package_can_be_evaluated_and_one_that_has_seen_what_is_held_out_is_refused():
    """Nobody would notice the leak in the figures, only wonder at them."""
    split = pricdr.split(_ratings(), cold=0.2, seed=3)
    model = pricdr.transfer(split.train, method=EASE())
    figures = pricdr.evaluate({"ease": model}, split).to_dict()
    for ranking, places in zip(("sampled", "full"), ranks(model.score, split.test, split.train.matrix), strict=True):
        assert figures[ranking]["all"]["NDCG@10"] == per_user(places)["NDCG@10"].mean()
    whole = pricdr.transfer(_ratings().positives().rated(), method=EASE())
    with pytest.raises(InputError, match=r"whole was not trained on this split: .*has seen ratings that are held out"):
        pricdr.evaluate({"whole": whole}, split)
