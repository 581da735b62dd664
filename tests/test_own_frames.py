"""Data frames go in wherever ratings do, and recommendations come out as frames."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from pricdr import Guarantee, Ratings, prepare, publish, split, transfer
from pricdr.errors import InputError
from pricdr.models import EASE, Popularity, RidgeRelease
from pricdr.models.fitted import Basis
from pricdr.models.training_data import unshared_ids

RNG = np.random.default_rng(5)
PAIRS = sorted({(int(u), int(i)) for u, i in zip(RNG.integers(0, 40, 900), RNG.integers(0, 260, 900), strict=True)})
FRAME = pl.DataFrame(PAIRS, schema={"user_id": pl.Int64, "item_id": pl.Int64}, orient="row")
RATINGS = Ratings.of(FRAME)
KINDS = {
    "polars": FRAME,
    "lazy": FRAME.lazy(),
    "pandas": FRAME.to_pandas(),
    "arrow": FRAME.to_arrow(),
}


@pytest.fixture(params=KINDS)
def given(request):
    return KINDS[request.param]


def test_everything_takes_frames_and_columns_of_ids(given):
    assert Ratings.of(given).fingerprint() == RATINGS.fingerprint()
    promise, users = Guarantee(epsilon=4, delta=1e-6), np.arange(40)
    release = publish(given, promise, users=users, insecure_seed=1)
    again = publish(RATINGS, promise, users=[str(user) for user in users], insecure_seed=1)
    assert release.users == again.users == tuple(map(str, range(40)))
    assert np.array_equal(release.matrix, again.matrix)
    assert split(given, seed=3).train.fingerprint() == split(RATINGS, seed=3).train.fingerprint()
    pairs = [prepare(ratings, ratings, threshold=None, core=2) for ratings in (given, RATINGS)]
    assert pairs[0].fingerprint() == pairs[1].fingerprint()
    model = EASE().fit(given)
    assert model.origin.trained_on == RATINGS.fingerprint()
    assert transfer(given, method=Popularity()).users == RATINGS.users
    seen = {r.item for r in model.recommend(["new"], k=260, seen=Ratings.of(given).select(users=("3",)))}
    newcomer = pd.DataFrame({"user": ["new"] * 3, "item": [1, 2, 3]})
    assert {r.item for r in model.recommend(["new"], k=260, seen=newcomer)} == seen - {"1", "2", "3"}


TIMED = FRAME.with_columns(when=pl.Series(RNG.permutation(len(FRAME)))).sample(fraction=1, shuffle=True, seed=1)
STARRED = TIMED.with_columns(rating=pl.Series(RNG.integers(1, 6, len(FRAME))))
TIMED_KINDS = {
    "polars": STARRED,
    "lazy": STARRED.lazy(),
    "pandas": STARRED.to_pandas(),
    "arrow": STARRED.to_arrow(),
    "dates": STARRED.with_columns(pl.from_epoch("when", time_unit="d")),
}


@pytest.mark.parametrize("kind", TIMED_KINDS)
@pytest.mark.parametrize("threshold", [None, 2])
def test_a_frame_is_split_by_its_time_column_whatever_the_order_of_its_rows(kind, threshold):
    parts = split(TIMED_KINDS[kind], times="when", threshold=threshold)
    counted = STARRED.filter(pl.col("rating") >= (threshold or 0)).sort("when").group_by("user_id").last()
    latest = dict(counted.select(pl.col("user_id", "item_id").cast(pl.String)).iter_rows())
    train = parts.train
    held_out = {train.users[u]: train.items[i] for u, i in zip(parts.test.users, parts.test.items, strict=True)}
    assert len(held_out) > 30
    assert held_out == {user: latest[user] for user in held_out}


def test_times_that_could_belong_to_other_rows_are_refused():
    with pytest.raises(InputError, match="times must be the name of a column"):
        split(TIMED, times=TIMED["when"])
    with pytest.raises(InputError, match="names a column of a data frame"):
        split(RATINGS, times="when")
    with pytest.raises(InputError, match="then"):
        split(TIMED, times="then")
    late = TIMED.with_columns(when=pl.when(pl.col("when") > 3).then("when"))
    with pytest.raises(InputError, match="the time None is not a time"):
        split(late, times="when")


@pytest.mark.parametrize("bad", ["ratings.csv", None, [("a", "x")], 7])
def test_what_is_neither_ratings_nor_a_frame_is_refused(bad):
    with pytest.raises(InputError, match="must be Ratings or a data frame"):
        split(bad)
    with pytest.raises(InputError, match="must be Ratings or a data frame"):
        publish(bad, Guarantee(epsilon=1, delta=1e-6))


def test_a_lazy_frame_computes_what_is_read_and_its_errors_are_one_line():
    lazy = FRAME.lazy().with_columns((pl.col("user_id") // 0).cast(pl.Int8).alias("unread"))
    assert Ratings.of(lazy).users == RATINGS.users
    broken = FRAME.lazy().with_columns(pl.col("item_id").cast(pl.String).str.to_date("%Y", strict=True))
    with pytest.raises(InputError, match="the data frame: cannot be computed"):
        Ratings.of(broken)
    pattern = pl.LazyFrame({"^u.*$": ["x"], "user": ["a"], "item": ["i"]})
    assert Ratings.of(pattern, user="^u.*$").users == ("x",)


@pytest.mark.parametrize("as_kind", [list, np.array, pd.Series, pd.Index, pl.Series, pa.array])
def test_whole_numbers_are_the_users_they_name(as_kind):
    model = EASE().fit(RATINGS)
    by_text = model.recommend(["1", "2"], k=4)
    by_number = model.recommend(as_kind([1, 2]), k=4)
    assert by_number == by_text
    assert {r.basis for r in by_number} == {Basis.HISTORY}
    assert by_number.unknown_users == ()


def test_unknown_users_get_what_is_popular_and_are_named():
    found = EASE().fit(RATINGS).recommend(["1", "nobody", 999, "nobody"], k=2)
    assert found.unknown_users == ("nobody", "999")
    assert repr(found) == "Recommendations(8 items for 3 users, 2 of them unknown)"
    assert {r.basis for r in found if r.user == "999"} == {Basis.POPULARITY}


def test_recommendations_leave_as_frames():
    found = EASE().fit(RATINGS).recommend([1, 2], k=3)
    frame = found.to_frame()
    assert frame.columns == ["user", "item", "score", "rank", "basis"]
    assert frame.rows() == [(*one[:4], one.basis.value) for one in found]
    assert found.to_frame("pandas").to_dict("list") == frame.to_dict(as_series=False)
    assert found.to_frame("pyarrow").to_pylist() == frame.to_dicts()
    assert EASE().fit(RATINGS).recommend([], k=3).to_frame().schema == frame.schema


def test_a_model_says_how_many_users_its_release_covers():
    listed = [*range(10), *(f"other {n}" for n in range(30))]
    release = publish(RATINGS, Guarantee(epsilon=8, delta=1e-6), users=listed)
    model = RidgeRelease().fit(FRAME, release)
    assert model.origin.releases[0].covers == (10, 40)
    assert repr(model).endswith("the release covers 10 of 40 users)")
    assert "covers" not in repr(EASE().fit(RATINGS))
    with pytest.raises(InputError, match="only in the target: '0', '1', '10'; only in the release: 'x'"):
        RidgeRelease().fit(RATINGS, publish(RATINGS, Guarantee(epsilon=8, delta=1e-6), users=["x"]))


def test_coverage_shows_a_few_ids_of_either_side():
    shown = unshared_ids(("a", "b\x1b[31m", *map(str, range(8))), ("a", "U1", "x" * 500, "U3", "U4"))
    assert shown.isprintable()
    assert "only in the target: 'b\\\\u001b[31m', '0', '1'; only in the release: 'U1', 'xxxxxx" in shown
