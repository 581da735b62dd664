"""``pricdr publish``: the source party's command."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pricdr.cli.console import heed_interrupts, progress_bar, say, warn
from pricdr.cli.options import ColumnsOption, PublicKeyOption, UnitName, read_ratings_file
from pricdr.cli.publish_options import (
    AllowNotPrivateGuideOption,
    BucketsOption,
    CalibrationName,
    CalibrationOption,
    ClipOption,
    DensityOption,
    DimOption,
    FillGuideOption,
    GuideOption,
    InsecureNoNoiseOption,
    InsecureSeedOption,
    IssuerOption,
    ItemFeaturesOption,
    ItemsOption,
    LearnFromOption,
    LedgerOption,
    RatingBoundOption,
    RatingStepOption,
    RefineOption,
    SignOption,
    StrategyOption,
    ThresholdOption,
    UnitOption,
    UsersOption,
    ValuesOption,
    parse_bounds,
)
from pricdr.cli.strategy_options import DEFAULT_STRATEGY, StrategyOptions, parse_strategy
from pricdr.errors import InputError, OutputError, ParameterError
from pricdr.files import new_folder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from pricdr.data.ratings import Ids, Ratings
    from pricdr.data.reading.readers import RatingsFile
    from pricdr.privacy.guarantee import Unit
    from pricdr.privacy.ledger import Ledger
    from pricdr.privacy.strategies import Strategy
    from pricdr.release import Release


def publish(
    ratings: Annotated[
        Path, typer.Argument(help="The source's ratings: csv, tsv, parquet, inter, jsonl, dat; .gz too.")
    ],
    epsilon: Annotated[float, typer.Option(help="Privacy loss; 1 is strong, 4 moderate, above 8 weak.")],
    delta: Annotated[float, typer.Option(help="Chance of exceeding epsilon; 1e-6 or less is recommended.")],
    out: Annotated[Path, typer.Option(help="The release folder to create.")],
    strategy: StrategyOption = DEFAULT_STRATEGY,
    dim: DimOption = None,
    guide: GuideOption = None,
    refine: RefineOption = None,
    fill_guide: FillGuideOption = False,
    public_key: PublicKeyOption = None,
    allow_not_private_guide: AllowNotPrivateGuideOption = False,
    item_features: ItemFeaturesOption = None,
    learn_from: LearnFromOption = None,
    buckets: BucketsOption = None,
    density: DensityOption = None,
    unit: UnitOption = UnitName.RATING,
    clip: ClipOption = None,
    threshold: ThresholdOption = None,
    values: ValuesOption = False,
    rating_bound: RatingBoundOption = None,
    rating_step: RatingStepOption = None,
    users: UsersOption = None,
    items: ItemsOption = None,
    columns: ColumnsOption = None,
    calibration: CalibrationOption = CalibrationName.EXACT,
    ledger: LedgerOption = None,
    sign: SignOption = None,
    issuer: IssuerOption = None,
    insecure_seed: InsecureSeedOption = None,
    insecure_no_noise: InsecureNoNoiseOption = False,
) -> None:
    """Publish ratings under differential privacy: one release folder to hand over.

    Every listed user gets one noisy row. By default each row of RATINGS counts as 1 and one rating is protected.
    Nothing is filtered, and nothing read off the ratings leaves except the noisy rows.
    """
    from pricdr._publish import publish as publish_ratings
    from pricdr.privacy.calibration import Calibration
    from pricdr.privacy.guarantee import Guarantee, Unit

    heed_interrupts()
    guarantee = Guarantee(epsilon=epsilon, delta=delta, unit=Unit(unit.value))
    plan = parse_strategy(strategy, dim, density, guarantee)
    _require_paper(calibration, plan)
    bounds = parse_bounds(guarantee.unit, values, threshold, rating_bound, rating_step, clip)
    plan = StrategyOptions(
        guide=guide,
        public_key=public_key,
        refine=refine,
        fill_guide=fill_guide,
        allow_not_private_guide=allow_not_private_guide,
        item_features=item_features,
        learn_from=learn_from,
        buckets=buckets,
        items=items,
    ).complete(plan)
    key = None if sign is None else _read_key(sign)
    account = None if ledger is None else _open_ledger(ledger, guarantee.unit)
    with new_folder(out) as staging:  # first: an unwritable output must be known before the budget is spent
        listed, universe = _read_lists(users, items)
        reading = _read_ratings(ratings, columns, threshold, values=values)
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
                issuer=issuer,
                allow_not_private_guide=allow_not_private_guide,
                insecure_seed=insecure_seed,
                insecure_no_noise=insecure_no_noise,
                progress=progress,
            )
        release.write_into(staging, signing_key=key)
    _say_result(release, out, learnt=plan.learns)


def _require_paper(calibration: CalibrationName, strategy: "Strategy") -> None:
    if calibration is CalibrationName.PAPER and not strategy.rows_cancel:
        raise ParameterError(
            f"--calibration paper is for the paper's own jlt and sjlt, not for {strategy.name}: add --strategy jlt"
        )


def _read_key(file: Path) -> "Ed25519PrivateKey":
    from pricdr.release.signing import read_private_key

    return read_private_key(file)


def _open_ledger(file: Path, unit: "Unit") -> "Ledger":
    """Return the ledger, once it is clear that it counts this unit: a mismatch is found before anything is read."""
    from pricdr.privacy.ledger import Ledger

    ledger = Ledger(file)
    ledger.require_unit(unit)
    return ledger


def _read_lists(users: Path | None, items: Path | None) -> tuple["Ids | None", "Ids | None"]:
    """Return the listed users and the item universe, each None where no file was given."""
    from pricdr.data.reading.readers import read_ids

    return None if users is None else read_ids(users), None if items is None else read_ids(items)


def _read_ratings(file: Path, columns: str | None, threshold: float | None, *, values: bool) -> "RatingsFile":
    reading = read_ratings_file(file, columns, threshold)
    if values and not reading.has_values:
        raise InputError(f"{file}: --values needs a rating column, and there is none")
    return reading


def _say_input(reading: "RatingsFile", listed: "Ids | None", universe: "Ids | None", strategy: "Strategy") -> None:
    ratings = reading.ratings
    say(*reading.summary().split("\n"))
    say("ids are kept as text, byte for byte")
    others = 0 if listed is None else len(set(ratings.users) - set(listed))
    if not others and strategy.learns_from_unlisted:
        warn("--learn-from all: every user is listed, so there is nobody else to learn from")
    if listed is not None:
        absent = len(set(listed) - set(ratings.users))
        say(
            f"listed users: {len(listed):,}, of them {absent:,} without ratings; "
            f"{others:,} users of the ratings are not listed and {_others(strategy) if others else 'left out'}"
        )
    if universe is None and strategy.catalogue is not None:
        universe = strategy.catalogue
        say(f"items with features: {len(universe):,}; {len(set(ratings.items) - set(universe)):,} others are left out")
    elif universe is not None:
        say(f"listed items: {len(universe):,}; {len(set(ratings.items) - set(universe)):,} others are left out")
    _warn_of_noise_alone(ratings, listed, universe)
    if strategy.dim is not None and strategy.dim > len(universe or ratings.items):
        say(f"dim {strategy.dim:,} is above the number of items: allowed, but a smaller one would lose nothing")


def _warn_of_noise_alone(ratings: "Ratings", listed: "Ids | None", universe: "Ids | None") -> None:
    """Tell the source alone that no rating counts: a refusal would also tell whoever waits for the release."""
    import numpy as np

    if listed is not None and not set(listed) & set(ratings.users):
        why = (
            f"none of the {len(listed):,} listed users occurs in the ratings (are the user and item columns swapped, "
            "or is it another list?)"
        )
    elif universe is not None and not set(universe) & set(ratings.items):
        why = f"none of the {len(universe):,} listed items occurs in the ratings (is it another list?)"
    elif not len(ratings):
        why = f"no rating is at least {ratings.threshold:g}"
    else:
        users, items = (
            np.fromiter((one in named for one in ids), dtype=bool, count=len(ids))
            for ids, named in (
                (ratings.users, set(ratings.users if listed is None else listed)),
                (ratings.items, set(ratings.items if universe is None else universe)),
            )
        )
        if (np.repeat(users, np.diff(ratings.matrix.indptr)) & items[ratings.matrix.indices]).any():
            return
        why = "no listed user rated a listed item"
    warn(f"{why}: no rating counts, and what is published is noise alone")


def _others(strategy: "Strategy") -> str:
    if not strategy.learns_from_unlisted:
        return "left out"
    return "get no row; directions are learnt from them first, and one promise holds for them too"


def _require_space(folder: Path, n_users: int, dim: int | None) -> None:
    """Find a full disk before the budget is spent, where that can be known."""
    import shutil

    needed = n_users * (dim or 0) * 4  # single precision; the rest of the folder is small
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OutputError(f"the release needs {needed // 10**6:,} MB, {free // 10**6:,} MB are free on {folder.parent}")


def _say_result(release: "Release", out: Path, *, learnt: bool) -> None:
    certificate = release.certificate
    if certificate.input.user_list != "declared":
        warn("no --users list: the users are read off the ratings, so who has ratings at all is not protected")
    if certificate.input.item_universe == "read off the ratings":
        warn(f"{certificate.strategy.name} without --items: the item universe is read off the ratings; it is disclosed")
    if certificate.input.filtered_by is not None:
        warn(f"these ratings were filtered before ({certificate.input.filtered_by}); it is disclosed")
    if certificate.private and certificate.ledger is None:
        warn("no --ledger: this release is not counted against a budget; others of the same ratings add to its cost")
    for text in certificate.warnings:
        warn(text)
    if not certificate.private:
        warn("this release is NOT PRIVATE and must not leave the source")
    if certificate.nominal_epsilon is not None:
        say(f"paper calibration: nominal epsilon {certificate.nominal_epsilon:g}, exact {certificate.epsilon:.4g}")
    if certificate.guide is not None and certificate.guide.missing_users:
        say(f"the guide lacks {certificate.guide.missing_users:,} listed users: a row of zeros in it for each")
    if learnt:
        say(f"learnt in {len(certificate.steps)} steps, all within the promise; item directions are erased")
    say(f"published {release!r}")
    say(f"to {out}; check it with: pricdr verify {shlex.quote(str(out))}")
