"""``pricdr publish``: the source party's command."""

import shlex
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pricdr.cli.console import heed_interrupts, progress_bar, say, warn
from pricdr.cli.options import ColumnsOption, StrategyName, UnitName, parse_strategy, read_ratings
from pricdr.errors import InputError, OutputError, ParameterError

if TYPE_CHECKING:
    from pricdr.data.ratings import Ids
    from pricdr.data.readers import Reading
    from pricdr.privacy.bounds import Bounds
    from pricdr.privacy.strategies import Strategy
    from pricdr.release import Release


class LearnFromName(StrEnum):
    """Whose ratings the item model is learnt from."""

    LISTED = "listed"
    ALL = "all"


class CalibrationName(StrEnum):
    """How sigma follows from epsilon and delta."""

    EXACT = "exact"
    PAPER = "paper"


def publish(
    ratings: Annotated[
        Path, typer.Argument(help="The source's ratings: csv, tsv, parquet, inter, jsonl, dat; .gz too.")
    ],
    epsilon: Annotated[float, typer.Option(help="Privacy loss; 1 is strong, 4 moderate, above 8 weak.")],
    delta: Annotated[float, typer.Option(help="Chance of exceeding epsilon; 1e-6 or less is recommended.")],
    out: Annotated[Path, typer.Option(help="The release folder to create.")],
    strategy: Annotated[
        StrategyName,
        typer.Option(
            help="spectral learns taste directions from the ratings, inside the promise; guided learns them along a "
            "release of the other party; features takes public item features; jlt and sjlt are the paper's."
        ),
    ] = StrategyName.SPECTRAL,
    dim: Annotated[
        str | None,
        typer.Option(
            help="Numbers per user, or auto (jlt, sjlt: costs 1 % of the budget).  [default: 8, or 4 below epsilon 4; "
            "jlt, sjlt: 200]"
        ),
    ] = None,
    guide: Annotated[
        Path | None, typer.Option(help="guided: a release folder of the other party, over the same users.")
    ] = None,
    refine: Annotated[
        bool, typer.Option("--refine", help="guided: two matrices, the first a guide to the second.")
    ] = False,
    fill_guide: Annotated[
        bool, typer.Option("--fill-guide", help="guided: listed users whom the guide lacks get a row of zeros in it.")
    ] = False,
    allow_not_private_guide: Annotated[
        bool,
        typer.Option("--allow-not-private-guide", help="guided: take a guide that protects nobody on the other side."),
    ] = False,
    item_features: Annotated[
        Path | None,
        typer.Option(
            help="features: a public table, csv, tsv or parquet: item, and numeric columns or one named tags."
        ),
    ] = None,
    learn_from: Annotated[
        LearnFromName | None,
        typer.Option(help="spectral: whose ratings item directions are learnt from.  [default: listed]"),
    ] = None,
    buckets: Annotated[
        int | None,
        typer.Option(help="spectral without --items: hash items into so many buckets.  [default: 65536]"),
    ] = None,
    density: Annotated[float | None, typer.Option(help="sjlt: share of non-zeros in P.  [default: 0.5]")] = None,
    unit: Annotated[UnitName, typer.Option(help="Protect one rating, or all ratings of one user.")] = UnitName.RATING,
    clip: Annotated[
        float | None,
        typer.Option(
            help="unit user: the largest sum of a user's ratings (spectral, guided), or norm of a projected profile "
            "(features, jlt, sjlt)."
        ),
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="Count only rows rated at least this.")] = None,
    values: Annotated[
        bool, typer.Option("--values", help="Publish rating values instead of counting rows as 1.")
    ] = False,
    rating_bound: Annotated[float | None, typer.Option(help="values: the largest value a rating can take.")] = None,
    rating_step: Annotated[float | None, typer.Option(help="values: ratings are multiples of this.")] = None,
    users: Annotated[Path | None, typer.Option(help="The agreed user list, one id a line; each gets a row.")] = None,
    items: Annotated[Path | None, typer.Option(help="The public item universe, one id a line.")] = None,
    columns: ColumnsOption = None,
    calibration: Annotated[
        CalibrationName, typer.Option(help="paper: Algorithm 1's noise, for reproduction only.")
    ] = CalibrationName.EXACT,
    ledger: Annotated[
        Path | None, typer.Option(help="Count this release against a budget (pricdr ledger init).")
    ] = None,
    sign: Annotated[Path | None, typer.Option(help="Sign with this private key (pricdr keygen).")] = None,
    insecure_seed: Annotated[int | None, typer.Option(help="TESTS ONLY: repeatable noise, not private.")] = None,
    insecure_no_noise: Annotated[
        bool, typer.Option("--insecure-no-noise", help="EXPERIMENTS ONLY: no noise, not private.")
    ] = False,
) -> None:
    """Publish ratings under differential privacy: one release folder to hand over.

    Every listed user gets one noisy row. By default each row of RATINGS counts as 1 and one rating is protected.
    Nothing is filtered, and nothing read off the ratings leaves except the noisy rows.
    """
    from pricdr.data.readers import read_ids
    from pricdr.files import new_folder
    from pricdr.privacy.calibration import Calibration
    from pricdr.privacy.guarantee import Guarantee, Unit
    from pricdr.privacy.ledger import Ledger
    from pricdr.publish import publish as publish_ratings
    from pricdr.signing import read_private_key

    heed_interrupts()
    guarantee = Guarantee(epsilon=epsilon, delta=delta, unit=Unit(unit.value))
    learning = _Learning(guide, refine, fill_guide, allow_not_private_guide, item_features, learn_from, buckets)
    plan = learning.added_to(parse_strategy(strategy, dim, density))
    bounds = _bounds(values, threshold, rating_bound, rating_step, clip)
    bounds.sensitivity(guarantee.unit)
    key = None if sign is None else read_private_key(sign)
    account = None if ledger is None else Ledger(ledger)
    if account is not None:
        account.require_unit(guarantee.unit)
    with new_folder(out) as staging:
        listed = None if users is None else read_ids(users)
        universe = None if items is None else read_ids(items)
        reading = read_ratings(ratings, columns, threshold)
        if values and not reading.has_values:
            raise InputError(f"{ratings}: --values needs a rating column, and there is none")
        _say_input(reading, listed, universe, plan)
        _require_space(staging, len(listed or reading.ratings.users), plan.dim)
        with progress_bar() as progress:
            release = publish_ratings(
                reading.ratings,
                guarantee,
                strategy=plan,
                users=listed,
                items=universe,
                bounds=bounds,
                calibration=Calibration(calibration.value),
                ledger=account,
                allow_not_private_guide=allow_not_private_guide,
                insecure_seed=insecure_seed,
                insecure_no_noise=insecure_no_noise,
                progress=progress,
            )
        release.write_into(staging, signing_key=key)
    _say_result(release, out)


@dataclass(frozen=True)
class _Learning:
    """The options of strategies that learn, or that are told something about items."""

    guide: Path | None
    refine: bool
    fill_guide: bool
    allow_not_private_guide: bool
    item_features: Path | None
    learn_from: LearnFromName | None
    buckets: int | None

    def added_to(self, strategy: "Strategy") -> "Strategy":
        """The strategy with its guide, its features, its learners; options of another strategy are refused."""
        from pricdr.data.feature_files import read_features
        from pricdr.privacy.strategies import Features, Guided, LearnFrom, Spectral
        from pricdr.release import verify

        self._refuse_strangers(strategy)
        if isinstance(strategy, Guided):
            if self.guide is None:
                raise ParameterError("--strategy guided needs --guide: a release folder of the other party")
            release = verify(self.guide)
            return replace(strategy, guide=release, refine=self.refine, allow_missing=self.fill_guide)
        if isinstance(strategy, Features):
            if self.item_features is None:
                raise ParameterError("--strategy features needs --item-features: a public table of items")
            return replace(strategy, features=read_features(self.item_features))
        if isinstance(strategy, Spectral):
            learners = LearnFrom(self.learn_from.value) if self.learn_from else strategy.learn_from
            return replace(strategy, learn_from=learners, buckets=self.buckets or strategy.buckets)
        return strategy

    def _refuse_strangers(self, strategy: "Strategy") -> None:
        owners = {
            "--guide": ("guided", self.guide is not None),
            "--refine": ("guided", self.refine),
            "--fill-guide": ("guided", self.fill_guide),
            "--allow-not-private-guide": ("guided", self.allow_not_private_guide),
            "--item-features": ("features", self.item_features is not None),
            "--learn-from": ("spectral", self.learn_from is not None),
            "--buckets": ("spectral", self.buckets is not None),
        }
        for option, (owner, given) in owners.items():
            if given and strategy.name != owner:
                raise ParameterError(f"{option} belongs to --strategy {owner}, not to {strategy.name}")


def _bounds(
    values: bool,
    threshold: float | None,
    rating_bound: float | None,
    rating_step: float | None,
    clip: float | None,
) -> "Bounds":
    from pricdr.privacy.bounds import Bounds

    if not values:
        if rating_bound is not None or rating_step is not None:
            raise ParameterError("--rating-bound and --rating-step belong to --values")
        return Bounds(clip=clip)
    if threshold is not None:
        raise ParameterError("--threshold and --values exclude each other: rows count as 1, or as their value")
    if rating_bound is None or rating_step is None:
        raise ParameterError("--values needs --rating-bound and --rating-step: nothing is guessed from the data")
    return Bounds(rating_bound=rating_bound, rating_step=rating_step, clip=clip)


def _say_input(reading: "Reading", listed: "Ids | None", universe: "Ids | None", strategy: "Strategy") -> None:
    ratings = reading.ratings
    say(reading.summary())
    say("ids are kept as text, byte for byte")
    if listed is not None:
        absent = len(set(listed) - set(ratings.users))
        say(
            f"listed users: {len(listed):,}, of them {absent:,} without ratings; "
            f"{len(set(ratings.users) - set(listed)):,} users of the ratings are not listed and {_others(strategy)}"
        )
    if universe is not None:
        say(f"listed items: {len(universe):,}; {len(set(ratings.items) - set(universe)):,} others are left out")
    if strategy.dim is not None and strategy.dim > len(universe or ratings.items):
        say(f"dim {strategy.dim:,} is above the number of items: allowed, but a smaller one would lose nothing")


def _others(strategy: "Strategy") -> str:
    everybody = strategy.parameters().get("learn_from_all")
    return "only help to learn which way items point" if everybody else "left out"


def _require_space(folder: Path, n_users: int, dim: int | None) -> None:
    """Find a full disk before the budget is spent, where that can be known."""
    import shutil

    needed = n_users * (dim or 0) * 4
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OutputError(f"the release needs {needed // 10**6:,} MB, {free // 10**6:,} MB are free on {folder.parent}")


def _say_result(release: "Release", out: Path) -> None:
    certificate = release.certificate
    if certificate.input.user_list != "declared":
        warn("no --users list: the users are read off the ratings, so who has ratings at all is not protected")
    if certificate.input.item_universe == "read off the ratings":
        warn(f"{certificate.strategy.name} without --items: the item universe is read off the ratings; it is disclosed")
    if certificate.input.filtered_by is not None:
        warn(f"these ratings were filtered before ({certificate.input.filtered_by}); it is disclosed")
    for text in certificate.warnings:
        warn(text)
    if not certificate.private:
        warn("this release is NOT PRIVATE and must not leave the source")
    if certificate.nominal_epsilon is not None:
        say(f"paper calibration: nominal epsilon {certificate.nominal_epsilon:g}, exact {certificate.epsilon:.4g}")
    say(f"published {release!r}")
    say(f"to {out}; check it with: pricdr verify {shlex.quote(str(out))}")
