"""``pricdr ledger``: a budget over all releases of one source."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from typer import Argument, Option

import pricdr
from pricdr.cli import options
from pricdr.cli.console import say, warn
from pricdr.errors import ParameterError

if TYPE_CHECKING:
    from pricdr.privacy.ledger import Balance
    from pricdr.privacy.plan import Allowance

_FAR: Final = 5200  # weeks for which a calendar says something
_MAX_NAMED: Final = 10  # releases that a line names by their numbers
FileArgument = Annotated[Path, Argument(help="The ledger file.")]
app = typer.Typer(help="Keep one budget over every release of the same ratings.")


@app.command("init")
def init(
    file: Annotated[Path, Argument(help="The ledger file to create.")],
    epsilon: Annotated[float, Option(help="The most that all releases together may cost.")],
    delta: Annotated[float, Option(help="The delta at which epsilon is counted.")],
    unit: options.UnitOption = options.DEFAULT_UNIT,
    begin: Annotated[
        str | None, Option("--from", metavar="DATE", help="Count only rows from this day on, UTC.")
    ] = None,
    until: Annotated[str | None, Option(metavar="DATE", help="And only rows before this day.")] = None,
    period: options.PeriodOption = None,
    after: Annotated[Path | None, Option(help="The same source's ledger for the days before.")] = None,
    sign: Annotated[Path | None, Option(help="Sign it with this private key, now and at every spend.")] = None,
    json_output: options.JsonOption = None,
) -> None:
    """Create a ledger. Its budget and unit can never be changed, and one ledger counts one unit.

    With --from and --until it counts rows of those days alone, and other days have a budget of their own: publish reads
    no other row. With --sign, nobody without the key or an older copy can change or cut off its end unnoticed.
    """
    from pricdr.data.periods import Window
    from pricdr.privacy.accounting import epsilon_warnings
    from pricdr.signing import read_private_key

    if (begin is None) != (until is None):
        raise ParameterError("--from and --until go together: the first day of the period, and the day after its last")
    window = None if period is None else Window.of_periods(period)
    if begin is not None and until is not None:
        window = Window.parse(begin, until, period)
    budget = pricdr.Guarantee(epsilon=epsilon, delta=delta, unit=pricdr.Unit(unit), window=window)
    key = None if sign is None else read_private_key(sign)
    ledger = pricdr.Ledger.create(file, budget, key, after=None if after is None else pricdr.Ledger(after))
    for text in epsilon_warnings(budget.epsilon, budget.unit):
        warn(text)
    say(f"created {file}: {budget}, over all releases together")
    if begin is not None and after is None:
        say("every other ledger of this source must count other days: --after, with the one before it, checks that")
    _write(json_output, file, ledger.read())


@app.command("sign")
def sign(
    file: FileArgument,
    key: Annotated[Path, Option(help="The private key; publish then needs it as --sign.")],
    json_output: options.JsonOption = None,
) -> None:
    """Sign a ledger as it stands: for the first time, with another key, or after its end was damaged.

    A signature vouches for what is there. Check afterwards, with pricdr ledger verify and every release made from the
    ledger, that nothing was missing.
    """
    from pricdr.signing import read_private_key

    balance = pricdr.Ledger(file, read_private_key(key)).sign()
    say(f"signed {file}: epsilon {balance.epsilon:.6g} spent in {_releases(len(balance.spends))}")
    say("now run pricdr ledger verify with every release made from it: one that was missing before is missing still")
    _write(json_output, file, balance)


@app.command("plan")
def plan(
    file: Annotated[Path | None, Argument(help="A ledger: what is spent there counts.")] = None,
    releases: Annotated[int | None, Option(help="How many more releases to plan for.")] = None,
    first: Annotated[float | None, Option(help="Give the first this part of what is left, in mu squared.")] = None,
    each: Annotated[float | None, Option(help="In place of --releases: the epsilon of each.")] = None,
    epsilon: Annotated[float | None, Option(help="Without a ledger: the budget.")] = None,
    delta: Annotated[float | None, Option(help="Without a ledger: its delta.  [default: 1e-6]")] = None,
    unit: Annotated[
        Literal["rating", "user"] | None, Option(help="Without a ledger: what is protected.  [default: rating]")
    ] = None,
    json_output: options.JsonOption = None,
) -> None:
    """Show what each of several releases may cost, or how many of one price fit, into one budget. Nothing is spent.

    The costs are composed exactly, as the ledger does it: 52 releases may each claim far more than epsilon / 52. The
    first of a series serves its early weeks alone: --first 0.4 makes these far better, and the end hardly worse.
    """
    from pricdr.privacy.accounting import RECOMMENDED_DELTA
    from pricdr.privacy.ledger import Balance
    from pricdr.privacy.plan import EXAMPLE_USERS, allowance_at, equal_allowance

    if file is not None and (epsilon, delta, unit) == (None, None, None):
        balance = pricdr.Ledger(file).read()
    elif file is None and epsilon is not None:
        chosen = pricdr.Unit(unit or options.DEFAULT_UNIT)
        delta = RECOMMENDED_DELTA if delta is None else delta
        balance = Balance.unspent(pricdr.Guarantee(epsilon=epsilon, delta=delta, unit=chosen))
    else:
        raise ParameterError("give a ledger, which states its budget, or --epsilon (and --delta, --unit) without one")
    begin = None
    if first is not None and (releases is None or releases < 2 or not 0 < first < 1):
        raise ParameterError(f"--first is a part between 0 and 1, of two --releases or more, got {first:g}")
    if releases is not None and each is None:
        begin = None if first is None else equal_allowance(balance, 1, first)
        rest = releases if first is None else releases - 1
        allowance = equal_allowance(balance, rest, 1 - (first or 0.0))
    elif each is not None and releases is None:
        allowance = allowance_at(balance, each)
    else:
        raise ParameterError("give either --releases, how many to plan for, or --each, the epsilon of each")
    releases, claim, sigma, last = allowance.releases + (begin is not None), allowance.guarantee, allowance.sigma, None
    say(f"budget: {balance.budget}, over all releases together, however each is chosen")
    if balance.spends:
        say(_spent_so_far(balance))
    if begin is not None:
        say(f"the first: {_price(begin)}")
    say(f"each of {allowance.releases:,} more: {_price(allowance)}")
    if releases <= _FAR:
        last = (datetime.now(UTC).date() + timedelta(weeks=releases - 1)).isoformat()
        spent = "for good" if balance.budget.window is None else f"for the days {balance.budget.window.dates}"
        say(f"one a week from today: the last on {last}; then the budget is spent, {spent}")
    counted = "each rating counted as 1" if claim.unit is pricdr.Unit.RATING else "a clip of 1; it grows with the clip"
    if sigma is None:
        warn("so small an epsilon leaves no room for the default strategy, whose rounding alone would take all of it")
    else:
        whose = "it" if begin is None else "each of the others"
        say(f"sigma {whose} needs: {sigma:.4g} (strategy spectral, {EXAMPLE_USERS:,} listed users, {counted})")
    costs = {
        name: None if one is None else {**_guarantee(one.guarantee), "mu": one.mu, "sigma": one.sigma}
        for name, one in (("first", begin), ("each", allowance))
    }
    _write(json_output, file, balance, releases=releases, last_of_weekly=last, **costs)


@app.command("show")
def show(file: FileArgument, json_output: options.JsonOption = None) -> None:
    """Show what was spent and what is left."""
    balance = pricdr.Ledger(file).read()
    say(f"budget: {balance.budget}, however each release is chosen")
    for number, spend in enumerate(balance.spends, 1):
        say(f"{number:>4}  {spend.recorded}  {spend.strategy:<10} mu {spend.mu:.6g}  {spend.promise}")
    say(f"{_spent_so_far(balance)}; room for one more release of epsilon {balance.room:.6g} at this delta")
    say("spent is what these releases would cost had all been fixed in advance; the promise is the budget")
    left = balance.room_for(balance.spends[-1].mu) if balance.spends else None
    if left is not None:
        say(f"at the price of the last one: {_releases(left, 'more release')}")
    room = {"epsilon": balance.room, "mu": balance.mu_left, "at_the_last_price": left}
    _write(json_output, file, balance, room=room, releases=[spend.model_dump(mode="json") for spend in balance.spends])


@app.command("verify")
def verify(
    file: FileArgument,
    releases: Annotated[list[Path] | None, Argument(help="Release folders that it paid for.")] = None,
    public_key: options.PublicKeyOption = None,
    json_output: options.JsonOption = None,
) -> None:
    """Check a ledger's lines, its signature, and that it holds these releases: exit 0, or 1 with the reason.

    Without a signature, a changed last line or one that was cut off shows only against the release it paid for. A
    signature by --public-key shows that the holder of that key wrote this end, but not that it is the newest: an older
    copy shows only against a release that it does not hold.
    """
    from pricdr.release.checks import check_ledger
    from pricdr.signing import fingerprint, public_from_text

    folders = list(map(str, releases or []))
    balance, others = check_ledger(pricdr.Ledger(file), releases or [], public_key=public_key)
    say(f"ok: {file}: {balance.budget}, {_releases(len(balance.spends))}")
    if balance.signed_by is None:
        say("    not signed: whether its last line was changed or cut off, only the release it paid for can show")
    else:
        whose = "the public key that was given" if public_key is not None else "a key that nobody vouched for here"
        say(f"    signed by {whose} (SHA-256 {fingerprint(public_from_text(balance.signed_by))})")
    hint = "give the releases made from it to see whether it is an older copy, or another ledger"
    say(f"    {f'it holds every release given ({len(folders)})' if folders else hint}")
    if folders and others:
        numbers = ", ".join(f"{number:,}" for number in others[:_MAX_NAMED])
        numbers += f" and {len(others) - _MAX_NAMED:,} more" if len(others) > _MAX_NAMED else ""
        why = "in another place, or runs that ended after the spend; spent all the same"
        say(f"    not among these: release {numbers} of the ledger ({why})")
    _write(json_output, file, balance, holds=folders, not_given=list(others))


@app.command("repair")
def repair(
    file: FileArgument,
    release: Annotated[Path | None, Argument(help="The release whose line was cut off.")] = None,
    forfeit: Annotated[bool, Option("--forfeit", help="Without the release: give up all that was left.")] = False,
    public_key: options.PublicKeyOption = None,
    json_output: options.JsonOption = None,
) -> None:
    """Repair a ledger whose last line was cut off. Nothing is ever refunded.

    Given the release that the line paid for, the line is rebuilt from its certificate and must have the hash stated
    there. Without that release nobody knows what the line cost: --forfeit charges everything that was left.
    """
    from pricdr.release.checks import lost_line

    ledger = pricdr.Ledger(file)
    if release is not None and not forfeit:
        balance = ledger.rebuild(lost_line(pricdr.verify(release, public_key=public_key).certificate))
    elif forfeit and release is None:
        options.refuse_unused_key(public_key, "there is no release")
        balance = ledger.forfeit()
    else:
        rule = "give the release whose line was cut off, or --forfeit, which charges everything that was left"
        raise ParameterError(f"{file}: {rule}")
    last = balance.spends[-1]
    say(
        f"repaired {file}: release {len(balance.spends)}, mu {last.mu:.6g}",
        "if it was signed, it no longer is: run pricdr ledger sign",
        "lines after it, if there were any, are lost: run pricdr ledger verify with every release made from it",
    )
    _write(json_output, file, balance, repaired=last.model_dump(mode="json"))


def _price(allowance: "Allowance") -> str:
    return f"epsilon {allowance.guarantee.epsilon:g} at delta {allowance.guarantee.delta:g} (mu {allowance.mu:.6g})"


def _guarantee(guarantee: "pricdr.Guarantee") -> dict[str, float | str]:
    return {"epsilon": guarantee.epsilon, "delta": guarantee.delta, "unit": guarantee.unit.value}


def _write(output: options.JsonOutput | None, file: Path | None, balance: "Balance", **more: object) -> None:
    """Write what every command says for programs, and what this one does."""
    spent = {"epsilon": balance.epsilon, "mu": balance.mu, "releases": len(balance.spends)}
    common = {"ledger": None if file is None else str(file), "budget": _guarantee(balance.budget), "spent": spent}
    window = balance.budget.window
    days = None
    if window is not None:
        dates = {"from": str(window.begin), "until": str(window.until)}
        days = {**dates, "period": window.days, "after": balance.after}
    options.write_json(output, {**common, "window": days, "signed_by": balance.signed_by, **more})


def _spent_so_far(balance: "Balance") -> str:
    return f"spent: epsilon {balance.epsilon:.6g} (mu {balance.mu:.6g}) in {_releases(len(balance.spends))}"


def _releases(number: int, noun: str = "release") -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
