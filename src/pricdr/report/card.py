"""``ModelCard``: what a model is, its data, its promise, how good it is and its limits, as a page of blocks.

Its words are in ``templates/card.txt.j2``. No id, no rating and no fingerprint of ratings is in it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from pricdr import pages
from pricdr.errors import VerificationError, printable
from pricdr.evaluation.verdict import JUDGED, WITHOUT_RELEASE, Training, Verdict
from pricdr.models.fitted import FittedModel, Origin, ReleaseOrigin
from pricdr.models.gates import PERMUTATIONS, SIGNIFICANCE
from pricdr.models.recommend import BASES
from pricdr.pages import ABSENT, Block, Cell, Column, Content, Details, Table
from pricdr.privacy.accounting import is_private
from pricdr.release.certificate import Certificate, rounded_up
from pricdr.release.certify import check
from pricdr.release.inspection import composed
from pricdr.release.readme import statement
from pricdr.report.evaluation import Evaluation, MeasuredFigure, RankingName, read_evaluation
from pricdr.signing import fingerprint, public_from_text

PLAINTEXT: Final = (
    "NOT PRIVATE: this model was trained on the source's ratings in plaintext. It must not be used outside experiments."
)
UNVERIFIED: Final = (
    "The release was not verified before it was used (--allow-unverified). What its certificate says is only a claim."
)
_BASES: Final[Mapping[str, str]] = {
    "history": "the user's own ratings",
    "release": "the user's row in the release",
    "both": "the user's own ratings and row in the release",
    "popularity": "popularity",
}


@dataclass(frozen=True, eq=False)
class ModelCard:
    """Everything about a model for a product team and a privacy officer."""

    name: str  # of its folder
    model: FittedModel
    evaluation: Evaluation | None = None
    """The output of ``pricdr evaluate --json`` for it, or for a model trained the same way on a split."""

    def __post_init__(self) -> None:
        _ = self.measured  # raises now rather than when the card is rendered

    @classmethod
    def of(cls, folder: Path, evaluation: Path | None = None) -> "ModelCard":
        """Return the card of the model in a folder, with the evaluation in a file, if that is of such a model."""
        measured = None if evaluation is None else read_evaluation(evaluation)
        return cls(folder.resolve().name, FittedModel.load(folder), measured)

    @property
    def measured(self) -> str | None:
        """The model in the evaluation that is this one, or represents it."""
        return None if self.evaluation is None else self.evaluation.model_of(self.name, Training.of(self.model))

    @property
    def origin(self) -> Origin:
        """The recorded origin of the model; empty if none was recorded."""
        return self.model.origin or Origin({}, None)

    @property
    def with_release(self) -> bool:
        """Whether it was trained with a release, even if the release is not used."""
        return bool(self.origin.releases)

    @cached_property
    def releases(self) -> tuple["CardRelease", ...]:
        """The releases it was trained with, one of each source: the newest of those that were added up."""
        by_source: dict[int, list[ReleaseOrigin]] = {}
        for one in self.origin.releases:
            by_source.setdefault(one.source, []).append(one)
        return tuple(CardRelease(members[-1], tuple(members)) for _, members in sorted(by_source.items()))

    @property
    def ratings(self) -> int | None:
        """How many ratings it was trained on; None for an exported model."""
        return None if self.model.summary is not None else int(self.model.seen.nnz)

    @property
    def promise(self) -> str:
        """ε, δ, μ and the unit on one line, or why there is no promise."""
        if self.origin.plaintext_source:
            return "none: NOT PRIVATE"
        return "; ".join(one.promise for one in self.releases) or "no release was used"

    @property
    def summary(self) -> dict[str, str]:
        """The most important facts, by name."""
        ratings = "" if self.ratings is None else f", {self.ratings:,} ratings"
        return {
            "Method": self.model.method,
            "Knows": f"{len(self.model.users):,} users x {len(self.model.items):,} items{ratings}",
            "Promise to the source's users": self.promise,
            "Quality": "not measured" if self.evaluation is None else f"measured: {self.evaluation.file}",
        }

    @property
    def page(self) -> pages.Page:
        """The card as a page of blocks."""
        evaluation, measured = self.evaluation, self.measured
        settings = pages.Commands(settings_lines(self.origin.settings) or ["# no settings"])
        blocks: dict[str, Content] = {"groups": [self._groups()], "settings": [Details("settings.toml", [settings])]}
        if evaluation is not None and measured is not None:
            rankings = evaluation.rankings
            blocks["quality"] = [block for one in rankings for block in _ranking(evaluation, measured, one)]
        sections = pages.sections_of(
            "card.txt.j2",
            blocks,
            card=self,
            without=WITHOUT_RELEASE.get(self.model.method, "popularity"),
            significance=SIGNIFICANCE,
            permutations=PERMUTATIONS,
            plaintext=PLAINTEXT,
            unverified=UNVERIFIED,
        )
        warning = [pages.Note(PLAINTEXT)] if self.origin.plaintext_source else []
        return pages.Page(f"Model card: {self.name}", sections, [*warning, pages.Facts(self.summary)])

    def _groups(self) -> Table:
        """Return how many users it knows, with and without a history, with and without a release row that it uses."""
        model = self.model
        warm = model.summary.has_history if model.summary is not None else np.diff(model.seen.indptr) > 0
        bases = model.bases(np.arange(len(model.users)))
        rows = []
        for stratum, in_stratum in (("warm", warm), ("cold", ~warm)):
            for group, has_them in model.release_groups():
                members = in_stratum & has_them
                based_on = " or ".join(_BASES[BASES[at].value] for at in np.unique(bases[members]).tolist())
                if members.any():
                    rows.append([_group_name(stratum, group), f"{int(members.sum()):,}", based_on])
        columns = [*_GROUP_COLUMNS, Column("recommendations based on", numeric=False)]
        return Table("card-groups", "The users it knows, by what it knows about them", columns, rows)


@dataclass(frozen=True, eq=False)
class CardRelease:
    """One of a model's releases, by what is recorded of it."""

    origin: ReleaseOrigin
    members: tuple[ReleaseOrigin, ...] = ()  # of the same source, itself included

    @property
    def certificate(self) -> Certificate | None:
        """Its certificate; None if there is none or it contradicts itself."""
        return None if self.contradiction is not None else self.origin.certificate

    @cached_property
    def contradiction(self) -> str | None:
        """What is wrong with the recorded certificate, if anything: anyone may have written the folder."""
        try:
            if self.origin.certificate is not None:
                check(self.origin.certificate)
        except VerificationError as error:
            return str(error)
        return None

    @property
    def signer(self) -> str | None:
        """The fingerprint of the key that signed it; None if no signature was checked."""
        key = self.origin.signed_by
        return None if key is None else fingerprint(public_from_text(key))

    @property
    def promise(self) -> str:
        """ε, δ, μ and the unit on one line, or why there is no promise."""
        if self.origin.certificate is None:
            return "not recorded"
        c = self.certificate
        if c is None:
            return "none that can be relied on: the certificate contradicts itself"
        if len(self.members) > 1:
            return self.together
        return f"{c.promise} of the source" if c.promises else c.promise

    @property
    def together(self) -> str:
        """What all releases of its source promise together."""
        certificates = [c for one in self.members if (c := CardRelease(one).certificate) is not None]
        cost = composed(certificates) if len(certificates) == len(self.members) else None
        of = f"{len(self.members)} releases of the source together"
        if cost is None:
            return f"none that can be stated of {of}"
        c = certificates[-1]
        mu, epsilon, delta = (f"{rounded_up(value, 4):g}" for value in (*cost, c.delta))
        weak = "" if is_private(cost[1]) else "NOT PRIVATE: "
        return f"{weak}ε = {epsilon}, δ = {delta}, μ = {mu}, for one {c.unit} over all {of}"

    @property
    def statement(self) -> dict[str, tuple[str, ...]]:
        """What the certificate says in words, by heading."""
        return {} if self.certificate is None else {one.title: tuple(one.lines) for one in statement(self.certificate)}


def _group_name(stratum: str, releases: Sequence[int]) -> str:
    """Return the name of a group: users of a stratum who have rows of these releases, of those that the model uses."""
    if not releases:
        return f"{stratum}, without a release row in use"
    of = "" if tuple(releases) == (1,) else f" of {' and '.join(map(str, releases))}"
    return f"{stratum}, with a release row in use{of}"


def settings_lines(settings: Mapping[str, object]) -> list[str]:
    """Return settings as the lines of a TOML file, with all groups in one table."""
    groups = (value if isinstance(value, Mapping) else {name: value} for name, value in settings.items())
    return [f"{printable(str(name))} = {json.dumps(value)}" for group in groups for name, value in group.items()]


_STRATA: Final = {**JUDGED, "all": "all users"}
_RANKING_NAMES: Final = {
    "sampled": "held-out items, ranked among 99 items that the user has not rated",
    "full": "held-out items, ranked among all items that the user has not rated",
}
_GROUP_COLUMNS: Final = [Column("users", numeric=False), Column("number")]


def _ranking(evaluation: Evaluation, measured: str, ranking: RankingName) -> list[Block | str]:
    """Return who gains by one ranking, beside the model that the evaluation starts with; and all figures."""
    # With one held-out item per user, Recall equals HR and MAP equals MRR.
    redundant = {"Recall", "MAP"} if evaluation.test_items == evaluation.users else set()
    metrics = [name for name in evaluation.metrics(measured, ranking) if name.partition("@")[0] not in redundant]
    rows: list[list[Cell | str]] = []
    for stratum, users in _STRATA.items():
        figures = [evaluation.figure(measured, ranking, stratum, metric) for metric in metrics]
        known = next((figure.users for figure in figures if figure is not None), 0)
        rows.append([users, f"{known:,}", *map(_cell, figures)])
    caption = f"All figures, {ranking} ranking: {_RANKING_NAMES[ranking]}"
    columns = [*_GROUP_COLUMNS, *(Column(metric) for metric in metrics)]
    all_figures = Table(f"card-{ranking}-all", caption, columns, rows)
    if measured == evaluation.baseline:
        return [all_figures]
    gains = _gains(evaluation, measured, ranking)
    return [*gains, Details(f"All figures of the {ranking} ranking", [all_figures])]


def _gains(evaluation: Evaluation, measured: str, ranking: RankingName) -> list[Table]:
    """Return what users gain, and where there is a release, also by whether it has a row for them."""
    judged = [one for one in evaluation.verdicts if (one.model, one.ranking) == (measured, ranking)]
    verdicts = {one.stratum: one for one in judged}
    metric, baseline, method = evaluation.compared_by, evaluation.baseline, evaluation.method_of(evaluation.baseline)
    compared = f"“{baseline}”{'' if method is None else f' ({method})'}"
    names, against = (f"“{baseline}”", "this model"), f"compared with {compared}"
    if any(one.about_release for one in judged):
        names, against = ("without the release", "with the release"), "with and without the release"
    columns = [*_GROUP_COLUMNS, *(Column(name) for name in (*names, "difference"))]
    rows: list[list[Cell | str]] = []
    for stratum, users in _STRATA.items():
        without, own = (evaluation.figure(name, ranking, stratum, metric) for name in (baseline, measured))
        if without is None or own is None:
            continue
        change, judgement = Cell(f"{own.value - without.value:+.4f}"), ABSENT
        if one := verdicts.get(stratum):
            change = Cell.of(f"{one.difference:+.4f} [{one.low:+.4f}, {one.high:+.4f}]")
            judgement = Cell(one.verdict.value, strong=one.verdict is Verdict.HELPS)
        rows.append([users, f"{own.users:,}", _cell(without), _cell(own), change, judgement])
    note = f"{_RANKING_NAMES[ranking].capitalize()}. Compared with {compared}, user by user; 95 % intervals."
    caption, last = f"{metric} {against}, {ranking} ranking", Column("verdict", numeric=False)
    tables = [Table(f"card-{ranking}-gains", caption, [*columns, last], rows, note)]
    rows = []
    for group in evaluation.release_rows:
        if (group.model, group.ranking) == (measured, ranking) and group.users:
            values = [ABSENT if one is None else Cell(f"{one:.4f}") for one in (group.baseline_value, group.value)]
            d = group.difference
            change = ABSENT if d is None else Cell.of(f"{d.mean:+.4f} [{d.low:+.4f}, {d.high:+.4f}]")
            rows.append([_group_name(group.stratum, group.releases), f"{group.users:,}", *values, change])
    if rows:
        caption = f"{metric} of users with and without a release row in use, {ranking} ranking"
        tables.append(Table(f"card-{ranking}-rows", caption, columns, rows))
    return tables


def _cell(figure: MeasuredFigure | None) -> Cell:
    if figure is None:
        return ABSENT
    return Cell(f"{figure.value:.4f}", figure.value, "" if figure.error is None else f"± {figure.error:.4f}")
