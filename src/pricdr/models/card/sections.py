"""The sections of a card that a model alone can fill: what it is, its data, the promise, limits, how to repeat it."""

from collections.abc import Mapping
from typing import Final

from pricdr.errors import printable
from pricdr.evaluation.verdict import WITHOUT_RELEASE
from pricdr.models.card import words
from pricdr.models.card.known import KnownModel, UserGroup
from pricdr.models.evidence import PERMUTATIONS, SIGNIFICANCE
from pricdr.pages import Bullets, Commands, Content, Details, Facts, Note, Row, Section, Table
from pricdr.pages.blocks import Block
from pricdr.pages.tables import Column
from pricdr.release.certificate import rounded_up
from pricdr.release.statement import statement

PROMISE: Final = ("What is promised", "What it means for a whole user")
"""The headings of a certificate's statement that a card repeats."""


def promise_in_short(known: KnownModel) -> str:
    """Return ε, δ and the unit on one line, or why there is none."""
    c = known.certificate
    if known.origin.plaintext_source:
        return "none: NOT PRIVATE"
    if not known.with_release:
        return "no release was used"
    if c is None:
        return "not recorded"
    if known.contradiction is not None:
        return "none that could be relied on: its certificate contradicts itself"
    if not c.private or c.epsilon is None:
        return "none: the release is NOT PRIVATE"
    return f"ε = {_up(c.epsilon)}, δ = {_up(c.delta)}, for one {c.unit} of the source's"


def what_it_is(known: KnownModel) -> Section:
    """Return the method, the sizes and the settings."""
    facts = {"Method": known.method}
    if known.method in words.METHOD_WORDS:
        facts["In words"] = words.METHOD_WORDS[known.method]
    facts |= {
        "Users it knows": f"{len(known.model.users):,}",
        "Items it recommends from": f"{len(known.model.items):,}",
        "Made by": known.origin.software or "not recorded",
        **_epochs(known),
    }
    return Section("What it is", [Facts(facts)], id="what")


def data(known: KnownModel) -> Section:
    """Return what it was trained on, and which users that is about."""
    ratings = "not in the model: it was exported without them" if known.ratings is None else f"{known.ratings:,}"
    facts = {"Target's ratings": ratings, **_source_facts(known)}
    blocks: list[Block | str] = [Facts(facts)]
    if known.origin.plaintext_source:
        blocks.insert(0, Note(words.PLAINTEXT))
    columns = [Column("users", numeric=False), Column("how many"), Column("recommendations rest on", numeric=False)]
    rows = [Row([group_name(one.stratum, row=one.row), f"{one.users:,}", _bases(one)]) for one in known.groups]
    blocks.append(Table("card-groups", "The users it knows, by what it knows about them", columns, rows))
    return Section("What it was trained on", blocks, id="data")


def privacy(known: KnownModel) -> Section:
    """Return what was promised to the source's users, and what that means."""
    return Section("What is promised, and to whom", list(_promised(known)), id="privacy")


def trust(known: KnownModel) -> Section | None:
    """Return how far the release is trusted and what the evidence test said; None without a release."""
    if not known.with_release:
        return None
    chosen, lines = known.chosen, []
    if chosen.evidence is None:
        lines.append("Evidence test: not recorded, or not made.")
    else:
        passed = chosen.evidence <= SIGNIFICANCE
        lines.append(
            f"Evidence test: {'passed' if passed else 'failed'}, p = {chosen.evidence:.3g}; at most {SIGNIFICANCE:g} "
            "passes. It asks whether release rows and target histories of the same users are related at all, against "
            f"{PERMUTATIONS} random pairings. A release that fails is not used."
        )
    if chosen.trust is None:
        lines.append("Trust: none was chosen; this method always uses what it is given.")
    else:
        lines.append(
            f"Trust: {chosen.trust.warm:.0%} for warm users and {chosen.trust.cold:.0%} for cold ones. At 0 % the "
            "release is not used for them; held-out items decided it, and a gain had to exceed its standard error."
        )
    if chosen.not_chosen:
        lines.append(f"Nothing could be set aside to choose by: {chosen.not_chosen}.")
    return Section("How far the release is trusted", [Bullets(lines)], id="trust")


def use_and_limits(known: KnownModel) -> list[Section]:
    """Return what the model is for, where it ends, and what is not protected."""
    limits = [*words.LIMITS, *([words.EXPORTED] if known.ratings is None else [])]
    use = words.FOR_RELEASED_USERS if known.with_release else words.FOR_ITS_USERS
    certificate = known.certificate
    source_side = () if certificate is None or known.contradiction is not None else certificate.not_protected
    unprotected: list[Block | str] = []
    if source_side:
        unprotected += ["Of the source's ratings, by the words of the certificate:", Bullets(list(source_side))]
    unprotected += ["Of the target's:", Bullets(words.TARGET_SIDE)]
    return [
        Section("What it is for", [Bullets([use, words.NOT_FOR])], id="use"),
        Section("Limits", [Bullets(limits)], id="limits"),
        Section("What is not protected", unprotected, id="not-protected"),
    ]


def reproduce(known: KnownModel) -> Section:
    """Return the commands that make such a model again, and those that measure it."""
    settings = settings_lines(known.origin.settings)
    train = f"pricdr train RATINGS{_flags(known)} --method {known.method} --config settings.toml --out MODEL"
    blocks: list[Block | str] = [
        "The same data, settings, seed and kind of device give the same model. RATINGS is the file with the options it "
        "was read with then, such as --threshold. The settings are a file, settings.toml:",
        Details("settings.toml", [Commands(settings or ["# no settings"])]),
        Commands([*(["pricdr verify RELEASE"] if known.with_release else []), train]),
        "Figures of quality come from a split that nobody trained on:",
        Commands(measuring_commands(known)),
    ]
    return Section("How to make it again", blocks, id="reproduce")


def measuring_commands(known: KnownModel) -> list[str]:
    """Return the commands that measure such a model, beside one without the release where that says what it adds."""
    train = f"pricdr train SPLIT{_flags(known)} --method {known.method} --config settings.toml --out"
    card = "pricdr model card MODEL --evaluation evaluation.json"
    if not known.with_release:
        return [
            "pricdr split RATINGS --out SPLIT",
            f"{train} measured.model",
            "pricdr evaluate measured.model SPLIT --json evaluation.json",
            card,
        ]
    without = WITHOUT_RELEASE.get(known.method, "popularity")
    return [
        "pricdr split RATINGS --cold 0.2 --out SPLIT",
        f"{train} with.model",
        f"pricdr train SPLIT --method {without} --out without.model",
        "pricdr evaluate without.model with.model SPLIT --json evaluation.json",
        card,
    ]


def group_name(stratum: str, *, row: bool) -> str:
    """Return what a card calls the users of a stratum with, or without, a release row that the model uses."""
    return f"{stratum}, {'with' if row else 'without'} a release row in use"


def settings_lines(settings: Mapping[str, object]) -> list[str]:
    """Return settings as the lines of a TOML file, those of all groups in one table.

    >>> settings_lines({"options": {"seed": 3, "device": "cpu"}, "config": {"gated": True}})
    ['seed = 3', 'device = "cpu"', 'gated = true']
    """
    lines = []
    for name, value in settings.items():
        inner = value.items() if isinstance(value, Mapping) else [(name, value)]
        lines += [f"{printable(str(key))} = {_toml(one)}" for key, one in inner]
    return lines


def _source_facts(known: KnownModel) -> dict[str, str]:
    origin = known.origin
    if origin.plaintext_source:
        return {"Source's data": "its ratings as they are: NOT PRIVATE"}
    if origin.release is None:
        return {"Source's data": "none"}
    facts = {"Source's data": "a release"}
    c = known.certificate
    if c is not None:
        facts["Release"] = f"{c.users:,} users x {c.dim:,} numbers, strategy {c.strategy.name}"
        facts["Issuer, by its own account"] = c.issuer or "not declared"
        facts["Issued"] = c.issued or "not declared"
    if origin.release_covers is not None:
        facts["It lists"] = "{:,} of the target's {:,} users".format(*origin.release_covers)
    facts["Release, by SHA-256"] = origin.release
    facts["Signature"] = (
        "none that was checked"
        if known.signer is None
        else f"valid; compare its key's fingerprint with the source's: {known.signer}"
    )
    return facts


def _promised(known: KnownModel) -> Content:
    origin, c = known.origin, known.certificate
    if origin.plaintext_source:
        return [Note(words.PLAINTEXT)]
    if origin.release is None:
        return [words.NO_RELEASE]
    if c is None:
        return [Note(words.NO_CERTIFICATE), Commands(["pricdr inspect RELEASE"])]
    if known.contradiction is not None:
        return [Note(f"Do not rely on the recorded certificate. {known.contradiction}")]
    notes = [Note(words.UNVERIFIED)] if origin.release_verified is False else []
    warned = [line for part in statement(c) if part.title == "Warnings" for line in part.lines]
    told = [line for part in statement(c) if part.title in PROMISE for line in part.lines]
    return [
        *notes,
        "To the users whose ratings the source published, by the certificate of the release; training on it and "
        "recommending from it cost them nothing further:",
        Bullets(told),
        *([Note(f"Warned of: {'; '.join(warned)}")] if warned else []),
    ]


def _epochs(known: KnownModel) -> dict[str, str]:
    chosen = known.chosen
    facts = {}
    if chosen.epochs:
        facts["Epochs"] = ", ".join(f"{network} {epoch:,}" for network, epoch in chosen.epochs.items())
    if chosen.settings:
        facts["Settings chosen"] = ", ".join(f"{name} {value:g}" for name, value in chosen.settings.items())
    return facts


def _flags(known: KnownModel) -> str:
    if known.origin.plaintext_source:
        return " --source SOURCE"
    return " --release RELEASE" if known.with_release else ""


def _bases(group: UserGroup) -> str:
    return " or ".join(words.BASIS_WORDS[basis.value] for basis in group.bases)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        shown = printable(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{shown}"'
    return repr(value)


def _up(value: float) -> str:
    """Return ε or δ as text, rounded up: a promise must not look better than it is."""
    return f"{rounded_up(value, 4):g}"
