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
from pricdr.cli.engines import (
    AddressOrPath,
    EngineInput,
    EngineName,
    EngineOption,
    SparkConfOption,
    TempDirOption,
)
from pricdr.cli.event_log import EventLog
from pricdr.cli.json_log import note_spent
from pricdr.cli.json_output import JsonOption, JsonOutput
from pricdr.cli.options import DEFAULT_UNIT, PublicKeyOption, UnitOption
from pricdr.cli.publish_options import (
    AllowNotPrivateGuideOption,
    BucketsOption,
    CalibrationName,
    CalibrationOption,
    ClipOption,
    DensityOption,
    DimOption,
    DryRunOption,
    FillGuideOption,
    GuideOption,
    InsecureNoNoiseOption,
    InsecureSeedOption,
    IssuerOption,
    ItemFeaturesOption,
    ItemsOption,
    LearnFromOption,
    LedgerOption,
    LogJsonOption,
    LogOption,
    RatingBoundOption,
    RatingStepOption,
    RefineOption,
    SignOption,
    StrategyOption,
    ThresholdOption,
    UsersOption,
    ValuesOption,
    parse_bounds,
)
from pricdr.cli.ratings import (
    FILES,
    ColumnsOption,
    DelimiterOption,
    EncodingOption,
    FormatOption,
    FromOption,
    MostBadRowsOption,
    QueryOption,
    ReadingOptions,
    SkipBadRowsOption,
    require_ratings,
)
from pricdr.cli.rehearsal import rehearsed, say_rehearsal
from pricdr.cli.revocations import RevocationsOption
from pricdr.cli.run_lock import only_spender, require_only_writer
from pricdr.cli.source_screen import cautions_on_screen, say_input, say_result
from pricdr.cli.strategy_options import DEFAULT_STRATEGY, StrategyOptions, parse_strategy
from pricdr.errors import OutputError, ParameterError, PriCDRError
from pricdr.files import new_folder, require_absent

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from pricdr._publish import DryRun
    from pricdr.alignment.messages import AlignmentRecord
    from pricdr.data.ratings import Ids
    from pricdr.data.reading.report import Reading
    from pricdr.privacy.accounting import Guarantee, Unit
    from pricdr.privacy.ledger import Ledger
    from pricdr.release import Release
    from pricdr.release.certificate import Certificate
    from pricdr.strategies import Strategy


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
    strategy: StrategyOption = DEFAULT_STRATEGY,
    dim: DimOption = None,
    guide: GuideOption = None,
    refine: RefineOption = None,
    fill_guide: FillGuideOption = False,
    public_key: PublicKeyOption = None,
    revocations: RevocationsOption = None,
    allow_not_private_guide: AllowNotPrivateGuideOption = False,
    item_features: ItemFeaturesOption = None,
    learn_from: LearnFromOption = None,
    buckets: BucketsOption = None,
    density: DensityOption = None,
    unit: UnitOption = DEFAULT_UNIT,
    clip: ClipOption = None,
    threshold: ThresholdOption = None,
    values: ValuesOption = False,
    rating_bound: RatingBoundOption = None,
    rating_step: RatingStepOption = None,
    users: UsersOption = None,
    items: ItemsOption = None,
    source_address: FromOption = None,
    query: QueryOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    format: FormatOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    most_bad_rows: MostBadRowsOption = None,
    engine: EngineOption = EngineName.DUCKDB,
    temp_dir: TempDirOption = None,
    spark_conf: SparkConfOption = None,
    calibration: CalibrationOption = CalibrationName.EXACT,
    ledger: LedgerOption = None,
    sign: SignOption = None,
    issuer: IssuerOption = None,
    insecure_seed: InsecureSeedOption = None,
    insecure_no_noise: InsecureNoNoiseOption = False,
    dry_run: DryRunOption = False,
    json_output: JsonOption = None,
    log: LogOption = None,
    log_json: LogJsonOption = False,
) -> None:
    """Publish ratings under differential privacy: one release folder to hand over.

    Every listed user gets one noisy row. By default each row of RATINGS counts as 1 and one rating is protected.
    Nothing is filtered, and nothing read off the ratings leaves except the noisy rows.
    """
    from pricdr.privacy.accounting import Calibration, Guarantee, Unit

    given = require_ratings(ratings, source_address, query, "RATINGS")
    reading = ReadingOptions(columns, delimiter, encoding, format, skip_bad_rows, most_bad_rows)
    _require_places(out, log, None if json_output is None else json_output.path)
    with EventLog.opened(log) as events:
        events.record("began", dry_run=dry_run, ratings=str(given), release=str(out))
        guarantee = Guarantee(epsilon=epsilon, delta=delta, unit=Unit(unit.value))
        parsed = parse_strategy(strategy, dim, density, guarantee)
        _require_paper(calibration, parsed)
        bounds = parse_bounds(guarantee.unit, values, threshold, rating_bound, rating_step, clip)
        plan = StrategyOptions(
            guide=guide,
            public_key=public_key,
            revocations=revocations,
            refine=refine,
            fill_guide=fill_guide,
            allow_not_private_guide=allow_not_private_guide,
            item_features=item_features,
            learn_from=learn_from,
            buckets=buckets,
            items=items,
        ).complete(parsed)
        key = None if sign is None else _read_key(sign)
        arguments = {
            "strategy": plan,
            "bounds": bounds,
            "calibration": Calibration(calibration.value),
            "ledger": None if ledger is None else _open_ledger(ledger, guarantee.unit, key),
            "issuer": issuer,
            "alignment": None if users is None else _read_alignment(users),
            "allow_not_private_guide": allow_not_private_guide,
            "insecure_seed": insecure_seed,
            "insecure_no_noise": insecure_no_noise,
        }
        source = EngineInput(given, reading, engine, temp_dir, spark_conf, out, threshold=threshold, values=values)
        task = _Task(guarantee, arguments, out, key, events, json_output)
        (task.rehearse if dry_run else task.publish)(source, users, items)


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

    def rehearse(self, given: EngineInput, users: Path | None, items: Path | None) -> None:
        """Show what the release would be. Rows of large files are counted, and not sorted."""
        require_absent(self.out)
        started = monotonic()
        with ExitStack() as lifetime:
            reading, listed, universe = self._read(given, users, items, lifetime, count_only=True)
            seconds = monotonic() - started
            say_input(reading, listed, universe, self.arguments["strategy"], self.arguments["bounds"])
            rehearsal = self._rehearsed(reading, listed, universe)
            work = rehearsal.work
            need = reading.need(work.item_rows, work.user_rows, learns=work.learns)
            if need is not None:
                need.require()
        ledger = self.arguments["ledger"]
        say_rehearsal(rehearsal, self.guarantee, None if ledger is None else ledger.path, seconds, need)
        self.events.record("rehearsed", sigma=rehearsal.sigma, mu=rehearsal.mu)
        if self.json_output is not None:
            self.json_output.write(rehearsed(rehearsal, self.out, seconds, need))

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
        from pricdr.privacy.strategies.base import MOST_LEARNT
        from pricdr.release.folder import CERTIFICATE, reserve

        with ExitStack() as lifetime:
            reading, listed, universe = self._read(given, users, items, lifetime)
            # Sorting may take hours: refuse now what would be refused afterwards.
            if reading.n_ratings is None:
                work = self._rehearsed(reading, listed, universe).work
                if need := reading.need(work.item_rows, work.user_rows, learns=work.learns):
                    say(f"out of core: {need.sentence()}")
                    need.require()
                with progress_bar("sorting") as progress:
                    reading = reading.sorted(self.arguments["strategy"].dim, progress)
            say_input(reading, listed, universe, self.arguments["strategy"], self.arguments["bounds"])
            reserve(staging, listed or reading.ratings.users, self.arguments["strategy"].dim or MOST_LEARNT)
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

    def _rehearsed(self, reading: "Reading[Any]", listed: "Ids | None", universe: "Ids | None") -> "DryRun":
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
            raise OutputError(f"--out, --log and --json must be different, none inside another: {file} is used twice")
        outputs.append(file)


def _read_key(file: Path) -> "Ed25519PrivateKey":
    from pricdr.signing import read_private_key

    return read_private_key(file)


def _require_paper(calibration: CalibrationName, strategy: "Strategy") -> None:
    if calibration is CalibrationName.PAPER and not strategy.rows_cancel:
        raise ParameterError(
            f"--calibration paper is for the paper's own jlt and sjlt, not for {strategy.name}: add --strategy jlt"
        )


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
