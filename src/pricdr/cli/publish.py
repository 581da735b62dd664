"""``pricdr publish``: the source party's command."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pricdr.cli.console import progress_bar, say, warn
from pricdr.cli.dry_run import dry_run_json, say_dry_run
from pricdr.cli.engines import AddressOrPath, EngineInput, EngineName, EngineOption
from pricdr.cli.event_log import EventLog
from pricdr.cli.json_log import OPTION, note_spent
from pricdr.cli.json_output import JsonOption, JsonOutput
from pricdr.cli.options import DEFAULT_UNIT, DimOption, UnitOption
from pricdr.cli.publish_settings import DEFAULT_STRATEGY, ConfigOption, PublishSettings, complete, parse_strategy
from pricdr.cli.ratings import FILES, ColumnsOption, ReadingOptions, require_ratings
from pricdr.cli.run_lock import only_spender, require_only_writer
from pricdr.cli.source_screen import cautions_on_screen, say_input, say_result
from pricdr.errors import OutputError, ParameterError, PriCDRError
from pricdr.files import new_folder, require_absent
from pricdr.privacy.strategies import BY_NAME

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from pricdr._publish import DryRun
    from pricdr.alignment.messages import AlignmentRecord
    from pricdr.data.ratings import Ids
    from pricdr.data.reading.read import Reading
    from pricdr.privacy.accounting import Guarantee, Unit
    from pricdr.privacy.ledger import Ledger
    from pricdr.privacy.steps import Bounds
    from pricdr.release import Release
    from pricdr.release.certificate import Certificate


EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 refused by the ledger; 2 bad input or usage, a disk or a cluster that failed; 75 another "
    "run has the ledger or the output, nothing was spent; 130 interrupted, 128 + N ended by signal N. After 2 and 128 "
    "or above, ledger show says what was spent."
)


def publish(
    epsilon: Annotated[float, typer.Option(help="Privacy loss; 1 is strong, 4 moderate, above 8 weak.")],
    delta: Annotated[float, typer.Option(help="Chance of exceeding epsilon; 1e-6 or less is recommended.")],
    out: Annotated[Path, typer.Option(help="The release folder to create.")],
    ratings: Annotated[
        Path | None,
        typer.Argument(
            help=f"The source's ratings (csv, tsv, parquet, inter, jsonl, dat; .gz too): {FILES}.",
            parser=AddressOrPath,
        ),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=BY_NAME.complete,
            help="spectral learns taste directions from the ratings, inside the promise; guided learns them along a "
            "release of the other party; features takes public item features; jlt and sjlt are the paper's. Others by "
            'name ("pricdr list" names them) or as module:Class.',
        ),
    ] = DEFAULT_STRATEGY,
    dim: DimOption = None,
    guide: Annotated[
        Path | None, typer.Option(help="guided: a release folder of the other party, over the same users.")
    ] = None,
    unit: UnitOption = DEFAULT_UNIT,
    clip: Annotated[
        float | None,
        typer.Option(
            help="unit user: the largest sum of a user's ratings (spectral, guided), or norm of a projected profile "
            "(features, jlt, sjlt)."
        ),
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="Count only rows rated at least this.")] = None,
    values: Annotated[
        bool, typer.Option("--values", help="Publish rating values instead of counting rows as 1.")
    ] = False,
    rating_bound: Annotated[float | None, typer.Option(help="values: the largest value a rating can take.")] = None,
    rating_step: Annotated[float | None, typer.Option(help="values: ratings are multiples of this.")] = None,
    users: Annotated[
        Path | None,
        typer.Option(
            help="The agreed user list, one id per line; each gets a row. A record of align beside it is used."
        ),
    ] = None,
    items: Annotated[Path | None, typer.Option(help="The public item universe, one id per line.")] = None,
    columns: ColumnsOption = None,
    engine: EngineOption = EngineName.DUCKDB,
    ledger: Annotated[
        Path | None, typer.Option(help="Count this release against a budget (pricdr ledger init).")
    ] = None,
    sign: Annotated[Path | None, typer.Option(help="Sign with this private key (pricdr keygen).")] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show noise, cost, room left, memory, time and the certificate's words; spend, draw and write "
            "nothing.",
        ),
    ] = False,
    json_output: JsonOption = None,
    log_json: Annotated[
        bool,
        typer.Option(
            OPTION,
            help="For unattended runs: standard error has one JSON line per event, without anything read off the "
            "ratings, and no text for people.",
        ),
    ] = False,
    config: ConfigOption = None,
    insecure_seed: Annotated[int | None, typer.Option(help="TESTS ONLY: repeatable noise, not private.")] = None,
) -> None:
    """Publish ratings under differential privacy: one release folder to hand over.

    Every listed user gets one noisy row. By default each row of RATINGS counts as 1 and one rating is protected.
    Nothing is filtered, and nothing read off the ratings leaves except the noisy rows.
    """
    from pricdr.privacy.accounting import Calibration, Guarantee, Unit

    settings = config or PublishSettings()
    given = require_ratings(ratings, settings.from_, settings.query, "RATINGS")
    reading = ReadingOptions(
        columns,
        settings.delimiter,
        settings.encoding,
        settings.format,
        settings.skip_bad_rows,
        settings.most_bad_rows,
    )
    _require_places(out, settings.log, None if json_output is None else json_output.path)
    with EventLog.opened(settings.log) as events:
        events.record("began", dry_run=dry_run, ratings=str(given), release=str(out))
        guarantee = Guarantee(epsilon=epsilon, delta=delta, unit=Unit(unit.value))
        parsed = parse_strategy(strategy, dim, settings.density, guarantee)
        if settings.calibration == "paper" and not parsed.rows_cancel:
            raise ParameterError(
                f"calibration paper is for the paper's own jlt and sjlt, not for {parsed.name}: add --strategy jlt"
            )
        bounds = _parse_bounds(guarantee.unit, values, threshold, rating_bound, rating_step, clip)
        plan = complete(parsed, settings, guide, items)
        key = None if sign is None else _read_key(sign)
        arguments = {
            "strategy": plan,
            "bounds": bounds,
            "calibration": Calibration(settings.calibration),
            "ledger": None if ledger is None else _open_ledger(ledger, guarantee.unit, key),
            "issuer": settings.issuer,
            "alignment": None if users is None else _read_alignment(users),
            "allow_not_private_guide": settings.allow_not_private_guide,
            "insecure_seed": insecure_seed,
            "insecure_no_noise": settings.insecure_no_noise,
        }
        source = EngineInput(
            given, reading, engine, settings.temp_dir, settings.spark_conf, out, threshold=threshold, values=values
        )
        task = _Task(guarantee, arguments, out, key, events, json_output)
        (task.dry_run if dry_run else task.publish)(source, users, items)


@dataclass(frozen=True)
class _Task:
    """A release to make, and where to report it."""

    guarantee: "Guarantee"
    arguments: dict[str, Any]
    """The other arguments of the library's ``publish``."""
    out: Path
    key: "Ed25519PrivateKey | None"
    events: EventLog
    json_output: JsonOutput | None

    def dry_run(self, given: EngineInput, users: Path | None, items: Path | None) -> None:
        """Show what the release would be. Rows of large files are counted, and not sorted."""
        require_absent(self.out)
        started = monotonic()
        with ExitStack() as lifetime:
            reading, listed, universe = self._read(given, users, items, lifetime, count_only=True)
            seconds = monotonic() - started
            say_input(reading, listed, universe, self.arguments["strategy"], self.arguments["bounds"])
            foreseen = self._dry_run(reading, listed, universe)
            work = foreseen.work
            need = reading.need(work.item_rows, work.user_rows, learns=work.learns)
            if need is not None:
                need.require()
        ledger = self.arguments["ledger"]
        say_dry_run(foreseen, self.guarantee, None if ledger is None else ledger.path, seconds, need)
        self.events.record("dry_run", sigma=foreseen.sigma, mu=foreseen.mu)
        if self.json_output is not None:
            self.json_output.write(dry_run_json(foreseen, self.out, seconds, need))

    def publish(self, given: EngineInput, users: Path | None, items: Path | None) -> None:
        """Make the release, write it and report it."""
        ledger = self.arguments["ledger"]
        # The folder first: an output that cannot be written must be noticed before the budget is spent.
        with new_folder(self.out) as staging:
            require_only_writer(staging, self.out)
            with nullcontext() if ledger is None else self._spending(ledger):
                release, certificate = self._make(staging, given, users, items)
        say_result(release, self.out, learnt=self.arguments["strategy"].learns)
        self.events.record("published", certificate_sha256=hashlib.sha256(certificate).hexdigest())
        if self.json_output is not None:
            content = {"dry_run": False, "release": str(self.out), "certificate": json.loads(certificate)}
            self.json_output.write(content)

    @contextmanager
    def _spending(self, ledger: "Ledger") -> Iterator[None]:
        """Hold the lock of the ledger, and note what was spent, for whatever fails from then on."""
        with only_spender(ledger.path):
            before = len(ledger.read().spends)
            try:
                yield
            finally:
                with suppress(PriCDRError):  # a release that was made is not given up for want of a note
                    for line in ledger.read().spends[before:]:
                        note_spent(ledger_release=line.number, ledger_line=line.hash, mu=line.mu, promise=line.promise)

    def _make(
        self, staging: Path, given: EngineInput, users: Path | None, items: Path | None
    ) -> tuple["Release", bytes]:
        """Write the release into ``staging``, and return it with the bytes of its certificate."""
        from pricdr._publish import publish as publish_ratings
        from pricdr.privacy.strategies.base import MAX_LEARNT
        from pricdr.release.folder import CERTIFICATE, reserve

        with ExitStack() as lifetime:
            reading, listed, universe = self._read(given, users, items, lifetime)
            # Sorting may take hours: refuse now what would be refused afterwards.
            if reading.n_ratings is None:
                work = self._dry_run(reading, listed, universe).work
                if need := reading.need(work.item_rows, work.user_rows, learns=work.learns):
                    say(f"out of core: {need.sentence()}")
                    need.require()
                with progress_bar("sorting") as progress:
                    reading = reading.sorted(self.arguments["strategy"].dim, progress)
            say_input(reading, listed, universe, self.arguments["strategy"], self.arguments["bounds"])
            reserve(staging, listed or reading.ratings.users, self.arguments["strategy"].dim or MAX_LEARNT)
            with cautions_on_screen(), progress_bar() as progress:
                release = publish_ratings(
                    reading.ratings, self.guarantee, users=listed, items=universe, progress=progress, **self.arguments
                )
            # Before the folder is in place: the budget is spent, whatever happens to the disk.
            self.events.record("made", **_disclosed(release.certificate))
            release.write_into(staging, signing_key=self.key)
        return release, (staging / CERTIFICATE).read_bytes()

    def _read(
        self,
        given: EngineInput,
        users: Path | None,
        items: Path | None,
        lifetime: ExitStack,
        *,
        count_only: bool = False,
    ) -> tuple["Reading[Any]", "Ids | None", "Ids | None"]:
        """Read the lists and the ratings."""
        listed, universe = _read_lists(users, items)
        self._require_aligned(users, listed)
        strategy = self.arguments["strategy"]
        counted_items = strategy.catalogue if universe is None else universe
        return given.read(listed, counted_items, lifetime, count_only=count_only), listed, universe

    def _require_aligned(self, users: Path | None, listed: "Ids | None") -> None:
        """Refuse a list that differs from the record beside it, before hours of reading."""
        from pricdr.alignment.messages import require_list

        record = self.arguments["alignment"]
        if record is None or users is None or listed is None:
            return
        require_list(record, listed, name=str(users))
        say(f"{users} came from align (session {record.session}): the certificate says so, and what that revealed")

    def _dry_run(self, reading: "Reading[Any]", listed: "Ids | None", universe: "Ids | None") -> "DryRun":
        from pricdr._publish import dry_run

        return dry_run(reading.ratings, self.guarantee, users=listed, items=universe, **self.arguments)


def _disclosed(certificate: "Certificate") -> dict[str, Any]:
    """Return what a log says about a release: only what its certificate discloses."""
    line = certificate.ledger
    return {
        "software": certificate.software,
        "private": certificate.private,
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "unit": certificate.unit,
        "strategy": certificate.strategy.name,
        "dim": certificate.dim,
        "sigma": certificate.sigma,
        "mu": certificate.mu,
        "ledger_release": None if line is None else line.releases,
        "ledger_line": None if line is None else line.head,
        "warnings": list(certificate.warnings),
    }


def _require_places(out: Path, *beside: Path | None) -> None:
    """Refuse a log or JSON file that is the release folder or inside it, before anything is spent."""
    from pricdr.release.folder import require_outside_releases

    require_outside_releases(out.parent)
    outputs = [out.resolve()]
    for file in (file.resolve() for file in beside if file is not None):
        if any(file == other or other in file.parents or file in other.parents for other in outputs):
            raise OutputError(f"--out, --json and log must be different, none inside another: {file} is used twice")
        outputs.append(file)


def _read_key(file: Path) -> "Ed25519PrivateKey":
    from pricdr.signing import read_private_key

    return read_private_key(file)


def _parse_bounds(
    unit: "Unit",
    values: bool,
    threshold: float | None,
    rating_bound: float | None,
    rating_step: float | None,
    clip: float | None,
) -> "Bounds":
    """Return the declared bounds of the ratings; :class:`ParameterError` where the options contradict each other."""
    from pricdr.privacy.steps import Bounds

    if not values:
        if rating_bound is not None or rating_step is not None:
            raise ParameterError("--rating-bound and --rating-step need --values")
        bounds = Bounds(clip=clip)
    elif threshold is not None:
        raise ParameterError("--threshold and --values exclude each other: rows count as 1, or as their value")
    elif rating_bound is None or rating_step is None:
        raise ParameterError("--values needs --rating-bound and --rating-step: nothing is guessed from the data")
    else:
        bounds = Bounds(rating_bound=rating_bound, rating_step=rating_step, clip=clip)
    bounds.sensitivity(unit)  # refuses a clip that is missing or has no use, before any file is read
    return bounds


def _open_ledger(file: Path, unit: "Unit", key: "Ed25519PrivateKey | None") -> "Ledger":
    """Return the ledger, after checking that this unit and key can spend from it, before anything is read."""
    from pricdr.privacy.ledger import Ledger

    ledger = Ledger(file, key)
    if ledger.require_spendable(unit).signed_by is None and key is not None:
        warn(f"{file} is not signed, so a last line that is changed or cut off goes unnoticed: pricdr ledger sign")
    return ledger


def _read_alignment(users: Path) -> "AlignmentRecord | None":
    from pricdr.alignment.messages import read_alignment

    return read_alignment(users)


def _read_lists(users: Path | None, items: Path | None) -> tuple["Ids | None", "Ids | None"]:
    """Return the listed users and the item universe, each None if no file was given."""
    from pricdr.data.ids import read_ids

    return None if users is None else read_ids(users), None if items is None else read_ids(items)
