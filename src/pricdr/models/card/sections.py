"""The sections of a card that need only the model: what it is, its data, the promise, limits, how to reproduce it."""

from collections.abc import Mapping
from typing import Final

from pricdr.errors import printable
from pricdr.evaluation.verdict import WITHOUT_RELEASE
from pricdr.models.card import texts
from pricdr.models.card.info import ModelInfo, UserGroup
from pricdr.models.gates import PERMUTATIONS, SIGNIFICANCE
from pricdr.pages import Block, Bullets, Column, Commands, Content, Details, Facts, Note, Row, Section, Table
from pricdr.release.readme import statement

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
    facts = {"Method": info.method}
    if info.method in texts.METHOD_DESCRIPTIONS:
        facts["Description"] = texts.METHOD_DESCRIPTIONS[info.method]
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
        blocks.insert(0, Note(texts.PLAINTEXT))
    columns = [Column("users", numeric=False), Column("number"), Column("recommendations based on", numeric=False)]
    rows = [Row([group_name(group.stratum, row=group.row), f"{group.users:,}", _bases(group)]) for group in info.groups]
    blocks.append(Table("card-groups", "The users it knows, by what it knows about them", columns, rows))
    return Section("What it was trained on", blocks, id="data")


def privacy(info: ModelInfo) -> Section:
    """Return what was promised to the source's users, and what that means."""
    return Section("What is promised, and to whom", list(_promise_blocks(info)), id="privacy")


def trust(info: ModelInfo) -> Section | None:
    """Return how far the release is trusted and the result of the evidence test; None without a release."""
    if not info.with_release:
        return None
    chosen, lines = info.chosen, []
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
    limits = [*texts.LIMITS, *([texts.EXPORTED] if info.ratings is None else [])]
    use = texts.FOR_RELEASED_USERS if info.with_release else texts.FOR_ITS_USERS
    certificate = info.certificate
    source_side = () if certificate is None or info.contradiction is not None else certificate.not_protected
    unprotected: list[Block | str] = []
    if source_side:
        unprotected += ["On the source's side, according to the certificate:", Bullets(list(source_side))]
    unprotected += ["On the target's side:", Bullets(texts.TARGET_SIDE)]
    return [
        Section("What it is for", [Bullets([use, texts.NOT_FOR])], id="use"),
        Section("Limits", [Bullets(limits)], id="limits"),
        Section("What is not protected", unprotected, id="not-protected"),
    ]


def reproduce(info: ModelInfo) -> Section:
    """Return the commands that reproduce the model, and those that measure it."""
    settings = settings_lines(info.origin.settings)
    train = f"pricdr train RATINGS{_flags(info)} --method {info.method} --config settings.toml --out MODEL"
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
    train = f"pricdr train SPLIT{_flags(info)} --method {info.method} --config settings.toml --out"
    card = "pricdr model card MODEL --evaluation evaluation.json"
    if not info.with_release:
        return [
            "pricdr split RATINGS --out SPLIT",
            f"{train} measured.model",
            "pricdr evaluate measured.model SPLIT --json evaluation.json",
            card,
        ]
    without = WITHOUT_RELEASE.get(info.method, "popularity")
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
        return [Note(texts.PLAINTEXT)]
    if origin.release is None:
        return [texts.NO_RELEASE]
    if c is None:
        return [Note(texts.NO_CERTIFICATE), Commands(["pricdr inspect RELEASE"])]
    if info.contradiction is not None:
        return [Note(f"Do not rely on the recorded certificate. {info.contradiction}")]
    notes = [Note(texts.UNVERIFIED)] if origin.release_verified is False else []
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
    chosen = info.chosen
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


def _bases(group: UserGroup) -> str:
    return " or ".join(texts.BASIS_NAMES[basis.value] for basis in group.bases)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = printable(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
