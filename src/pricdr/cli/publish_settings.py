"""``pricdr publish --config FILE``: settings too rarely needed to be options, and the strategy that they describe."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import pricdr
from pricdr.cli.options import check_revocations, config_option, name_given, pinned_key, refuse_unused_key
from pricdr.cli.ratings import InputSettings
from pricdr.errors import InputError, ParameterError, VerificationError
from pricdr.privacy.strategies import BY_NAME, require_arguments

if TYPE_CHECKING:
    from pricdr.release.series import Series
    from pricdr.strategies import Strategy

DEFAULT_STRATEGY: Final = "spectral"


@dataclass(frozen=True, kw_only=True)
class PublishSettings(InputSettings):
    """What ``publish`` takes from ``--config`` alone, beside ``columns``. The documentation shows these texts."""

    refine: bool | None = None
    """guided: three rounds, each one's rows a guide to the next (true, the default), or one round."""
    fill_guide: bool = False
    """guided: listed users who are not in the guide get a row of zeros in it."""
    allow_not_private_guide: bool = False
    """guided: accept a guide that is NOT PRIVATE; it is disclosed."""
    public_key: Path | None = None
    """guided, continues: require that this key (a PEM file) signed the guide, or the releases before. Without it, the
    variable PRICDR_PUBLIC_KEY."""
    revocations: Path | None = None
    """guided, continues: refuse the guide, or a release before, that a notice in this folder revokes, signed by its
    own key."""
    item_features: Path | None = None
    """features: a public table of items (csv, tsv, parquet) with a column item, and numeric columns or one named tags
    (war|history)."""
    density: float | None = None
    """sjlt: share of non-zeros in P; 0.5 unless set."""
    temp_dir: Path | None = None
    """engine duckdb: sort large files in this folder, which holds ratings in plaintext meanwhile; beside the release
    unless set."""
    spark_conf: tuple[str, ...] = ()
    """engine spark: a list of settings, spark.NAME=VALUE; this machine's cores unless set."""
    calibration: Literal["exact", "paper"] = "exact"
    """paper: Algorithm 1's noise, for reproduction only."""
    issuer: str | None = None
    """Who publishes, for the certificate; only a signature vouches for it."""
    log: Path | None = None
    """Append what happens to this file, as JSON lines: no ratings, no counts of them, no secrets."""
    insecure_no_noise: bool = False
    """EXPERIMENTS ONLY: no noise, not private."""


ConfigOption: TypeAlias = Annotated[PublishSettings | None, config_option(PublishSettings)]
_FIELDS: Final = {"fill_guide": "allow_missing", "item_features": "features"}  # what strategies call otherwise
_GIVEN_BY: Final = {
    "before": "--continues: the releases before it",
    "guide": "--guide: a release folder of the other party",
    "features": "item-features in --config: a public table of items",
}


def make_strategy(given: str, guarantee: "pricdr.Guarantee", **settings: Any) -> "Strategy":  # noqa: ANN401 - its fields
    """Return the strategy that the user typed, a name or module:Class, with settings; None leaves the default."""
    name = name_given(BY_NAME, given)
    kind = BY_NAME.find(name)
    # What our own strategies need has options; what others need can be given in Python alone.
    require_arguments(kind, () if name in BY_NAME.own else kind.needs)
    arguments = {"dim": kind.default_dim(guarantee)}  # None where the strategy has none for this promise
    for setting, value in settings.items():
        field = _FIELDS.get(setting, setting)
        if value is not None and field not in {each.name for each in fields(kind)}:
            raise ParameterError(f"{setting.replace('_', '-')} is no setting of strategy {name}")
        arguments[field] = value if value is not None else arguments.get(field)
    return kind(**{field: value for field, value in arguments.items() if value is not None})


def complete_strategy(
    given: str,
    guarantee: "pricdr.Guarantee",
    dim: int | None,
    settings: PublishSettings,
    guide: Path | None,
    before: "Series | None" = None,
) -> "Strategy":
    """Return the strategy with everything it needs to run; settings of another strategy are refused."""
    if guide is None:
        if before is None:
            refuse_unused_key(
                settings.public_key, "there is no --guide; to sign a release, give --sign the private key"
            )
        for setting in ("allow_not_private_guide", "revocations") if before is None else ("allow_not_private_guide",):
            if getattr(settings, setting):
                raise ParameterError(f"{setting.replace('_', '-')} is about a guide, and there is no --guide")
    strategy = make_strategy(
        given,
        guarantee,
        dim=dim,
        density=settings.density,
        item_features=None if settings.item_features is None else pricdr.read_features(settings.item_features),
        guide=None if guide is None else _verified(guide, settings),
        fill_guide=settings.fill_guide or None,
        refine=settings.refine,
        before=None if before is None else before.members,
    )
    for need in strategy.needs:
        if not getattr(strategy, need):
            raise ParameterError(f"--strategy {strategy.name} needs {_GIVEN_BY[need]}")
    return strategy


def _verified(guide: Path, settings: PublishSettings) -> "pricdr.Release":
    """Return the guide; an error names it first, since publish is given more than one folder."""
    try:
        release = pricdr.verify(guide, public_key=settings.public_key or pinned_key())
        check_revocations(release, settings.revocations)
        return release
    except VerificationError as error:
        raise VerificationError(f"--guide {guide}: {error}") from error
    except InputError as error:  # which names the folder itself
        raise InputError(f"--guide {error}") from error
