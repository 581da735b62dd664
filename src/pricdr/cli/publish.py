"""``pricdr publish``: the source's command. Its screen may show what was read off the ratings; JSON and logs do not."""

import hashlib
import json
import resource
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from typer import Argument, Option

import pricdr.memory
from pricdr.cli.console import LOG_JSON, log_event, note_spent, open_log, progress_bar, say, say_list, warn
from pricdr.cli.options import (
    DEFAULT_UNIT,
    DimOption,
    JsonOption,
    PeriodOption,
    UnitName,
    check_revocations,
    pinned_key,
    read_releases,
    refuse_given,
    warn_of_missing,
    write_json,
)
from pricdr.cli.publish_settings import DEFAULT_STRATEGY, ConfigOption, PublishSettings, complete_strategy
from pricdr.cli.ratings import FILES, ColumnsOption, RatingsInput, shown, warn_of_stars
from pricdr.errors import OutputError, ParameterError, PriCDRError, PublishWarning
from pricdr.files import new_folder, only_run, require_absent, require_only_writer
from pricdr.memory import VARIABLE, format_bytes, memory_limit
from pricdr.privacy.strategies import BY_NAME

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from pricdr._publish import DryRun
    from pricdr.data.ids import Ids
    from pricdr.data.periods import Window
    from pricdr.data.reading.read import Reading
    from pricdr.release.certificate import Certificate
    from pricdr.release.series import Series

EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 refused by the ledger; 2 bad input or usage, a disk or a cluster that failed; 75 another "
    "run has the ledger or the output, nothing was spent; 130 interrupted, 128 + N ended by signal N. After 2 and 128 "
    "or above, ledger show says what was spent."
)


def publish(
    epsilon: Annotated[float, Option(help="Privacy loss; 1 is strong, 4 moderate, above 8 weak.")],
    delta: Annotated[float, Option(help="Chance of exceeding epsilon; 1e-6 or less is recommended.")],
    out: Annotated[Path, Option(help="The release folder to create.")],
    ratings: Annotated[
        str | None, Argument(help=f"The source's ratings (csv, tsv, parquet, inter, jsonl, dat; .gz too): {FILES}.")
    ] = None,
    strategy: Annotated[
        str | None,
        Option(
            metavar="NAME",
            autocompletion=BY_NAME.complete,
            help="spectral learns taste directions from the ratings, inside the promise; guided learns them along a "
            "release of the other party; features takes public item features; jlt and sjlt are the paper's. Others by "
            'name ("pricdr list" names them) or as module:Class.  [default: spectral]',
        ),
    ] = None,
    dim: DimOption = None,
    guide: Annotated[Path | None, Option(help="guided: the other party's release folder, over the same users.")] = None,
    continues: Annotated[
        list[Path] | None,
        Option(help="Go on from these releases, or a folder of them: the next of a series, to be added up."),
    ] = None,
    unit: Annotated[
        UnitName | None,
        Option(help="Protect one rating, all ratings of one user, or a user's of one period.  [default: rating]"),
    ] = None,
    clip: Annotated[
        float | None,
        Option(
            help="unit user: the largest sum of a user's ratings, in a period for user-period; for features, jlt, sjlt "
            "the largest row norm."
        ),
    ] = None,
    period: PeriodOption = None,
    threshold: Annotated[float | None, Option(help="Count only rows rated at least this.")] = None,
    values: Annotated[bool, Option("--values", help="Publish rating values instead of counting rows as 1.")] = False,
    rating_bound: Annotated[float | None, Option(help="values: the largest value a rating can take.")] = None,
    rating_step: Annotated[float | None, Option(help="values: ratings are multiples of this.")] = None,
    users: Annotated[Path | None, Option(help="The agreed user list, one id per line; each gets a row.")] = None,
    items: Annotated[Path | None, Option(help="The public item universe, one id per line.")] = None,
    columns: ColumnsOption = None,
    engine: Annotated[
        Literal["duckdb", "spark"], Option(help="Keep ratings on this machine, or on a Spark cluster.")
    ] = "duckdb",
    ledger: Annotated[Path | None, Option(help="Count this release against a budget (pricdr ledger init).")] = None,
    sign: Annotated[Path | None, Option(help="Sign with this private key (pricdr keygen).")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Show cost and certificate; spend and write nothing.")] = False,
    json_output: JsonOption = None,
    log_json: Annotated[bool, Option(LOG_JSON, help="Unattended: JSON lines of events on standard error.")] = False,
    config: ConfigOption = None,
    insecure_seed: Annotated[int | None, Option(help="TESTS ONLY: repeatable noise, not private.")] = None,
) -> None:
    """Publish ratings under differential privacy: one release folder to hand over.

    Every listed user gets one noisy row. By default each row of RATINGS counts as 1 and one rating is protected.
    Nothing is filtered, and nothing read off the ratings leaves except the noisy rows. A record of align beside --users
    is stated in the certificate. Files too large for memory are sorted on disk.
    """
    from pricdr.release.folder import CERTIFICATE
    from pricdr.signing import read_private_key

    settings = replace(config or PublishSettings(), columns=columns)
    given = settings.require_ratings(None if ratings is None else Path(ratings), "RATINGS")
    _require_places(out, settings.log, None if json_output is None else json_output.path)
    if settings.log is not None:
        open_log(settings.log)
    log_event("began", dry_run=dry_run, ratings=ratings or str(given), release=str(out))
    key = None if sign is None else read_private_key(sign)
    if {rating_bound is not None, rating_step is not None} != {values}:
        raise ParameterError("--values, --rating-bound and --rating-step go together: nothing is guessed from the data")
    if values and threshold is not None:
        raise ParameterError("--threshold and --values exclude each other: rows count as 1, or as their value")
    bounds = pricdr.Bounds(
        rating_bound=rating_bound, rating_step=1.0 if rating_step is None else rating_step, clip=clip
    )
    before = None
    if continues:
        own = {
            "--strategy": strategy,
            "--dim": dim,
            "--guide": guide,
            "--unit": unit,
            "--clip": clip,
            "--values": values,
        }
        refuse_given(own | {"--period": period, "--threshold": threshold}, "--continues takes it over from the series")
        before = _series(continues, settings, key)
        strategy, (unit, period, threshold, bounds) = "continued", _declared_again(before.newest.certificate)
    held, protected = None if ledger is None else pricdr.Ledger(ledger, key), pricdr.Unit(unit or DEFAULT_UNIT)
    guarantee = pricdr.Guarantee(epsilon=epsilon, delta=delta, unit=protected, window=_window(protected, period, held))
    bounds.sensitivity(guarantee.unit)  # refuses a clip that is missing or has no use, before any file is read
    chosen = complete_strategy(strategy or DEFAULT_STRATEGY, guarantee, dim, settings, guide, before)
    arguments: dict[str, Any] = {
        "guarantee": guarantee,
        "strategy": chosen,
        "bounds": bounds,
        "calibration": settings.calibration,
        "ledger": None if held is None else _spendable(held, guarantee, signs=key is not None),
        "issuer": settings.issuer,
        "allow_not_private_guide": settings.allow_not_private_guide,
        "insecure_seed": insecure_seed,
        "insecure_no_noise": settings.insecure_no_noise,
    }
    with ExitStack() as lifetime:
        if dry_run:
            require_absent(out)
        else:
            # The folder first: an output that cannot be written must be noticed before the budget is spent.
            staging = lifetime.enter_context(new_folder(out))
            require_only_writer(staging, out)
            if ledger is not None:
                lifetime.enter_context(_spending(arguments["ledger"]))
        arguments |= _read_lists(users, items)
        started = monotonic()
        location = (ratings or str(given)) if engine == "spark" else None
        folder = Path(tempfile.gettempdir()) if dry_run else out.absolute().parent  # a dry run makes no folder
        reading = _open(given, location, settings, arguments, threshold, folder, lifetime)
        if dry_run:
            found = _dry_run(reading, arguments, monotonic() - started)
        else:
            release = _write_release(reading, arguments, staging, key)
            certificate = (staging / CERTIFICATE).read_bytes()
    if not dry_run:
        _say_result(release, out, learnt=chosen.learns)
        log_event("published", certificate_sha256=hashlib.sha256(certificate).hexdigest())
        found = {"certificate": json.loads(certificate)}
    write_json(json_output, {"dry_run": dry_run, "release": str(out), **found})
    log_event("finished")


def _open(
    given: RatingsInput,
    location: str | None,
    settings: PublishSettings,
    arguments: Mapping[str, Any],
    threshold: float | None,
    folder: Path,
    lifetime: ExitStack,
) -> "Reading[Any]":
    """Read ratings into memory; or, until ``lifetime`` ends, unsorted into ``folder``, or Spark's of ``location``."""
    from pricdr.data.reading.inputs import find_inputs
    from pricdr.data.workspace import Workspace, sweep

    window = arguments["guarantee"].window
    if settings.spark_conf and location is None:
        raise ParameterError("spark-conf is for --engine spark, and the engine is duckdb")
    if settings.temp_dir is not None and location is not None:
        raise ParameterError("temp-dir is for --engine duckdb, and the engine is spark")
    if location is not None:
        if not isinstance(given, Path) or location == "-":
            raise ParameterError("--engine spark reads Parquet or a table (table:NAME), not queries or standard input")
        if others := [name for name in settings.given() if name != "--columns"]:
            raise ParameterError(f"{others[0]} is for files, and --engine spark reads Parquet or a table")
        from pricdr.engines.spark.ratings import open_ratings
        from pricdr.engines.spark.session import parse_settings

        lists = {"users": arguments["users"], "items": _counted_items(arguments)}
        conf, columns = parse_settings(settings.spark_conf), settings.columns
        opened = open_ratings(location, columns=columns, threshold=threshold, window=window, settings=conf, **lists)
        with progress_bar(f"reading {location}"):
            return lifetime.enter_context(opened)
    size, limit = find_inputs(given).size if isinstance(given, Path) else None, memory_limit()
    if size is None or (needed := size * pricdr.memory.EXPANSION) <= limit:
        sweep(folder)  # a killed run that sorted on disk leaves ratings in plaintext
        return settings.read_window(given, threshold, window)
    from pricdr.engines.outofcore import read_on_disk, sort_memory

    workspace = lifetime.enter_context(Workspace.opened(settings.temp_dir or folder))
    say(
        f"out of core: {format_bytes(size)} of files may take {format_bytes(needed)} in memory, and the "
        f"limit is {format_bytes(limit)} ({VARIABLE} changes it); ratings are kept in {workspace.folder} (in "
        f"plaintext, readable only by you, removed at the end) and sorted with {format_bytes(sort_memory())} of memory"
    )
    keep_values = arguments["bounds"].rating_bound is not None
    options = {"keep_values": keep_values, "window": window, **settings.arguments()}
    with progress_bar(f"reading {shown(given)}") as progress:
        return read_on_disk(given, workspace, threshold=threshold, progress=progress, **options)


def _write_release(
    reading: "Reading[Any]", arguments: Mapping[str, Any], staging: Path, key: "Ed25519PrivateKey | None"
) -> "pricdr.Release":
    """Publish, once there is room for it in ``staging``, and write the release there."""
    from pricdr.privacy.strategies.base import MAX_LEARNT
    from pricdr.release.folder import reserve

    dim = arguments["strategy"].dim
    if reading.n_ratings is None:  # sorting may take hours: refuse now what would be refused afterwards
        from pricdr.engines.outofcore import sort_reading

        _foresee(reading, arguments)
        with progress_bar("sorting") as progress:
            reading = sort_reading(reading, arguments["users"], _counted_items(arguments), dim, progress)
    _say_input(reading, arguments)
    reserve(staging, arguments["users"] or reading.ratings.users, dim or MAX_LEARNT)
    with _warnings_on_screen(), progress_bar() as progress:
        release = pricdr.publish(reading.ratings, **arguments, progress=progress)
    # Before the folder is in place: the budget is spent, whatever happens to the disk.
    log_event("made", **_disclosed(release.certificate))
    release.write_into(staging, signing_key=key)
    return release


def _foresee(reading: "Reading[Any]", arguments: Mapping[str, Any]) -> tuple["DryRun", int]:
    """Return what the release would be, and the bytes of memory it takes: out of core, no more than the limit."""
    from pricdr._publish import dry_run

    foreseen = dry_run(reading.ratings, **arguments)
    if reading.n_ratings is not None:  # the peak of this process so far, and what comes on top
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return foreseen, peak * (1 if sys.platform == "darwin" else 1024) + foreseen.work.memory
    from pricdr.engines.outofcore import require_room

    need, parts = require_room(reading.ratings, foreseen.work)
    say(f"out of core: {parts}")
    return foreseen, need


def _counted_items(arguments: Mapping[str, Any]) -> "Ids | None":
    """Return the items whose ratings count; None for all."""
    items: Ids | None = arguments["items"]
    return arguments["strategy"].catalogue if items is None else items


def _say_input(reading: "Reading[Any]", arguments: Mapping[str, Any]) -> None:
    """Show what was read, and which users and items of it count."""
    users, counted, dim = arguments["users"], _counted_items(arguments), arguments["strategy"].dim
    ratings, bounds, raters = reading.ratings, arguments["bounds"], set(reading.raters or ())
    if bounds.rating_bound is None:
        warn_of_stars(reading)
    say(*reading.summary().split("\n"))
    if users is not None and raters:
        absent, others = len(users) - len(raters.intersection(users)), len(raters.difference(users))
        say(
            f"listed users: {len(users):,}, of them {absent:,} without ratings; {others:,} users of the ratings are "
            "not listed and left out"
        )
    if counted is not None and raters:
        listed = "listed items" if arguments["items"] is not None else "items with features"
        say(f"{listed}: {len(counted):,}; {len(set(ratings.items).difference(counted)):,} others are left out")
    if dim is not None and dim > len(counted or ratings.items):
        say(f"dim {dim:,} is above the number of items: allowed, but a smaller one would lose nothing")
    if reading.n_ratings is None:  # rows were only counted
        return
    # To the source alone: a refusal would reveal it to everyone who expects the release.
    selected = ratings.select(users, counted)
    if reading.all_below:
        warn(f"no rating is at least {ratings.threshold:g}: what is published is noise alone")
    elif not len(selected):
        why = "are the user and item columns swapped, or is it another list?"
        if ratings.window is not None and not reading.n_ratings:
            why = f"no row has a time {ratings.window.dates}: are numbers in it seconds since 1970?"
        warn(f"no listed user rated a listed item ({why}): what is published is noise alone")
    if bounds.rating_bound is not None:
        import numpy as np

        from pricdr.data.blocks import InMemory
        from pricdr.data.periods import PeriodRatings

        in_periods = isinstance(selected, PeriodRatings)  # of which each period is forced by itself
        whole = InMemory(selected.matrix) if in_periods else selected.units(lambda block: block)
        totals = whole.total(lambda block, start: np.array([bounds.forced(block)]))
        clamped, rounded = totals[0].tolist()
        if clamped or rounded:
            warn(
                f"--values: of {len(selected):,} ratings {clamped:,} lie outside [0, {bounds.largest:g}] and are "
                f"clamped, {rounded:,} others are not multiples of {bounds.rating_step:g} and are rounded"
            )


def _series(paths: list[Path], settings: PublishSettings, key: "Ed25519PrivateKey | None") -> "Series":
    """Return the series to go on from, none of it revoked and all signed by this key."""
    from pricdr.release.series import to_continue
    from pricdr.signing import public_text

    releases = read_releases(paths, settings.public_key or pinned_key())
    for release in releases:
        check_revocations(release, settings.revocations)
    series = to_continue(releases)
    if series.newest.certificate.signed_by != (None if key is None else public_text(key.public_key())):
        raise ParameterError("--sign must be the key that signed the series, or absent where nobody did")
    warn_of_missing(series)
    return series


def _declared_again(c: "Certificate") -> "tuple[UnitName, str | None, float | None, pricdr.Bounds]":
    """Return what a series declares for its next release too: unit, length of a period, threshold and bounds."""
    from pricdr.release.certify import declared_by

    period = None if c.window is None or c.window.days is None else f"{c.window.days}d"
    return c.unit, period, c.input.threshold, declared_by(c).bounds


def _read_lists(users: Path | None, items: Path | None) -> dict[str, Any]:
    """Return the lists, and the record of the exchange that found the user list, where align wrote one beside it."""
    listed = None if items is None else pricdr.read_ids(items)
    if users is None:
        return {"users": None, "items": listed, "alignment": None}
    from pricdr.alignment.messages import read_alignment, require_list  # few releases have a list

    record, ids = read_alignment(users), pricdr.read_ids(users)
    if record is not None:
        require_list(record, ids, name=str(users))  # before hours of reading
        say(f"{users} came from align (session {record.session}): the certificate says so, and what that revealed")
    return {"users": ids, "items": listed, "alignment": record}


@contextmanager
def _spending(ledger: "pricdr.Ledger") -> Iterator[None]:
    """Hold the lock of the ledger, and note what was spent, for whatever fails from then on."""
    with only_run(ledger.path):
        before = len(ledger.read().spends)
        try:
            yield
        finally:
            with suppress(PriCDRError):  # a release that was made is not given up for want of a note
                for line in ledger.read().spends[before:]:
                    note_spent(ledger_release=line.number, ledger_line=line.hash, mu=line.mu, promise=line.promise)


def _require_places(out: Path, *beside: Path | None) -> None:
    """Refuse a log or JSON file that is the release folder or inside it, before anything is spent."""
    from pricdr.release.folder import require_outside_releases

    require_outside_releases(out.parent)
    outputs = [out.resolve()]
    for file in (file.resolve() for file in beside if file is not None):
        if any(file == other or other in file.parents or file in other.parents for other in outputs):
            raise OutputError(f"--out, --json and log must be different, none inside another: {file} is used twice")
        outputs.append(file)


def _window(unit: "pricdr.Unit", period: str | None, ledger: "pricdr.Ledger | None") -> "Window | None":
    """Return the days that are read: those that the ledger counts; periods without a ledger's days begin in 1970."""
    from pricdr.data.periods import Window, parse_days

    if (period is None) == (unit is pricdr.Unit.USER_PERIOD):
        raise ParameterError("--unit user-period and --period go together: the length of a period, such as 7d")
    budget = None if ledger is None else ledger.read().budget
    declared = None if budget is None or budget.unit is not unit else budget.window  # another unit is refused
    if declared is None:
        return None if period is None else Window.of_periods(period)
    declared.require_begun()  # before anything is read
    return declared if period is None else replace(declared, days=parse_days(period))


def _spendable(ledger: "pricdr.Ledger", guarantee: "pricdr.Guarantee", *, signs: bool) -> "pricdr.Ledger":
    """Return the ledger, after checking that this unit and key can spend from it, before anything is read."""
    if ledger.require_spendable(guarantee.unit, guarantee.window).signed_by is None and signs:
        file = ledger.path
        warn(f"{file} is not signed, so a last line that is changed or cut off goes unnoticed: pricdr ledger sign")
    return ledger


def _disclosed(certificate: "Certificate") -> dict[str, Any]:
    """Return what a log says about a release: only what its certificate discloses."""
    line = certificate.ledger
    same = ("software", "private", "epsilon", "delta", "unit", "dim", "sigma", "mu")
    return {name: getattr(certificate, name) for name in same} | {
        "strategy": certificate.strategy.name,
        "ledger_release": None if line is None else line.releases,
        "ledger_line": None if line is None else line.head,
        "warnings": list(certificate.warnings),
    }


@contextmanager
def _warnings_on_screen() -> Iterator[None]:
    """Show what the library warns of like any other warning of a command."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", PublishWarning)
        warnings.filterwarnings("ignore", "ratings from .* look like stars", PublishWarning)  # said when they were read
        warnings.showwarning = lambda message, *_, **__: warn(str(message))
        yield


def _say_promise(certificate: "Certificate", *, warned: bool) -> None:
    """Show everything that makes a promise weaker than it could be, and both epsilons of the paper's calibration."""
    from pricdr.release.readme import cautions

    for text in () if warned else cautions(certificate, counted=certificate.ledger is not None):
        warn(text)
    if certificate.nominal_epsilon is not None:
        say(f"paper calibration: nominal epsilon {certificate.nominal_epsilon:g}, exact {certificate.epsilon:.4g}")


def _say_result(release: "pricdr.Release", out: Path, *, learnt: bool) -> None:
    _say_promise(release.certificate, warned=release.certificate.promises)  # by the library, before the spend
    if (guide := release.certificate.guide) is not None and guide.missing_users:
        say(f"the guide lacks {guide.missing_users:,} listed users: a row of zeros in it for each")
    if learnt:
        say(f"learnt in {len(release.certificate.steps)} steps, all within the promise; item directions are erased")
    say(f"published {release!r}", f"to {out}; check it with: pricdr verify {shlex.quote(str(out))}")


def _dry_run(reading: "Reading[Any]", arguments: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Show noise, cost, memory, time and certificate; return them, and apart from them what tells the data's size."""
    from pricdr.release.readme import statement

    _say_input(reading, arguments)
    foreseen, memory = _foresee(reading, arguments)
    certificate, balance, budget = foreseen.certificate, foreseen.balance, None
    seconds += foreseen.work.seconds
    log_event("dry_run", sigma=certificate.sigma, mu=certificate.mu)
    if certificate.mu is None:
        say("noise: none", "cost: it is NOT PRIVATE, and no ledger counts it")
    else:
        say(f"noise: sigma {certificate.sigma:.6g} in the published numbers; mu {certificate.mu:.6g} in all")
        say(f"cost: {foreseen.guarantee}")
    if foreseen.sigmas:
        by_clip = ", ".join(f"{sigma:.4g} at {clip:g}" for clip, sigma in foreseen.sigmas.items())
        say(f"sigma by the clip: {by_clip}; choose without a look at the ratings, whose sums are private")
    if balance is not None:
        whole, before = balance.budget, balance.until(len(balance.spends) - 1).epsilon
        after = {"spent_after": balance.epsilon, "room_after": balance.room}
        budget = {"budget": {"epsilon": whole.epsilon, "delta": whole.delta}, "spent_before": before, **after}
        say(
            f"budget: of {whole.epsilon:g} in {arguments['ledger'].path}, epsilon {before:.6g} is spent, and "
            f"{balance.epsilon:.6g} after this release; that leaves room for one more of epsilon {balance.room:.6g}"
        )
    duration = timedelta(seconds=1 + int(seconds))
    why = "(estimates from the size of your data, for this screen alone)"
    say(f"memory: about {format_bytes(memory)}; time: about {duration}, reading included {why}")
    if memory > (limit := memory_limit()):
        warn(f"that is more than {format_bytes(limit)}, the limit for one computation on this machine")
    say("the certificate will say, besides the hashes of files and of the ledger's line:", "")
    for section in statement(certificate):
        say(f"  {section.title}")
        say_list(section.lines, indent="    ")
        say("")
    _say_promise(certificate, warned=False)
    say("dry run: nothing was spent or drawn, and no release was written")
    content = json.loads(certificate.to_bytes())
    for unknown in ("files", "digest", "signed_by"):
        del content[unknown]
    figures = {"sigma": certificate.sigma, "mu": certificate.mu, "ledger": budget, "certificate": content}
    figures["sigma_by_clip"] = {f"{clip:g}": sigma for clip, sigma in foreseen.sigmas.items()}
    return {**figures, "for_the_source_alone": {"memory_bytes": memory, "seconds": seconds}}
