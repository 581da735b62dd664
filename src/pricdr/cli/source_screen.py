"""What ``pricdr publish`` shows on the source's own screen: its input, its warnings, its release.

Some of it is read off the ratings. It goes only to the screen: not into the release, not into JSON, not into a log.
"""

import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pricdr.cli.console import say, warn
from pricdr.errors import PublishWarning

if TYPE_CHECKING:
    from pricdr.data.blocks import RatingsSource
    from pricdr.data.ids import Ids
    from pricdr.data.reading.read import Reading
    from pricdr.privacy.steps import Bounds
    from pricdr.release import Release
    from pricdr.release.certificate import Certificate
    from pricdr.strategies import Strategy


def say_input(
    reading: "Reading[Any]", listed: "Ids | None", universe: "Ids | None", strategy: "Strategy", bounds: "Bounds"
) -> None:
    """Show what was read, and which users and items of it count."""
    say(*reading.summary().split("\n"))
    say("ids are kept as text, byte for byte")
    items = set(reading.ratings.items)
    if reading.raters is not None:
        universe = _say_lists(set(reading.raters), items, listed, universe, strategy)
    _warn_of_noise_alone(reading, listed, universe, items)
    if strategy.dim is not None and strategy.dim > len(universe or items):
        say(f"dim {strategy.dim:,} is above the number of items: allowed, but a smaller one would lose nothing")
    if reading.n_ratings is not None:  # otherwise rows were only counted
        _warn_of_clamping(reading.selected, bounds)


def _say_lists(
    raters: set[str], items: set[str], listed: "Ids | None", universe: "Ids | None", strategy: "Strategy"
) -> "Ids | None":
    """Show how lists fit the ratings, and return the items that count: None for all of them."""
    others = 0 if listed is None else len(raters.difference(listed))
    if not others and strategy.learns_from_unlisted:
        warn("learn-from all: every user is listed, so there is no other user to learn from")
    if listed is not None:
        absent = len(listed) - len(raters.intersection(listed))
        say(
            f"listed users: {len(listed):,}, of them {absent:,} without ratings; "
            f"{others:,} users of the ratings are not listed and {_others(strategy) if others else 'left out'}"
        )
    if universe is None and strategy.catalogue is not None:
        universe = strategy.catalogue
        say(f"items with features: {len(universe):,}; {len(items.difference(universe)):,} others are left out")
    elif universe is not None:
        say(f"listed items: {len(universe):,}; {len(items.difference(universe)):,} others are left out")
    return universe


def _warn_of_noise_alone(
    reading: "Reading[Any]", listed: "Ids | None", universe: "Ids | None", items: set[str]
) -> None:
    """Warn the source alone that no rating counts: a refusal would reveal it to everyone who expects the release."""
    if reading.raters is not None and listed is not None and set(reading.raters).isdisjoint(listed):
        why = (
            f"none of the {len(listed):,} listed users occurs in the ratings (are the user and item columns swapped, "
            "or is it another list?)"
        )
    elif reading.raters is not None and universe is not None and items.isdisjoint(universe):
        why = f"none of the {len(universe):,} listed items occurs in the ratings (is it another list?)"
    elif reading.all_below:
        why = f"no rating is at least {reading.ratings.threshold:g}"
    elif reading.rates_none(listed, universe):
        why = "no listed user rated a listed item"
    else:
        return
    warn(f"{why}: no rating counts, and what is published is noise alone")


def _warn_of_clamping(ratings: "RatingsSource", bounds: "Bounds") -> None:
    """Warn the source alone how many ratings are outside the declared bounds."""
    import numpy as np

    if bounds.rating_bound is None:
        return
    unchanged = ratings.units(lambda block: block)
    clamped, rounded = unchanged.total(lambda block, start: np.array([bounds.forced(block)]))[0].tolist()
    bound, step, of_all = bounds.largest, bounds.rating_step, f"of {len(ratings):,} ratings"
    if clamped:
        warn(f"--values: {clamped:,} {of_all} lie outside [0, {bound:g}] and count as 0 or {bound:g}")
    if rounded:
        warn(f"--values: {rounded:,} {of_all} are not multiples of {step:g} and are rounded to one")


def _others(strategy: "Strategy") -> str:
    if not strategy.learns_from_unlisted:
        return "left out"
    return "get no row; directions are learnt from them first, and they are protected by the same promise"


def say_result(release: "Release", out: Path, *, learnt: bool) -> None:
    """Show what was published, with all warnings."""
    certificate = release.certificate
    if not certificate.promises:  # of anything else the library warned before the spend
        warn_of(certificate)
    say_nominal(certificate)
    if certificate.guide is not None and certificate.guide.missing_users:
        say(f"the guide lacks {certificate.guide.missing_users:,} listed users: a row of zeros in it for each")
    if learnt:
        say(f"learnt in {len(certificate.steps)} steps, all within the promise; item directions are erased")
    say(f"published {release!r}")
    say(f"to {out}; check it with: pricdr verify {shlex.quote(str(out))}")


def say_nominal(certificate: "Certificate | None") -> None:
    """Show the nominal and the exact epsilon, where the paper's calibration makes them differ."""
    if certificate is not None and certificate.nominal_epsilon is not None:
        say(f"paper calibration: nominal epsilon {certificate.nominal_epsilon:g}, exact {certificate.epsilon:.4g}")


def warn_of(certificate: "Certificate") -> None:
    """Warn of everything that makes a promise weaker than it could be."""
    from pricdr.release.readme import cautions

    for text in cautions(certificate, counted=certificate.ledger is not None):
        warn(text)


@contextmanager
def cautions_on_screen() -> Iterator[None]:
    """Show what the library warns of like any other warning of a command."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", PublishWarning)
        warnings.filterwarnings("ignore", "ratings from .* look like stars", PublishWarning)  # said when they were read
        show = warnings.showwarning

        def shown(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, PublishWarning):
                warn(str(message))
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = shown
        yield
