"""Options that several commands share, and what a command found, for programs: ``--json FILE`` and ``--json -``."""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

from typer import Context, Option

import pricdr
from pricdr.cli.console import LOG_JSON, answer, progress_bar, warn
from pricdr.errors import ParameterError
from pricdr.extensions import Registry
from pricdr.files import require_local, require_writable, write_new

if TYPE_CHECKING:
    from pricdr.release.series import Series

T = TypeVar("T")
_PINNED = "PRICDR_PUBLIC_KEY"
_MAX_WARNINGS = 5
# Wrong usage, too, must be a line of JSON, before any file is read.
_ON_THE_COMMAND_LINE_ALONE: Final = frozenset({"config", LOG_JSON.removeprefix("--")})


def _require_pinned(given: Path | None) -> Path | None:
    """Refuse an empty variable: a script that lost its key's name would go on without asking for a signature."""
    if given is None and os.environ.get(_PINNED) == "":
        raise ParameterError(f"{_PINNED} is set and empty: let it name a public key (a PEM file), or unset it")
    return given


PublicKeyOption: TypeAlias = Annotated[
    Path | None, Option(envvar=_PINNED, callback=_require_pinned, help="Require a signature by this key (a PEM file).")
]
RevocationsOption: TypeAlias = Annotated[
    Path | None, Option(help="Refuse a release that a notice in this folder revokes, signed by the release's own key.")
]
NotPrivateOption: TypeAlias = Annotated[
    bool, Option("--allow-not-private", help="EXPERIMENTS ONLY: use a release that is not private.")
]
DeviceName: TypeAlias = Literal["auto", "cpu", "cuda"]
UnitName: TypeAlias = Literal["rating", "user", "user-period"]
DEFAULT_UNIT: Final = "rating"  # the unit of the paper
UnitOption: TypeAlias = Annotated[
    UnitName, Option(help="Protect one rating, all ratings of one user, or those of one user in one period.")
]
PeriodOption: TypeAlias = Annotated[str | None, Option(metavar="DAYS", help="unit user-period: such as 7d.")]
DimOption: TypeAlias = Annotated[
    int | None, Option(help="Numbers per user.  [default: 8, or 4 below epsilon 4; jlt, sjlt: 200]")
]


def refuse_given(options: Mapping[str, object], rule: str) -> None:
    """Refuse those of these options that were given, for they would be ignored."""
    if given := [name for name, value in options.items() if value is not None and value is not False and value != []]:
        raise ParameterError(f"{' and '.join(given)}: {rule}")


def refuse_unused_key(given: Path | None, why: str) -> None:
    """Refuse --public-key where there is nothing that it could check; a pinned variable is for other commands too."""
    if given is not None and str(given) != os.environ.get(_PINNED):
        raise ParameterError(f"--public-key {given} has nothing to check here: {why}")


def pinned_key() -> Path | None:
    """Return the public key that the environment pins, for a command without the option."""
    _require_pinned(None)
    return Path(os.environ[_PINNED]) if _PINNED in os.environ else None


def check_revocations(release: "pricdr.Release | None", folder: Path | None) -> str | None:
    """Refuse a release that was revoked and warn of notices that do not count; return what was looked at, in words."""
    if folder is None:
        return None
    if release is None or not release.verified:
        raise ParameterError("--revocations takes back releases that verify: there is none here to look up")
    from pricdr.release.revocation import require_not_revoked

    count, remarks = require_not_revoked(release, folder)
    for remark in remarks[:_MAX_WARNINGS]:
        warn(f"{folder}: {remark}")
    if len(remarks) > _MAX_WARNINGS:
        warn(f"{folder}: {len(remarks) - _MAX_WARNINGS:,} more were ignored")
    if release.certificate.signed_by is None:
        warn("the release is not signed: no notice can revoke it")
    return f"no notice in {folder} revokes it ({count:,} read)"


def read_releases(
    paths: Iterable[Path], public_key: Path | None = None, *, allow_unverified: bool = False
) -> "list[pricdr.Release]":
    """Return the releases in these folders, and in folders of releases, verified unless that is switched off."""
    if not paths:
        refuse_unused_key(public_key, "there is no release")
    if public_key is not None and allow_unverified:
        pinned = "a public key is pinned (--public-key or PRICDR_PUBLIC_KEY)"
        raise ParameterError(f"--allow-unverified checks no signature, and {pinned}: remove one of the two")
    found = []
    for folder in release_folders(paths):
        with progress_bar(f"reading {folder}"):
            found.append(pricdr.Release.load(folder, public_key=public_key, allow_unverified=allow_unverified))
    return found


def release_folders(paths: Iterable[Path]) -> list[Path]:
    """Return the release folders that these paths are, or that are in them."""
    found = []
    for path in paths:
        inside = sorted(file.parent for file in path.glob("*/certificate.json"))
        found += inside if inside and not (path / "certificate.json").exists() else [path]
    return found


def warn_of_missing(series: "Series") -> None:
    """Warn of places of a series that no release is at."""
    from pricdr.release.series import places_said

    if missing := series.missing:
        places = "place" if len(missing) == 1 else "places"
        warn(
            f"the series has no release at {places} {places_said(missing)}: it failed, was lost or revoked, or was not "
            "given, or the ledger paid for something else"
        )


def name_given(registry: Registry[T], text: str) -> str:
    """Return the name of what --method or --strategy asks for, by name or as module:Class, once it is found."""
    try:
        name = registry.resolve_reference(text)
        registry.find(name)
    except ParameterError as error:
        raise ParameterError(f"--{registry.kind}: {error}") from error
    return name


def whole_numbers(option: str, text: str, example: str) -> tuple[int, ...]:
    """Return the numbers in a text such as ``5,10,20``."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        rule = f"takes whole numbers with commas between them, such as {example}"
        raise ParameterError(f"{option} {rule}, got {text!r:.80}")
    return tuple(map(int, parts))


def require_page(path: Path | None) -> None:
    """Refuse an output file that could not be written, or would spoil a release, before any work is done."""
    from pricdr.release.folder import require_outside_releases

    if path is not None:
        require_writable(path)
        require_outside_releases(path)


def settings_of(kind: type[Any]) -> dict[str, str]:
    """Return the fields of a dataclass that a file for ``--config`` sets, by their names there."""
    return {each.name.strip("_").replace("_", "-"): each.name for each in fields(kind) if each.name != "columns"}


def read_settings(kind: type[T], table: Mapping[str, object], file: Path | None) -> T:
    """Return the dataclass with the settings of a table that was read from ``file``."""
    from pydantic import TypeAdapter, ValidationError

    from pricdr.data.reading.text_files import shorten

    names = settings_of(kind)
    values = {names[key]: value for key, value in table.items() if key in names}
    try:
        # Strict, and as JSON: the kinds of values that TOML has too, of which paths and names are text.
        settings = TypeAdapter(kind).validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = str(first["loc"][0]).strip("_").replace("_", "-")
        rule = first["msg"].replace("Input should", "must")
        raise ParameterError(f"{file}: {key} {rule}, got {shorten(first['input'])}") from error
    for path in (value for value in vars(settings).values() if isinstance(value, Path)):
        require_local(path)
    return settings


def config_option(kind: type[Any]) -> Any:  # noqa: ANN401 - as typer's own
    """Return the option ``--config``: a file that may set every option by its name, and the fields of ``kind``."""

    def read(context: Context, file: Path | None) -> object:
        if file is None or context.resilient_parsing:
            return None
        from pricdr.data.reading.text_files import read_toml, shorten

        table = read_toml(file)
        options = {each.opts[0].lstrip("-"): each for each in context.command.params}
        allowed = sorted({*options, *settings_of(kind)} - _ON_THE_COMMAND_LINE_ALONE)
        for key in table:
            if key not in allowed:
                raise ParameterError(f"{file}: unknown key {shorten(key)}; allowed are {', '.join(allowed)}")
        # As words of the command line, so that the same rules hold.
        words = {key: str(value).lower() if isinstance(value, bool) else value for key, value in table.items()}
        context.default_map = {
            str(option.name): _as_words(words[key], several=getattr(option, "multiple", False))
            for key, option in options.items()
            if key in table
        }
        return read_settings(kind, table, file)

    text = "Settings in TOML: these options by their names, and rarer ones; the command line wins."
    return Option("--config", metavar="FILE", parser=Path, callback=read, is_eager=True, help=text)


def _as_words(value: object, *, several: bool) -> str | list[str]:
    """Return the words that would give an option this value; one of several need not be in a list."""
    if isinstance(value, list):
        return list(map(str, value))
    return [str(value)] if several else str(value)


class JsonOutput:
    """Where a command's JSON goes: a new file, or standard output."""

    def __init__(self, path: str) -> None:
        self.path = None if path == "-" else Path(path)
        self.stream = sys.stdout


def write_json(output: JsonOutput | None, content: Mapping[str, Any]) -> None:
    """Write what a command found where ``--json`` asks for it; a number that is not finite becomes null."""
    if output is None:
        return
    finite = json.loads(json.dumps(content), parse_constant=lambda _: None)
    # In ASCII, so that ids from outside cannot act on a terminal.
    text = json.dumps(finite, indent=2, allow_nan=False)
    if output.path is None:
        with redirect_stdout(output.stream):
            answer(*text.split("\n"))
    else:
        write_new(output.path, f"{text}\n".encode())


def _prepared(context: Context, output: JsonOutput | None) -> JsonOutput | None:
    """Refuse a file that cannot be made before any work is done; keep standard output for the JSON alone."""
    if output is not None and not context.resilient_parsing:  # not while a shell asks for completions
        require_page(output.path)
        if output.path is None:
            context.with_resource(redirect_stdout(sys.stderr))
    return output


JsonOption: TypeAlias = Annotated[
    JsonOutput | None,
    Option(
        "--json",
        metavar="FILE|-",
        parser=JsonOutput,
        callback=_prepared,
        help="Also write all of it as JSON: a new file, or - for nothing but JSON on standard output.",
    ),
]
