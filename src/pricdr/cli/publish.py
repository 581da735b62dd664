"""``pricdr publish``: the source party's command.

What it shows on the source's own screen may be read off the ratings; none of that goes into the release, into JSON or
into a log.
"""

import hashlib
import json
import resource
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from typer import Argument, Option

import pricdr
from pricdr.cli.console import LOG_JSON, log_event, note_spent, open_log, progress_bar, say, say_list, warn
from pricdr.cli.options import DEFAULT_UNIT, DimOption, JsonOption, UnitOption, write_json
from pricdr.cli.publish_settings import DEFAULT_STRATEGY, READING, ConfigOption, PublishSettings, complete_strategy
from pricdr.cli.ratings import FILES, ColumnsOption, RatingsInput, ReadingOptions, require_ratings, shown, warn_of_stars
from pricdr.cli.run_lock import only_run, require_only_writer
from pricdr.errors import OutputError, ParameterError, PriCDRError, PublishWarning
from pricdr.files import new_folder, require_absent
from pricdr.privacy.strategies import BY_NAME

if TYPE_CHECKING:
    from pricdr._publish import DryRun
    from pricdr.alignment.messages import AlignmentRecord
    from pricdr.data.ids import Ids
    from pricdr.data.reading.read import Reading
    from pricdr.release.certificate import Certificate
    from pricdr.strategies import Strategy


EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 refused by the ledger; 2 bad input or usage, a disk or a cluster that failed; 75 another "
    "run has the ledger or the output, nothing was spent; 130 interrupted, 128 + N ended by signal N. After 2 and 128 "
    "or above, ledger show says what was spent."
)
_LOGGED: Final = ("software", "private", "epsilon", "delta", "unit", "dim", "sigma", "mu")
"""What a log takes from a certificate as it stands there."""


def publish(
    epsilon: Annotated[float, Option(help="Privacy loss; 1 is strong, 4 moderate, above 8 weak.")],
    delta: Annotated[float, Option(help="Chance of exceeding epsilon; 1e-6 or less is recommended.")],
    out: Annotated[Path, Option(help="The release folder to create.")],
    ratings: Annotated[
        str | None, Argument(help=f"The source's ratings (csv, tsv, parquet, inter, jsonl, dat; .gz too): {FILES}.")
    ] = None,
    strategy: Annotated[
        str,
        Option(
            metavar="NAME",
            autocompletion=BY_NAME.complete,
            help="spectral learns taste directions from the ratings, inside the promise; guided learns them along a "
            "release of the other party; features takes public item features; jlt and sjlt are the paper's. Others by "
            'name ("pricdr list" names them) or as module:Class.',
        ),
    ] = DEFAULT_STRATEGY,
    dim: DimOption = None,
    guide: Annotated[
        Path | None, Option(help="guided: a release folder of the other party, over the same users.")
    ] = None,
    unit: UnitOption = DEFAULT_UNIT,
    clip: Annotated[
        float | None,
        Option(
            help="unit user: the largest sum of a user's ratings (spectral, guided), or norm of a projected profile "
            "(features, jlt, sjlt)."
        ),
    ] = None,
    threshold: Annotated[float | None, Option(help="Count only rows rated at least this.")] = None,
    values: Annotated[bool, Option("--values", help="Publish rating values instead of counting rows as 1.")] = False,
    rating_bound: Annotated[float | None, Option(help="values: the largest value a rating can take.")] = None,
    rating_step: Annotated[float | None, Option(help="values: ratings are multiples of this.")] = None,
    users: Annotated[
        Path | None,
        Option(help="The agreed user list, one id per line; each gets a row. A record of align beside it is used."),
    ] = None,
    items: Annotated[Path | None, Option(help="The public item universe, one id per line.")] = None,
    columns: ColumnsOption = None,
    engine: Annotated[
        Literal["duckdb", "spark"],
        Option(
            help="Where ratings are kept meanwhile: on this machine, in memory or sorted on disk if the files are "
            "large (duckdb), or on a Spark cluster (extra spark). The release is the same."
        ),
    ] = "duckdb",
    ledger: Annotated[Path | None, Option(help="Count this release against a budget (pricdr ledger init).")] = None,
    sign: Annotated[Path | None, Option(help="Sign with this private key (pricdr keygen).")] = None,
    dry_run: Annotated[
        bool,
        Option(
            "--dry-run",
            help="Show noise, cost, room left, memory, time and the certificate's words; spend, draw and write "
            "nothing.",
        ),
    ] = False,
    json_output: JsonOption = None,
    log_json: Annotated[
        bool,
        Option(
            LOG_JSON,
            help="For unattended runs: standard error has one JSON line per event, without anything read off the "
            "ratings, and no text for people.",
        ),
    ] = False,
    config: ConfigOption = None,
    insecure_seed: Annotated[int | None, Option(help="TESTS ONLY: repeatable noise, not private.")] = None,
) -> None:
    """Publish ratings under differential privacy: one release folder to hand over.

    Every listed user gets one noisy row. By default each row of RATINGS counts as 1 and one rating is protected.
    Nothing is filtered, and nothing read off the ratings leaves except the noisy rows.
    """
    from pricdr.privacy.accounting import Calibration
    from pricdr.release.folder import CERTIFICATE
    from pricdr.signing import read_private_key

    settings = config or PublishSettings()
    path = None if ratings is None else Path(ratings)
    given = require_ratings(path, settings.from_, settings.query, "RATINGS")
    how = ReadingOptions(columns, **{name: getattr(settings, name) for name in READING})
    _require_places(out, settings.log, None if json_output is None else json_output.path)
    if settings.log is not None:
        open_log(settings.log)
    log_event("began", dry_run=dry_run, ratings=ratings or str(given), release=str(out))
    guarantee = pricdr.Guarantee(epsilon=epsilon, delta=delta, unit=pricdr.Unit(unit))
    bounds = _parse_bounds(values, threshold, rating_bound, rating_step, clip)
    bounds.sensitivity(guarantee.unit)  # refuses a clip that is missing or has no use, before any file is read
    chosen = complete_strategy(strategy, guarantee, dim, settings, guide, items)
    key = None if sign is None else read_private_key(sign)
    arguments: dict[str, Any] = {
        "guarantee": guarantee,
        "strategy": chosen,
        "bounds": bounds,
        "calibration": Calibration(settings.calibration),
        "ledger": None if ledger is None else _open_ledger(ledger, guarantee, key),
        "issuer": settings.issuer,
        "allow_not_private_guide": settings.allow_not_private_guide,
        "insecure_seed": insecure_seed,
        "insecure_no_noise": settings.insecure_no_noise,
    }
    location = ratings if engine == "spark" else None
    task = _Task(given, location, how, settings, out, threshold, values, users, items, arguments)
    if dry_run:
        require_absent(out)
        foreseen, cost = task.foresee()
        _say_dry_run(foreseen, ledger, cost)
        log_event("dry_run", sigma=foreseen.certificate.sigma, mu=foreseen.certificate.mu)
        write_json(json_output, _dry_run_json(foreseen, out, cost))
    else:
        # The folder first: an output that cannot be written must be noticed before the budget is spent.
        with new_folder(out) as staging:
            require_only_writer(staging, out)
            with nullcontext() if ledger is None else _spending(arguments["ledger"]), ExitStack() as lifetime:
                release = task.publish(staging, lifetime)  # whose rows may be in a file
                # Before the folder is in place: the budget is spent, whatever happens to the disk.
                log_event("made", **_disclosed(release.certificate))
                release.write_into(staging, signing_key=key)
                certificate = (staging / CERTIFICATE).read_bytes()
        _say_result(release, out, learnt=chosen.learns)
        log_event("published", certificate_sha256=hashlib.sha256(certificate).hexdigest())
        write_json(json_output, {"dry_run": False, "release": str(out), "certificate": json.loads(certificate)})
    log_event("finished")


@dataclass(frozen=True)
class _Task:
    """Ratings to publish, where they are kept meanwhile, and how."""

    given: RatingsInput
    location: str | None
    """What Spark reads: an address or a table as it was written. None for this machine."""
    how: ReadingOptions
    settings: PublishSettings
    out: Path
    threshold: float | None
    values: bool
    users: Path | None
    items: Path | None
    arguments: dict[str, Any]
    """The other arguments of the library's ``publish``."""

    def foresee(self) -> tuple["DryRun", dict[str, float]]:
        """Return what the release would be, and the memory and the seconds that it would take; nothing is sorted."""
        started = monotonic()
        with ExitStack() as lifetime:
            reading, lists = self._read(lifetime, count_only=True)
            seconds = monotonic() - started
            self._say_input(reading, lists)
            foreseen, memory = self._require_memory(reading, lists)
        return foreseen, {"memory_bytes": memory, "seconds": foreseen.work.seconds + seconds}

    def publish(self, staging: Path, lifetime: ExitStack) -> "pricdr.Release":
        """Return the release, once there is room for it in ``staging``."""
        from pricdr.privacy.strategies.base import MAX_LEARNT
        from pricdr.release.folder import reserve

        dim = self.arguments["strategy"].dim
        reading, lists = self._read(lifetime)
        if reading.n_ratings is None:  # sorting may take hours: refuse now what would be refused afterwards
            self._require_memory(reading, lists)
            with progress_bar("sorting") as progress:
                reading = reading.sorted(dim, progress)
        self._say_input(reading, lists)
        reserve(staging, lists["users"] or reading.ratings.users, dim or MAX_LEARNT)
        with _warnings_on_screen(), progress_bar() as progress:
            return pricdr.publish(reading.ratings, **self.arguments, **lists, progress=progress)

    def _require_memory(self, reading: "Reading[Any]", lists: dict[str, Any]) -> tuple["DryRun", int]:
        """Return what the release would be, and the bytes of memory it takes; refuse one that takes too much."""
        from pricdr._publish import dry_run

        foreseen = dry_run(reading.ratings, **self.arguments, **lists)
        need = reading.need(foreseen.work.item_rows, foreseen.work.user_rows, learns=foreseen.work.learns)
        if need is None:  # the ratings are in memory: the peak of this process so far, and what comes on top
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return foreseen, peak * (1 if sys.platform == "darwin" else 1024) + foreseen.work.memory
        need.require()
        say(f"out of core: {need.sentence()}")
        return foreseen, need.total

    def _read(self, lifetime: ExitStack, *, count_only: bool = False) -> tuple["Reading[Any]", dict[str, Any]]:
        """Read the lists and the ratings; those on disk stay there until ``lifetime`` ends, and are not sorted yet."""
        from pricdr.data.workspace import sweep

        users, alignment = _read_users(self.users)
        items = None if self.items is None else pricdr.read_ids(self.items)
        counted = self.arguments["strategy"].catalogue if items is None else items
        if self.settings.spark_conf and self.location is None:
            raise ParameterError("spark-conf is for --engine spark, and the engine is duckdb")
        if self.settings.temp_dir is not None and self.location is not None:
            raise ParameterError("temp-dir is for --engine duckdb, and the engine is spark")
        reading: Reading[Any]
        if self.location is not None:
            reading = self._read_on_spark(users, counted, lifetime)
        elif (why := self._too_large()) is not None:
            reading = self._read_on_disk(why, users, counted, lifetime, count_only=count_only)
        else:
            if not count_only:
                sweep(self.out.absolute().parent)  # a killed run that sorted on disk leaves ratings in plaintext
            reading = self.how.read(self.given, self.threshold)
        if not self.values:
            warn_of_stars(reading)
        return reading, {"users": users, "items": items, "alignment": alignment}

    def _too_large(self) -> str | None:
        """Return why the files are sorted on disk; None where the memory limit lets them be read into memory."""
        from pricdr.data.reading.inputs import find_inputs
        from pricdr.memory import EXPANSION, VARIABLE, format_bytes, memory_limit

        size, limit = find_inputs(self.given).size if isinstance(self.given, Path) else None, memory_limit()
        if size is None or size * EXPANSION <= limit:
            return None
        need = f"{format_bytes(size)} of files may take {format_bytes(size * EXPANSION)} in memory"
        return f"{need}, and the limit is {format_bytes(limit)} ({VARIABLE} changes it)"

    def _read_on_spark(self, users: "Ids | None", items: "Ids | None", lifetime: ExitStack) -> "Reading[Any]":
        from pricdr.engines.spark.ratings import open_ratings
        from pricdr.engines.spark.session import parse_settings

        assert self.location is not None
        if not isinstance(self.given, Path) or self.location == "-":
            raise ParameterError("--engine spark reads Parquet or a table (table:NAME), not queries or standard input")
        if others := [option.removeprefix("--") for option in self.how.given() if option != "--columns"]:
            raise ParameterError(f"{others[0]} is for files, and --engine spark reads Parquet or a table")
        opened = open_ratings(
            self.location,
            columns=self.how.columns,
            threshold=self.threshold,
            users=users,
            items=items,
            settings=parse_settings(self.settings.spark_conf),
        )
        with progress_bar(f"reading {self.location}"):
            return lifetime.enter_context(opened)

    def _read_on_disk(
        self, why: str, users: "Ids | None", items: "Ids | None", lifetime: ExitStack, *, count_only: bool
    ) -> "Reading[Any]":
        from pricdr.data.reading.formats import ReadOptions
        from pricdr.data.workspace import Workspace
        from pricdr.engines.outofcore import read_on_disk, sort_memory
        from pricdr.memory import format_bytes

        beside = Path(tempfile.gettempdir()) if count_only else self.out.absolute().parent  # a dry run makes no folder
        workspace = lifetime.enter_context(Workspace.opened(self.settings.temp_dir or beside))
        kept = f"ratings are kept in {workspace.folder} (in plaintext, readable only by you, removed at the end)"
        say(f"out of core: {why}; {kept} and sorted with {format_bytes(sort_memory())} of memory")
        options = ReadOptions.of(need_rating=self.threshold is not None, **self.how.arguments())
        with progress_bar(f"reading {shown(self.given)}") as progress:
            return read_on_disk(
                self.given,
                options,
                workspace,
                users=users,
                items=items,
                keep_values=self.values,
                threshold=self.threshold,
                progress=progress,
            )

    def _say_input(self, reading: "Reading[Any]", lists: dict[str, Any]) -> None:
        """Show what was read, and which users and items of it count."""
        strategy: Strategy = self.arguments["strategy"]
        users, items = lists["users"], lists["items"]
        say(*reading.summary().split("\n"))
        rated, raters = set(reading.ratings.items), set(reading.raters or ())
        others = raters.difference(users or raters)
        if users is not None and raters:
            kept = "get no row; directions are learnt from them first, and they are protected by the same promise"
            absent = len(users) - len(raters.intersection(users))
            say(
                f"listed users: {len(users):,}, of them {absent:,} without ratings; {len(others):,} users of the "
                f"ratings are not listed and {kept if strategy.learns_from_unlisted and others else 'left out'}"
            )
        if raters and strategy.learns_from_unlisted and not others:
            warn("learn-from all: every user is listed, so there is no other user to learn from")
        counted = strategy.catalogue if items is None else items
        if counted is not None and raters:
            listed = "listed items" if items is not None else "items with features"
            say(f"{listed}: {len(counted):,}; {len(rated.difference(counted)):,} others are left out")
        # To the source alone: a refusal would reveal it to everyone who expects the release.
        if reading.all_below:
            warn(f"no rating is at least {self.threshold:g}: what is published is noise alone")
        elif reading.rates_none(users, counted):
            why = "are the user and item columns swapped, or is it another list?"
            warn(f"no listed user rated a listed item ({why}): what is published is noise alone")
        if strategy.dim is not None and strategy.dim > len(counted or rated):
            say(f"dim {strategy.dim:,} is above the number of items: allowed, but a smaller one would lose nothing")
        if reading.n_ratings is not None:  # otherwise rows were only counted
            _warn_of_clamping(reading, self.arguments["bounds"])


def _read_users(file: Path | None) -> "tuple[Ids | None, AlignmentRecord | None]":
    """Return the user list, and the record of the exchange that found it, where align wrote one beside it."""
    if file is None:
        return None, None
    from pricdr.alignment.messages import read_alignment, require_list  # few releases have a list

    record, users = read_alignment(file), pricdr.read_ids(file)
    if record is not None:
        require_list(record, users, name=str(file))  # before hours of reading
        say(f"{file} came from align (session {record.session}): the certificate says so, and what that revealed")
    return users, record


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


def _parse_bounds(
    values: bool, threshold: float | None, rating_bound: float | None, rating_step: float | None, clip: float | None
) -> "pricdr.Bounds":
    """Return the declared bounds of the ratings; :class:`ParameterError` where the options contradict each other."""
    if {rating_bound is not None, rating_step is not None} != {values}:
        raise ParameterError("--values, --rating-bound and --rating-step go together: nothing is guessed from the data")
    if rating_bound is None or rating_step is None:
        return pricdr.Bounds(clip=clip)
    if threshold is not None:
        raise ParameterError("--threshold and --values exclude each other: rows count as 1, or as their value")
    return pricdr.Bounds(rating_bound=rating_bound, rating_step=rating_step, clip=clip)


def _open_ledger(file: Path, guarantee: "pricdr.Guarantee", key: Any) -> "pricdr.Ledger":  # noqa: ANN401 - a key of cryptography
    """Return the ledger, after checking that this unit and key can spend from it, before anything is read."""
    ledger = pricdr.Ledger(file, key)
    if ledger.require_spendable(guarantee.unit).signed_by is None and key is not None:
        warn(f"{file} is not signed, so a last line that is changed or cut off goes unnoticed: pricdr ledger sign")
    return ledger


def _disclosed(certificate: "Certificate") -> dict[str, Any]:
    """Return what a log says about a release: only what its certificate discloses."""
    line = certificate.ledger
    return {name: getattr(certificate, name) for name in _LOGGED} | {
        "strategy": certificate.strategy.name,
        "ledger_release": None if line is None else line.releases,
        "ledger_line": None if line is None else line.head,
        "warnings": list(certificate.warnings),
    }


def _warn_of_clamping(reading: "Reading[Any]", bounds: "pricdr.Bounds") -> None:
    """Warn the source alone how many ratings are outside the declared bounds."""
    import numpy as np

    if bounds.rating_bound is None:
        return
    ratings = reading.selected
    unchanged = ratings.units(lambda block: block)
    clamped, rounded = unchanged.total(lambda block, start: np.array([bounds.forced(block)]))[0].tolist()
    if clamped or rounded:
        warn(
            f"--values: of {len(ratings):,} ratings {clamped:,} lie outside [0, {bounds.largest:g}] and are clamped, "
            f"{rounded:,} others are not multiples of {bounds.rating_step:g} and are rounded"
        )


@contextmanager
def _warnings_on_screen() -> Iterator[None]:
    """Show what the library warns of like any other warning of a command."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", PublishWarning)
        warnings.filterwarnings("ignore", "ratings from .* look like stars", PublishWarning)  # said when they were read
        warnings.showwarning = lambda message, *_, **__: warn(str(message))
        yield


def _warn_of(certificate: "Certificate") -> None:
    """Warn of everything that makes a promise weaker than it could be."""
    from pricdr.release.readme import cautions

    for text in cautions(certificate, counted=certificate.ledger is not None):
        warn(text)


def _say_nominal(certificate: "Certificate") -> None:
    """Show both epsilons, where the paper's calibration makes the exact one another than the nominal one."""
    if certificate.nominal_epsilon is not None:
        say(f"paper calibration: nominal epsilon {certificate.nominal_epsilon:g}, exact {certificate.epsilon:.4g}")


def _say_result(release: "pricdr.Release", out: Path, *, learnt: bool) -> None:
    """Show what was published, with all warnings."""
    certificate = release.certificate
    if not certificate.promises:  # of anything else the library warned before the spend
        _warn_of(certificate)
    _say_nominal(certificate)
    if certificate.guide is not None and certificate.guide.missing_users:
        say(f"the guide lacks {certificate.guide.missing_users:,} listed users: a row of zeros in it for each")
    if learnt:
        say(f"learnt in {len(certificate.steps)} steps, all within the promise; item directions are erased")
    say(f"published {release!r}", f"to {out}; check it with: pricdr verify {shlex.quote(str(out))}")


def _say_dry_run(foreseen: "DryRun", ledger: Path | None, cost: Mapping[str, float]) -> None:
    """Show noise, cost, remaining budget, memory and time, and then the text of the certificate."""
    from pricdr.memory import format_bytes, memory_limit
    from pricdr.release.readme import statement

    certificate, balance = foreseen.certificate, foreseen.balance
    if certificate.mu is None:
        say("noise: none", "cost: it is NOT PRIVATE, and no ledger counts it")
    else:
        say(f"noise: sigma {certificate.sigma:.6g} in the published numbers; mu {certificate.mu:.6g} in all")
        say(f"cost: {foreseen.guarantee}")
    _say_nominal(certificate)
    if balance is not None:
        say(
            f"budget: of {balance.budget.epsilon:g} in {ledger}, epsilon {foreseen.spent_before:.6g} is spent, and "
            f"{balance.epsilon:.6g} after this release; that leaves room for one more of epsilon {balance.room:.6g}"
        )
    memory, limit, duration = int(cost["memory_bytes"]), memory_limit(), timedelta(seconds=1 + int(cost["seconds"]))
    why = "(estimates from the size of your data, for this screen alone)"
    say(f"memory: about {format_bytes(memory)}; time: about {duration}, reading included {why}")
    if memory > limit:
        warn(f"that is more than {format_bytes(limit)}, the limit for one computation on this machine")
    say("the certificate will say, besides the hashes of files and of the ledger's line:", "")
    for section in statement(certificate):
        say(f"  {section.title}")
        say_list(section.lines, indent="    ")
        say("")
    _warn_of(certificate)
    say("dry run: nothing was spent or drawn, and no release was written")


def _dry_run_json(foreseen: "DryRun", out: Path, cost: Mapping[str, float]) -> dict[str, Any]:
    """Return the same for programs. What depends on the size of the data is kept apart: it is for the source alone."""
    content, budget = json.loads(foreseen.certificate.to_bytes()), None
    if (balance := foreseen.balance) is not None:
        budget = {
            "budget": {"epsilon": balance.budget.epsilon, "delta": balance.budget.delta},
            "spent_before": foreseen.spent_before,
            "spent_after": balance.epsilon,
            "room_after": balance.room,
        }
    return {
        "dry_run": True,
        "release": str(out),
        "sigma": content["sigma"],
        "mu": content["mu"],
        "ledger": budget,
        # Without what depends on the files or the signing key.
        "certificate": {name: content[name] for name in content if name not in {"files", "digest", "signed_by"}},
        "for_the_source_alone": cost,
    }
