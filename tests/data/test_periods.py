"""Rows of a period are read as if there were no others; ratings of one user in one period move no more than stated."""

import tempfile
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from pricdr import Bounds, Guarantee, Ratings, Unit, publish, read_ratings
from pricdr.data.periods import MOST_IN_AN_ENTRY, PeriodRatings, Window
from pricdr.data.reading.read import read_periods_file, read_ratings_file
from pricdr.data.workspace import Workspace
from pricdr.engines.outofcore import read_on_disk
from pricdr.errors import InputError, MemoryLimitError, ParameterError

YEAR = Window.parse("2026-01-01", "2027-01-01")
WEEKS = replace(YEAR, days=7)
BEGIN = 1_767_225_600  # 2026-01-01 in UTC, in seconds since 1970
END = BEGIN + 365 * 86_400
HEADER = "user,item,rating,time\n"
ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 5), st.integers(BEGIN, END - 1)), min_size=1
)
ELSEWHERE = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.integers(0, 6),
        st.integers(1, 9),
        st.one_of(st.integers(0, BEGIN - 1), st.integers(END, 2 * END), st.just("")),
    ),
    min_size=1,
)


def csv(rows) -> str:
    return HEADER + "".join(f"u{user},i{item},{value},{time}\n" for user, item, value, time in rows)


def read(rows, **options) -> Ratings:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "r.csv"
        file.write_text(csv(rows))
        return read_ratings(file, **options)


def by_week(rows, window=WEEKS) -> PeriodRatings:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "r.csv"
        file.write_text(csv(rows))
        return read_periods_file(file, window=window).ratings


def content(ratings) -> tuple[object, ...]:
    parts = ratings.matrix.data.tobytes(), ratings.matrix.indices.tobytes(), ratings.matrix.indptr.tobytes()
    return ratings.users, ratings.items, *parts


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(ROWS, ELSEWHERE, st.randoms(use_true_random=False))
def test_a_row_outside_the_period_changes_no_byte(inside, outside, random):
    """Wherever it stands, whoever rated whatever in it: in memory, on disk, in a frame, and period by period."""
    mixed = [*inside, *outside]
    random.shuffle(mixed)
    alone = read(inside, window=YEAR)
    assert content(read(mixed, window=YEAR)) == content(alone)
    names = {"user": [f"u{row[0]}" for row in mixed], "item": [f"i{row[1]}" for row in mixed]}
    times = [None if row[3] == "" else row[3] for row in mixed]
    frame = pl.DataFrame({**names, "rating": [row[2] for row in mixed], "time": times})
    assert content(Ratings.of(frame, window=YEAR)) == content(alone)
    ours, theirs = by_week(inside), by_week(mixed)
    assert (content(ours), ours.owners.tolist()) == (content(theirs), theirs.owners.tolist())
    with tempfile.TemporaryDirectory() as folder, Workspace.opened(Path(folder)) as workspace:
        (workspace.folder / "r.csv").write_text(csv(mixed))
        on_disk = read_on_disk(workspace.folder / "r.csv", workspace, window=YEAR).ratings
        assert (on_disk.users, on_disk.items) == (alone.users, alone.items)
        assert (on_disk.sorted().block(slice(0, len(alone.users))) != alone.matrix).nnz == 0


def test_a_release_of_a_period_does_not_depend_on_rows_of_another():
    rng = np.random.default_rng(1)
    pairs, times = rng.integers(0, 30, (300, 2)).tolist(), rng.integers(BEGIN, END, 300).tolist()
    inside = [(user, item, 3, time) for (user, item), time in zip(pairs, times, strict=True)]
    outside = [(user, item, 5, END + 9) for user, item, _, _ in inside]
    for window, unit, clip, reader in ((YEAR, "rating", None, read), (WEEKS, "user-period", 2.0, by_week)):
        guarantee = Guarantee(epsilon=4, delta=1e-6, unit=unit, window=window)
        one, two = (
            publish(reader(rows, window=window), guarantee, bounds=Bounds(clip=clip), insecure_seed=1)
            for rows in (inside, inside + outside)
        )
        assert one.matrix.tobytes() == two.matrix.tobytes()
        assert (one.users, one.certificate) == (two.users, two.certificate)


def test_the_first_moment_is_in_and_the_last_one_out():
    rows = [
        (0, 0, 1, BEGIN - 1),
        (1, 0, 1, BEGIN),
        (2, 0, 1, END - 1),
        (3, 0, 1, END),
        (4, 0, 1, "2026-12-31T23:59:59Z"),
    ]
    assert read([*rows, (5, 0, 1, "2027-01-01T00:30:00+01:00")], window=YEAR).users == ("u1", "u2", "u4", "u5")


def test_who_has_no_time_is_in_no_period_and_a_time_that_cannot_be_read_is_refused(tmp_path):
    file = tmp_path / "r.csv"
    file.write_text(csv([(0, 0, 1, BEGIN), (1, 1, 1, "")]))
    for columns in (None, "user=user,item=item,time=time"):
        reading = read_ratings_file(file, window=YEAR, columns=columns)
        assert (reading.ratings.users, list(reading.dropped.values())) == (("u0",), [1])
    file.write_text(csv([(0, 0, 1, BEGIN), (1, 1, 1, "  ")]))
    assert read_ratings(file, window=YEAR).users == ("u0",)
    file.write_text(csv([(0, 0, 1, BEGIN), (1, 1, 1, "last May")]))
    with pytest.raises(InputError, match=r"row 2 .*'last May' is not a time"):
        read_ratings(file, window=YEAR)
    assert read_ratings(file, window=YEAR, skip_bad_rows=True, most_bad_rows=0.5).users == ("u0",)
    file.write_text("user,item\nu,i\n")
    with pytest.raises(InputError, match="needs a time for every row, and there is no time column"):
        read_ratings(file, window=YEAR)


def test_a_period_without_a_row_is_read_and_published():
    assert read([(0, 0, 1, END)], window=YEAR).users == by_week([(0, 0, 1, END)]).users == ()
    for window, unit, clip, reader in ((YEAR, "rating", None, read), (WEEKS, "user-period", 1.0, by_week)):
        promise = Guarantee(epsilon=4, delta=1e-6, unit=unit, window=window)
        nothing = reader([(0, 0, 1, END)], window=window)
        assert publish(nothing, promise, users=["u0", "u1"], bounds=Bounds(clip=clip)).matrix.shape == (2, 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("2026-01-01", "2026-01-01"), "must end after it begins"),
        (("2026-01-01", "2025-01-01"), "must end after it begins"),
        (("2026-01-01", "2027-02-30"), "until must be a day such as"),
        (("1. May", "2027-01-01"), "from must be a day such as"),
        *(
            ((*("2026-01-01", "2027-01-01"), days), "number of days from 1d")
            for days in ("0d", "7", "-7d", "7h", "1e3d")
        ),
        (("0001-01-01", "9999-01-01", "1d"), "at most 65,536 periods"),
    ],
)
def test_windows_that_are_none_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        Window.parse(*arguments)


def test_a_guarantee_and_its_ratings_are_about_the_same_days():
    ratings, promise = read([(0, 0, 1, BEGIN)], window=YEAR), Guarantee(epsilon=4, delta=1e-6, window=YEAR)
    for one, promised in ((ratings, Guarantee(epsilon=4, delta=1e-6)), (read([(0, 0, 1, BEGIN)]), promise)):
        with pytest.raises(ParameterError, match="give both the same window"):
            publish(one, promised)
    with pytest.raises(ParameterError, match="no times once they are read"):
        Ratings.of(read([(0, 0, 1, BEGIN)]), window=YEAR)
    with pytest.raises(ParameterError, match="unit user has no period"):
        Guarantee(epsilon=4, delta=1e-6, unit="user", window=YEAR)
    for unit, window in (("user-period", None), ("user-period", YEAR), ("rating", WEEKS)):
        with pytest.raises(ParameterError, match="needs the length of a period"):
            Guarantee(epsilon=4, delta=1e-6, unit=unit, window=window)
    future = Window(date(2999, 1, 1), date(3000, 1, 1))
    with pytest.raises(ParameterError, match="has not begun"):
        publish(replace(ratings, window=future), Guarantee(epsilon=4, delta=1e-6, window=future))


def entries(ratings: PeriodRatings, bounds: Bounds) -> np.ndarray:
    """Return what a strategy adds up, in ratings, over five users and five items."""
    users, items = (tuple(f"{kind}{at}" for at in range(5)) for kind in "ui")
    return ratings.select(users, items).units(bounds.units).matrix.toarray() / 256


def test_repeats_are_merged_within_a_week_and_scaled_weeks_are_added_up():
    week = 7 * 86_400
    first = [(0, 0, 1, BEGIN), (0, 0, 5, BEGIN + 1), (0, 1, 1, BEGIN + week - 1)]
    second = [(0, 0, 1, BEGIN + week), (1, 4, 1, BEGIN + week)]
    found = entries(by_week([*first, *second]), Bounds(clip=1.0))
    assert found[0].tolist() == [127 / 256 + 255 / 256, 127 / 256, 0, 0, 0]  # rounded down, so that no sum exceeds 1
    assert found[1].tolist() == [0, 0, 0, 0, 255 / 256]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(ROWS, st.sampled_from([0.3, 1.0, 2.5]), st.booleans(), st.integers(0, 4), st.integers(0, 52), ROWS)
def test_ratings_of_one_user_in_one_week_move_the_sum_by_the_clip_at_most(rows, clip, values, user, week, others):
    """Removed: C. Replaced by any others: 2C. Nobody else's entries move."""
    bounds = Bounds(clip=clip, rating_bound=5) if values else Bounds(clip=clip)
    begin = BEGIN + week * 7 * 86_400
    end = min(begin + 7 * 86_400, END)
    rest = [row for row in rows if not (row[0] == user and begin <= row[3] < end)]
    new = [(user, item, value, begin + time % (end - begin)) for _, item, value, time in others]
    whole, removed, replaced = (entries(by_week(part), bounds) for part in (rows, rest or [(4, 4, 1, END)], rest + new))
    assert np.abs(whole - removed).sum() <= clip
    assert np.abs(whole - replaced).sum() <= 2 * clip
    assert not np.delete(np.abs(whole - replaced), user, axis=0).any()


def test_an_entry_of_very_many_periods_is_capped():
    """So sums over users stay within whole numbers; a cap on single entries moves none any further."""
    days = Window(date(1970, 1, 1), date(2100, 1, 1), 1)
    assert days.periods == 47_482
    rows = [(0, 0, 1, 86_400 * day) for day in range(20_000)]
    found = by_week(rows, window=days).units(Bounds(clip=2.0).units)
    assert found.matrix.toarray().tolist() == [[MOST_IN_AN_ENTRY]]


def test_what_cannot_have_periods_says_so(tmp_path):
    ratings, promise = (
        by_week([(0, 0, 1, BEGIN)]),
        Guarantee(epsilon=4, delta=1e-6, unit=Unit.USER_PERIOD, window=WEEKS),
    )
    with pytest.raises(ParameterError, match="read period by period"):
        read([(0, 0, 1, BEGIN)], window=WEEKS)
    with pytest.raises(ParameterError, match="are PeriodRatings"):
        replace(read([(0, 0, 1, BEGIN)]), window=WEEKS)
    for strategy in ("jlt", "sjlt"):
        with pytest.raises(ParameterError, match="cannot protect user-periods"):
            publish(ratings, promise, strategy=strategy, bounds=Bounds(clip=1.0))
    with pytest.raises(ParameterError, match="needs a clip"):
        publish(ratings, promise)
    (tmp_path / "r.csv").write_text(csv([(0, 0, 1, BEGIN)]))
    with Workspace.opened(tmp_path) as workspace, pytest.raises(MemoryLimitError, match="must fit into memory"):
        read_on_disk(tmp_path / "r.csv", workspace, window=WEEKS)
