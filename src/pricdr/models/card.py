"""``ModelCard``: what a model is, its data, its promise, how good it is, its limits; as Markdown, HTML or blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from pricdr.errors import VerificationError, printable
from pricdr.evaluation.measured import Evaluation, MeasuredFigure, MeasuredRows, RankingName, read_evaluation
from pricdr.evaluation.verdict import JUDGED, WITHOUT_RELEASE, Training
from pricdr.models.fitted import FittedModel, Origin
from pricdr.models.gates import PERMUTATIONS, SIGNIFICANCE
from pricdr.models.recommend import BASES, Basis
from pricdr.pages import (
    Block,
    Bullets,
    Cell,
    Column,
    Commands,
    Content,
    Details,
    Facts,
    Note,
    Page,
    Row,
    Section,
    Table,
    markdown,
    render,
)
from pricdr.release.certificate import Certificate
from pricdr.release.readme import statement

METHOD_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "hetero": "Two networks learn vectors of the target's users and items; a third maps a user's release row to such "
    "a vector.",
    "hetero-paper": "HeteroCDR as printed in the paper: one network for the target's ratings and one for release rows, "
    "trained together.",
    "symmetric": "Auto-encoders on both sides, for the target's ratings and for release rows.",
    "dmf": "Two networks learn vectors of the target's users and items, from the target's ratings alone.",
    "bpr": "A vector for each user and each item, learnt by ranking rated items above others.",
    "neumf": "A vector for each user and each item, and a small network over both.",
    "conet": "Two networks, one for each company's ratings, with connections between them.",
    "ddtcdr": "Two networks, one for each company's ratings, and a map between their users.",
    "darec": "Auto-encoders for both companies' ratings, trained so that the two cannot be told apart.",
    "etl": "Auto-encoders for both companies' ratings, joined by one transformation.",
    "popularity": "All users get the items that were rated most often.",
    "itemknn": "Items similar to those a user rated, where similar items have the same raters.",
    "ease": "A weight from every item to every other, computed in one step.",
    "ease-source": "A weight from every item of both companies to every item of the target, computed in one step.",
    "ease-release": "A weight from every item, and from every number of a release row, to every item, computed in one "
    "step.",
    "ridge-release": "Scores of all items straight from a user's release row; the user's own ratings are not used.",
}
"""What each built-in method does, for people who will not read its code."""

BASIS_NAMES: Final[Mapping[str, str]] = {
    "history": "the user's own ratings",
    "release": "the user's row in the release",
    "both": "the user's own ratings and row in the release",
    "popularity": "popularity",
}

FOR_ITS_USERS: Final = "To rank the items of its catalogue for the target's users."
FOR_RELEASED_USERS: Final = (
    "To rank the items of its catalogue for the target's users, and for users of the release who have not rated "
    "anything there yet."
)
NOT_FOR: Final = (
    "Not for decisions about people. It predicts what a person may like from ratings. It knows nothing else, and is "
    "often wrong about an individual."
)
LIMITS: Final = (
    "It knows only the users and items it was trained on. A new user gets the most popular items, and a new item is "
    "never recommended until the model is trained again.",
    "A score orders items for one user. It is not a probability, and scores of two models cannot be compared.",
    "Quality figures hold for the split they were measured on: one protocol, one point in time, these users.",
)
EXPORTED: Final = (
    "It was exported without the ratings it was trained on, so it may recommend items that a user has already rated."
)
TARGET_SIDE: Final = (
    "The target's own ratings. The model learnt from them without noise, so the model folder, its recommendations and "
    "its similar items can reveal something about them. Protect the folder like the ratings.",
    "What recommendations reveal. Anyone who sees the recommendations of a user learns something about that user's "
    "taste, and from their basis whether the user has ratings here or a row in the release.",
)
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
NOT_MEASURED: Final = "not measured"


@dataclass(frozen=True)
class UserGroup:
    """Users with or without ratings of their own, and with or without a release row that the model uses."""

    stratum: str
    row: bool
    users: int
    bases: tuple[Basis, ...]
    """What their recommendations are based on; more than one if users of the group differ."""


@dataclass(frozen=True, eq=False)
class ModelInfo:
    """The facts about a model that a card shows: no ids and no fingerprint of ratings."""

    name: str
    model: FittedModel

    @property
    def origin(self) -> Origin:
        """The recorded origin of the model; empty if none was recorded."""
        return self.model.origin or Origin({}, None)

    @property
    def ratings(self) -> int | None:
        """How many ratings it was trained on; None for an exported model."""
        return None if self.model.summary is not None else int(self.model.seen.nnz)

    @property
    def with_release(self) -> bool:
        """Whether it was trained with a release, even if the release is not used."""
        return self.origin.release is not None

    @property
    def certificate(self) -> Certificate | None:
        """The certificate of its release, as recorded in the model folder."""
        return self.origin.certificate

    @property
    def signer(self) -> str | None:
        """The fingerprint of the key that signed its release; None if no signature was checked."""
        from pricdr.signing import fingerprint, public_from_text

        key = self.origin.release_signed_by
        return None if key is None else fingerprint(public_from_text(key))

    @cached_property
    def contradiction(self) -> str | None:
        """What is wrong with the recorded certificate, if anything: anyone may have written the folder."""
        from pricdr.release.certify import check

        if self.certificate is None:
            return None
        try:
            check(self.certificate)
        except VerificationError as error:
            return str(error)
        return None

    @cached_property
    def groups(self) -> tuple[UserGroup, ...]:
        """The groups of users, without empty ones."""
        model = self.model
        warm = model.summary.has_history if model.summary is not None else np.diff(model.seen.indptr) > 0
        bases = model.bases(np.arange(len(model.users)))
        groups = []
        for stratum, in_stratum in (("warm", warm), ("cold", ~warm)):
            for row in (True, False):
                members = in_stratum & (model.in_release == row)
                group_bases = tuple(BASES[at] for at in np.unique(bases[members]).tolist())
                groups.append(UserGroup(stratum, row, int(members.sum()), group_bases))
        return tuple(group for group in groups if group.users)


PROMISE: Final = ("What is promised", "What it means for a whole user")
"""The headings of a certificate's statement that a card includes."""


def promise_summary(info: ModelInfo) -> str:
    """Return ε, δ and the unit on one line, or why there is no promise."""
    c = info.certificate
    if info.origin.plaintext_source:
        return "none: NOT PRIVATE"
    if not info.with_release:
        return "no release was used"
    if c is None:
        return "not recorded"
    if info.contradiction is not None:
        return "none that can be relied on: the certificate contradicts itself"
    return f"{c.promise} of the source" if c.promises else c.promise


def what_it_is(info: ModelInfo) -> Section:
    """Return the method, the sizes and the settings."""
    facts = {"Method": info.model.method}
    if info.model.method in METHOD_DESCRIPTIONS:
        facts["Description"] = METHOD_DESCRIPTIONS[info.model.method]
    facts |= {
        "Users it knows": f"{len(info.model.users):,}",
        "Items it recommends from": f"{len(info.model.items):,}",
        "Created with": info.origin.software or "not recorded",
        **_epochs(info),
    }
    return Section("What it is", [Facts(facts)], id="what")


def data(info: ModelInfo) -> Section:
    """Return what it was trained on, and the groups of users it knows."""
    ratings = "not in the model, which was exported without them" if info.ratings is None else f"{info.ratings:,}"
    facts = {"Target's ratings": ratings, **_source_facts(info)}
    blocks: list[Block | str] = [Facts(facts)]
    if info.origin.plaintext_source:
        blocks.insert(0, Note(PLAINTEXT))
    columns = [Column("users", numeric=False), Column("number"), Column("recommendations based on", numeric=False)]
    rows = [
        Row(
            [
                group_name(group.stratum, row=group.row),
                f"{group.users:,}",
                " or ".join(BASIS_NAMES[one.value] for one in group.bases),
            ]
        )
        for group in info.groups
    ]
    blocks.append(Table("card-groups", "The users it knows, by what it knows about them", columns, rows))
    return Section("What it was trained on", blocks, id="data")


def trust(info: ModelInfo) -> Section | None:
    """Return how far the release is trusted and the result of the evidence test; None without a release."""
    if not info.with_release:
        return None
    chosen, lines = info.model.chosen, []
    if chosen.evidence is None:
        lines.append("Evidence test: not recorded, or not run.")
    else:
        passed = chosen.evidence <= SIGNIFICANCE
        lines.append(
            f"Evidence test: {'passed' if passed else 'failed'}, p = {chosen.evidence:.3g} (at most "
            f"{SIGNIFICANCE:g} passes). It tests whether the release rows and the target histories of the same users "
            f"are related at all, against {PERMUTATIONS} random pairings. A release that fails is not used."
        )
    if chosen.trust is None:
        lines.append("Trust: none was chosen; this method always uses the release it is given.")
    else:
        lines.append(
            f"Trust: {chosen.trust.warm:.0%} for warm users and {chosen.trust.cold:.0%} for cold ones. At 0 % the "
            "release is not used for them. Held-out items decided this: a gain had to exceed its standard error."
        )
    if chosen.not_chosen:
        lines.append(f"No items could be set aside for this choice: {chosen.not_chosen}.")
    return Section("How far the release is trusted", [Bullets(lines)], id="trust")


def use_and_limits(info: ModelInfo) -> list[Section]:
    """Return what the model is for, its limits, and what is not protected."""
    limits = [*LIMITS, *([EXPORTED] if info.ratings is None else [])]
    use = FOR_RELEASED_USERS if info.with_release else FOR_ITS_USERS
    certificate = info.certificate
    source_side = () if certificate is None or info.contradiction is not None else certificate.not_protected
    unprotected: list[Block | str] = []
    if source_side:
        unprotected += ["On the source's side, according to the certificate:", Bullets(list(source_side))]
    unprotected += ["On the target's side:", Bullets(TARGET_SIDE)]
    return [
        Section("What it is for", [Bullets([use, NOT_FOR])], id="use"),
        Section("Limits", [Bullets(limits)], id="limits"),
        Section("What is not protected", unprotected, id="not-protected"),
    ]


def reproduce(info: ModelInfo) -> Section:
    """Return the commands that reproduce the model, and those that measure it."""
    settings = settings_lines(info.origin.settings)
    train = f"pricdr train RATINGS{_flags(info)} --method {info.model.method} --config settings.toml --out MODEL"
    blocks: list[Block | str] = [
        "The same data, settings, seed and kind of device give the same model. RATINGS stands for the file and the "
        "options that it was read with, such as --threshold. Save the settings as settings.toml:",
        Details("settings.toml", [Commands(settings or ["# no settings"])]),
        Commands([*(["pricdr verify RELEASE"] if info.with_release else []), train]),
        "Quality is measured on held-out items, which the measured model was not trained on:",
        Commands(measuring_commands(info)),
    ]
    return Section("How to reproduce it", blocks, id="reproduce")


def measuring_commands(info: ModelInfo) -> list[str]:
    """Return the commands that measure such a model; with a release, also a model without it for comparison."""
    train = f"pricdr train SPLIT{_flags(info)} --method {info.model.method} --config settings.toml --out"
    card = "pricdr model card MODEL --evaluation evaluation.json"
    if not info.with_release:
        return [
            "pricdr split RATINGS --out SPLIT",
            f"{train} measured.model",
            "pricdr evaluate measured.model SPLIT --json evaluation.json",
            card,
        ]
    without = WITHOUT_RELEASE.get(info.model.method, "popularity")
    return [
        "pricdr split RATINGS --cold 0.2 --out SPLIT",
        f"{train} with.model",
        f"pricdr train SPLIT --method {without} --out without.model",
        "pricdr evaluate without.model with.model SPLIT --json evaluation.json",
        card,
    ]


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


def _source_facts(info: ModelInfo) -> dict[str, str]:
    origin = info.origin
    if origin.plaintext_source:
        return {"Source's data": "its ratings in plaintext: NOT PRIVATE"}
    if origin.release is None:
        return {"Source's data": "none"}
    facts = {"Source's data": "a release"}
    c = info.certificate
    if c is not None:
        facts["Release"] = f"{c.users:,} users x {c.dim:,} numbers, strategy {c.strategy.name}"
        facts["Issuer (self-declared)"] = c.issuer or "not declared"
        facts["Issued"] = c.issued or "not declared"
    if origin.release_covers is not None:
        facts["Users in the release"] = "{:,} of the target's {:,} users".format(*origin.release_covers)
    facts["SHA-256 of the release"] = origin.release
    facts["Signature"] = (
        "none was checked"
        if info.signer is None
        else f"valid; compare the fingerprint of its key with the one from the source: {info.signer}"
    )
    return facts


def _promise_blocks(info: ModelInfo) -> Content:
    origin, c = info.origin, info.certificate
    if origin.plaintext_source:
        return [Note(PLAINTEXT)]
    if origin.release is None:
        return [NO_RELEASE]
    if c is None:
        return [Note(NO_CERTIFICATE), Commands(["pricdr inspect RELEASE"])]
    if info.contradiction is not None:
        return [Note(f"Do not rely on the recorded certificate. {info.contradiction}")]
    notes = [Note(UNVERIFIED)] if origin.release_verified is False else []
    warnings = [line for part in statement(c) if part.title == "Warnings" for line in part.lines]
    promised = [line for part in statement(c) if part.title in PROMISE for line in part.lines]
    return [
        *notes,
        "To the users whose ratings the source published, according to the certificate of the release. Training on it "
        "and recommending from it cost them no further privacy:",
        Bullets(promised),
        *([Note(f"Warnings: {'; '.join(warnings)}")] if warnings else []),
    ]


def _epochs(info: ModelInfo) -> dict[str, str]:
    chosen = info.model.chosen
    facts = {}
    if chosen.epochs:
        facts["Epochs"] = ", ".join(f"{network} {epoch:,}" for network, epoch in chosen.epochs.items())
    if chosen.settings:
        facts["Chosen settings"] = ", ".join(f"{name} {value:g}" for name, value in chosen.settings.items())
    return facts


def _flags(info: ModelInfo) -> str:
    if info.origin.plaintext_source:
        return " --source SOURCE"
    return " --release RELEASE" if info.with_release else ""


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
_ONE_SPLIT: Final = "A single split can be misleading: pricdr evaluate --repeat N gives a verdict over several."
_GROUP_COLUMNS: Final = [Column("users", numeric=False), Column("number")]


def quality(info: ModelInfo, evaluation: Evaluation | None) -> Section:
    """Return the figures, where they come from, and who gains; without an evaluation, how to measure them."""
    title = "How good it is, and who gains"
    if evaluation is None:
        note = f"Quality: {NOT_MEASURED}."
        if info.with_release:
            note += f" With and without the release: {NOT_MEASURED}. Who gains: {NOT_MEASURED}."
        note += " To measure it, run:"
        return Section(title, [Note(note), Commands(measuring_commands(info))], id="quality")
    measured = evaluation.model_of(info.name, Training.of(info.model))
    blocks: list[Block | str] = [_provenance(info, evaluation, measured)]
    alone = measured == evaluation.baseline
    if alone and info.with_release:
        blocks.append(
            Note(
                f"With and without the release: {NOT_MEASURED}. The evaluation does not start with a model without it."
            )
        )
    for ranking in evaluation.rankings:
        blocks += _ranking(evaluation, measured, ranking, alone=alone)
    repeated = evaluation.repeated_verdicts(measured)
    if repeated:
        lines = [f"Over several splits, {verdict.ranking} ranking, {verdict.sentence}." for verdict in repeated]
        blocks.append(Bullets(lines))
    elif not alone:
        blocks.append(_ONE_SPLIT)
    return Section(title, blocks, id="quality")


def _provenance(info: ModelInfo, evaluation: Evaluation, measured: str) -> str:
    subject = (
        "this model"
        if evaluation.is_folder(measured, info.name)
        else f"“{measured}”, a model trained the same way on a split,"
    )
    return (
        f"From {evaluation.file}, written by pricdr evaluate: figures of {subject} over {evaluation.users:,} users and "
        f"{evaluation.test_items:,} held-out items ({evaluation.protocol}). ± is one standard error over users."
    )


def _ranking(evaluation: Evaluation, measured: str, ranking: RankingName, *, alone: bool) -> list[Block | str]:
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
    if alone:
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


@dataclass(frozen=True, eq=False)
class ModelCard:
    """Everything about a model for a product team and a privacy officer, without any id or rating."""

    info: ModelInfo
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
        info = ModelInfo(name, model)
        if evaluation is not None:
            evaluation.model_of(name, Training.of(info.model))  # raises now rather than when the card is rendered
        return cls(info, evaluation)

    @property
    def certificate(self) -> Certificate | None:
        """The certificate of the release it was trained with; None if there is none or it contradicts itself."""
        return None if self.info.contradiction is not None else self.info.certificate

    @property
    def summary(self) -> dict[str, str]:
        """The most important facts, by name."""
        info = self.info
        ratings = "" if info.ratings is None else f", {info.ratings:,} ratings"
        return {
            "Method": info.model.method,
            "Knows": f"{len(info.model.users):,} users x {len(info.model.items):,} items{ratings}",
            "Promise to the source's users": promise_summary(info),
            "Quality": "not measured" if self.evaluation is None else f"measured: {self.evaluation.file}",
        }

    @property
    def page(self) -> Page:
        """The card as a page of blocks."""
        info = self.info
        warning = [Note(PLAINTEXT)] if info.origin.plaintext_source else []
        parts: list[Section | None] = [
            what_it_is(info),
            data(info),
            Section("What is promised, and to whom", _promise_blocks(info), id="privacy"),
            quality(info, self.evaluation),
            trust(info),
            *use_and_limits(info),
            reproduce(info),
        ]
        return Page(
            f"Model card: {info.name}",
            [part for part in parts if part is not None],
            [*warning, Facts(self.summary)],
        )

    def markdown(self) -> str:
        """Return the card as Markdown."""
        return markdown(self.page)

    def html(self) -> str:
        """Return the card as a self-contained HTML file."""
        return render(self.page)
