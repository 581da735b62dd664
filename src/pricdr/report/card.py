"""``ModelCard``: what a model is, its data, its promise, how good it is, its limits; as Markdown, HTML or blocks.

Its words are in ``templates/card.txt.j2``. No id, no rating and no fingerprint of ratings is in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from pricdr.errors import VerificationError, printable
from pricdr.evaluation.verdict import JUDGED, WITHOUT_RELEASE, Training
from pricdr.models.fitted import FittedModel, Origin
from pricdr.models.gates import PERMUTATIONS, SIGNIFICANCE
from pricdr.models.recommend import BASES
from pricdr.pages import (
    Block,
    Cell,
    Column,
    Commands,
    Content,
    Details,
    Facts,
    Note,
    Page,
    Row,
    Table,
    markdown,
    render,
    sections_of,
)
from pricdr.release.certificate import Certificate
from pricdr.release.readme import statement
from pricdr.report.evaluation import Evaluation, MeasuredFigure, MeasuredRows, RankingName, read_evaluation

PLAINTEXT: Final = (
    "NOT PRIVATE: this model was trained on the source's ratings in plaintext. It must not be used outside experiments."
)
NO_CERTIFICATE: Final = (
    "Not recorded: there is no copy of the certificate in the model's folder. Train it again, or look at the release "
    "itself."
)
NO_RELEASE: Final = "No release was used. This model contains nothing from the source, so nothing had to be promised."
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

    name: str
    """Of its folder."""
    model: FittedModel
    evaluation: Evaluation | None = None

    @classmethod
    def of(cls, folder: Path, evaluation: Path | None = None) -> "ModelCard":
        """Return the card of the model in a folder.

        Args:
            folder: the model folder.
            evaluation: the output of ``pricdr evaluate --json`` for it, or for a model trained the same way on a split.

        Raises:
            InputError: the folder is not a model, or the evaluation is of another kind of model.
        """
        measured = None if evaluation is None else read_evaluation(evaluation)
        return cls.of_model(FittedModel.load(folder), folder.resolve().name, measured)

    @classmethod
    def of_model(cls, model: FittedModel, name: str, evaluation: Evaluation | None = None) -> "ModelCard":
        """Return the card of a loaded model; ``name`` is the name of its folder."""
        if evaluation is not None:
            evaluation.model_of(name, Training.of(model))  # raises now rather than when the card is rendered
        return cls(name, model, evaluation)

    @property
    def origin(self) -> Origin:
        """The recorded origin of the model; empty if none was recorded."""
        return self.model.origin or Origin({}, None)

    @property
    def with_release(self) -> bool:
        """Whether it was trained with a release, even if the release is not used."""
        return self.origin.release is not None

    @property
    def certificate(self) -> Certificate | None:
        """The certificate of the release it was trained with; None if there is none or it contradicts itself."""
        return None if self.contradiction is not None else self.origin.certificate

    @cached_property
    def contradiction(self) -> str | None:
        """What is wrong with the recorded certificate, if anything: anyone may have written the folder."""
        from pricdr.release.certify import check

        try:
            if self.origin.certificate is not None:
                check(self.origin.certificate)
        except VerificationError as error:
            return str(error)
        return None

    @property
    def summary(self) -> dict[str, str]:
        """The most important facts, by name."""
        ratings = "" if self._ratings is None else f", {self._ratings:,} ratings"
        return {
            "Method": self.model.method,
            "Knows": f"{len(self.model.users):,} users x {len(self.model.items):,} items{ratings}",
            "Promise to the source's users": self._promise(),
            "Quality": "not measured" if self.evaluation is None else f"measured: {self.evaluation.file}",
        }

    @property
    def page(self) -> Page:
        """The card as a page of blocks."""
        origin, evaluation = self.origin, self.evaluation
        settings = Commands(settings_lines(origin.settings) or ["# no settings"])
        blocks: dict[str, Content] = {"groups": [self._groups()], "settings": [Details("settings.toml", [settings])]}
        measured = None if evaluation is None else evaluation.model_of(self.name, Training.of(self.model))
        if evaluation is not None and measured is not None:
            rankings = evaluation.rankings
            blocks["quality"] = [block for one in rankings for block in _ranking(evaluation, measured, one)]
        sections = sections_of(
            "card.txt.j2",
            blocks,
            card=self,
            model=self.model,
            origin=origin,
            recorded=origin.certificate,
            ratings=self._ratings,
            signer=self._signer(),
            statement={} if self.certificate is None else {one.title: one.lines for one in statement(self.certificate)},
            evaluation=evaluation,
            measured=measured,
            is_measured_itself=measured is not None and Evaluation.is_folder(measured, self.name),
            alone=evaluation is not None and measured == evaluation.baseline,
            without=WITHOUT_RELEASE.get(self.model.method, "popularity"),
            significance=SIGNIFICANCE,
            permutations=PERMUTATIONS,
            plaintext=PLAINTEXT,
            no_certificate=NO_CERTIFICATE,
            no_release=NO_RELEASE,
            unverified=UNVERIFIED,
        )
        warning = [Note(PLAINTEXT)] if origin.plaintext_source else []
        return Page(f"Model card: {self.name}", sections, [*warning, Facts(self.summary)])

    def markdown(self) -> str:
        """Return the card as Markdown."""
        return markdown(self.page)

    def html(self) -> str:
        """Return the card as a self-contained HTML file."""
        return render(self.page)

    @property
    def _ratings(self) -> int | None:
        """How many ratings it was trained on; None for an exported model."""
        return None if self.model.summary is not None else int(self.model.seen.nnz)

    def _signer(self) -> str | None:
        """Return the fingerprint of the key that signed its release; None if no signature was checked."""
        from pricdr.signing import fingerprint, public_from_text

        key = self.origin.release_signed_by
        return None if key is None else fingerprint(public_from_text(key))

    def _promise(self) -> str:
        """Return ε, δ and the unit on one line, or why there is no promise."""
        if self.origin.plaintext_source:
            return "none: NOT PRIVATE"
        if not self.with_release:
            return "no release was used"
        if self.origin.certificate is None:
            return "not recorded"
        c = self.certificate
        if c is None:
            return "none that can be relied on: the certificate contradicts itself"
        return f"{c.promise} of the source" if c.promises else c.promise

    def _groups(self) -> Table:
        """Return how many users it knows, with and without a history, with and without a release row that it uses."""
        model = self.model
        warm = model.summary.has_history if model.summary is not None else np.diff(model.seen.indptr) > 0
        bases = model.bases(np.arange(len(model.users)))
        rows = []
        for stratum, in_stratum in (("warm", warm), ("cold", ~warm)):
            for row in (True, False):
                members = in_stratum & (model.in_release == row)
                based_on = " or ".join(_BASES[BASES[at].value] for at in np.unique(bases[members]).tolist())
                if members.any():
                    rows.append(Row([group_name(stratum, row=row), f"{int(members.sum()):,}", based_on]))
        columns = [*_GROUP_COLUMNS, Column("recommendations based on", numeric=False)]
        return Table("card-groups", "The users it knows, by what it knows about them", columns, rows)


def group_name(stratum: str, *, row: bool) -> str:
    """Return the name of a group: users of a stratum with, or without, a release row that the model uses."""
    return f"{stratum}, {'with' if row else 'without'} a release row in use"


def settings_lines(settings: Mapping[str, object]) -> list[str]:
    """Return settings as the lines of a TOML file, with all groups in one table.

    >>> settings_lines({"options": {"seed": 3, "device": "cpu"}, "config": {"gated": True}})
    ['seed = 3', 'device = "cpu"', 'gated = true']
    """
    lines = []
    for name, value in settings.items():
        inner = value.items() if isinstance(value, Mapping) else [(name, value)]
        lines += [f"{printable(str(key))} = {_toml(item)}" for key, item in inner]
    return lines


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = printable(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)


STRATA: Final = ("warm", "few", "cold", "all")
_STRATUM_NAMES: Final = {**JUDGED, "all": "all users"}
_RANKING_NAMES: Final = {
    "sampled": "held-out items, ranked among 99 items that the user has not rated",
    "full": "held-out items, ranked among all items that the user has not rated",
}
_GROUP_COLUMNS: Final = [Column("users", numeric=False), Column("number")]


def _ranking(evaluation: Evaluation, measured: str, ranking: RankingName) -> list[Block | str]:
    """Return who gains by one ranking, beside the model that the evaluation starts with; and all figures."""
    # With one held-out item per user, Recall equals HR and MAP equals MRR.
    redundant = {"Recall", "MAP"} if evaluation.one_item_each else set()
    metrics = [name for name in evaluation.metrics(measured, ranking) if name.partition("@")[0] not in redundant]
    columns = [*_GROUP_COLUMNS, *(Column(metric) for metric in metrics)]
    rows = []
    for stratum in STRATA:
        figures = [evaluation.figure(measured, ranking, stratum, metric) for metric in metrics]
        users = next((f"{figure.users:,}" for figure in figures if figure is not None), "0")
        rows.append(Row([_STRATUM_NAMES[stratum], users, *map(_cell, figures)]))
    caption = f"All figures, {ranking} ranking: {_RANKING_NAMES[ranking]}"
    all_figures = Table(f"card-{ranking}-all", caption, columns, rows)
    if measured == evaluation.baseline:
        return [all_figures]
    gains = _gains(evaluation, measured, ranking)
    return [*gains, Details(f"All figures of the {ranking} ranking", [all_figures])]


def _gains(evaluation: Evaluation, measured: str, ranking: RankingName) -> list[Block | str]:
    verdicts = evaluation.verdicts(measured, ranking)
    metric = evaluation.compared_by
    about_release = any(verdict.about_release for verdict in verdicts)
    method = evaluation.method_of(evaluation.baseline)
    names = ("without the release", "with the release") if about_release else (f"“{evaluation.baseline}”", "this model")
    figures = [Column(name) for name in (*names, "difference")]
    columns = [*_GROUP_COLUMNS, *figures, Column("verdict", numeric=False)]
    rows = []
    for stratum in STRATA:
        without, with_it = (
            evaluation.figure(name, ranking, stratum, metric) for name in (evaluation.baseline, measured)
        )
        if without is None or with_it is None:
            continue
        verdict = next((verdict for verdict in verdicts if verdict.stratum == stratum), None)
        change = (
            Cell(f"{with_it.value - without.value:+.4f}")
            if verdict is None
            else Cell(f"{verdict.difference:+.4f}", verdict.difference, f"[{verdict.low:+.4f}, {verdict.high:+.4f}]")
        )
        judged = Cell("–" if verdict is None else verdict.verdict, strong=verdict is not None and verdict.helps)
        group = [_STRATUM_NAMES[stratum], f"{with_it.users:,}"]
        rows.append(Row([*group, _cell(without), _cell(with_it), change, judged]))
    compared = f"“{evaluation.baseline}”{'' if method is None else f' ({method})'}"
    table = Table(
        f"card-{ranking}-gains",
        f"{metric} with and without the release, {ranking} ranking"
        if about_release
        else f"{metric} compared with {compared}, {ranking} ranking",
        columns,
        rows,
        note=f"{_RANKING_NAMES[ranking].capitalize()}. Compared with {compared}, user by user; 95 % intervals.",
    )
    return [table, *_by_row(evaluation, measured, ranking, names)]


def _by_row(evaluation: Evaluation, measured: str, ranking: RankingName, names: tuple[str, str]) -> Sequence[Table]:
    groups = [group for group in evaluation.release_rows(measured, ranking) if group.users]
    if not groups:
        return []
    rows = [Row([group_name(group.stratum, row=group.row), f"{group.users:,}", *_row_cells(group)]) for group in groups]
    columns = [*_GROUP_COLUMNS, *(Column(name) for name in names), Column("difference")]
    caption = f"{evaluation.compared_by} of users with and without a release row in use, {ranking} ranking"
    return [Table(f"card-{ranking}-rows", caption, columns, rows)]


def _row_cells(group: MeasuredRows) -> list[Cell]:
    values = ["–" if value is None else f"{value:.4f}" for value in (group.baseline_value, group.value)]
    d = group.difference
    change = Cell("–") if d is None else Cell(f"{d.mean:+.4f}", d.mean, f"[{d.low:+.4f}, {d.high:+.4f}]")
    return [*map(Cell, values), change]


def _cell(figure: MeasuredFigure | None) -> Cell:
    if figure is None:
        return Cell("–")
    return Cell(f"{figure.value:.4f}", figure.value, "" if figure.error is None else f"± {figure.error:.4f}")
