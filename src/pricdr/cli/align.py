"""``pricdr align``: find the users that two companies share, and show no others."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from pricdr.cli.console import progress_bar, say, warn, working
from pricdr.cli.run_lock import only_step
from pricdr.errors import InputError, OutputError, ParameterError, VerificationError, printable

if TYPE_CHECKING:
    from pricdr.alignment.blinding import Blinder
    from pricdr.alignment.normalisation import NormalisedIds
    from pricdr.alignment.protocol import Alignment, State

app = typer.Typer(help="Find the users that two companies share, and show each other no others.")


class NormaliseName(StrEnum):
    """How ids are written before they are compared."""

    EXACT = "exact"
    EMAIL = "email"
    PHONE = "phone"


IdsArgument: TypeAlias = Annotated[Path, typer.Argument(help="Your ids, one a line.")]
NormaliseOption: TypeAlias = Annotated[
    NormaliseName, typer.Option(help="Compare bytes, or e-mail addresses or telephone numbers by a written rule.")
]
PadOption: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Show so many ids: dummies hide how many are yours.  [default: no dummies]")
]
MostOption: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, help="Refuse a message in which the other side shows more ids.  [default: any number]"),
]
OwnOption: TypeAlias = Annotated[
    Path | None, typer.Option(help="A private CSV to create: user (as listed) and own (your spelling).")
]
ProcessesOption: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="How many to work in.  [default: one a core]")
]


@app.callback(invoke_without_command=True)
def options(context: typer.Context) -> None:
    """Find the users that two companies share, and show each other no others.

    One company starts, the other answers, the first finishes; where both are to know, the second accepts the list.
    """
    if context.invoked_subcommand is None:
        say(*context.get_help().split("\n"))


@app.command("start")
def start(
    ids: IdsArgument,
    out: Annotated[Path, typer.Option(help="The message to create and send.")],
    state: Annotated[Path, typer.Option(help="The file to create that align finish needs; keep it secret.")],
    normalise: NormaliseOption = NormaliseName.EXACT,
    both: Annotated[bool, typer.Option("--both", help="Both sides are to learn the common users.")] = False,
    pad_to: PadOption = None,
    processes: ProcessesOption = None,
) -> None:
    """Write the first message: your ids, blinded.

    The other side answers it with align answer. The message shows how many ids you have, unless --pad-to hides it, and
    whether both are to learn the common users. If it is stopped, the same command goes on where it was.
    """
    from pricdr.alignment.messages import WhoLearns
    from pricdr.alignment.outputs import write_once
    from pricdr.alignment.protocol import Step, begin, first_message, started
    from pricdr.alignment.state import update_state
    from pricdr.files import require_writable

    _require_two_files(out, state)
    if not os.path.lexists(state):  # else a stopped run may have written it
        require_writable(out)
    given = read_own_ids(ids, normalise)

    def drawn() -> "State":
        return begin(given, who_learns=WhoLearns.BOTH if both else WhoLearns.STARTER, pad_to=pad_to)

    def same(left: "State") -> bool:
        fresh = drawn()
        facts = ("ids", "own", "normalisation", "who_learns", "starter_ids")
        return left.first_message is None and all(getattr(left, name) == getattr(fresh, name) for name in facts)

    with only_step(state):
        begun = _begun(state, drawn, same, Step.STARTED)
        with _blinding(out, begun, processes) as blinder:
            message = first_message(begun, blinder)
            write_once(out, message.blocks())
        update_state(state, started(begun, message))
    say(f"{out}: {message.header.starter_ids:,} ids, blinded{_padding(message.header.starter_ids, given)}")
    say(f"session {begun.session}; SHA-256 of the message: {message.sha256}")
    say(f"send {out} to the other side, keep {state} secret, and run align finish on the answer")


@app.command("answer")
def answer(
    message: Annotated[Path, typer.Argument(help="The message of the side that started.")],
    ids: IdsArgument,
    out: Annotated[Path, typer.Option(help="The message to create and send back.")],
    state: Annotated[Path, typer.Option(help="The file to create that align accept needs; keep it secret.")],
    normalise: NormaliseOption = NormaliseName.EXACT,
    both: Annotated[
        bool, typer.Option("--both", help="Refuse a message by which the other side alone learns the common users.")
    ] = False,
    pad_to: PadOption = None,
    at_most: MostOption = None,
    processes: ProcessesOption = None,
) -> None:
    """Answer the first message with your own ids, blinded.

    The message holds the other side's ids, blinded again, and yours, blinded, in an order that says nothing. The other
    side then learns which of its ids are yours too, and how many ids you have, unless --pad-to hides it. You learn how
    many ids it shows, and the common users if its message says that both are to learn them: --both insists on it.

    A side that shows ids of people it has no business with learns whether you have those. Agree on how many ids each
    side has, and give --at-most.

    If it is stopped, the same command goes on where it was.
    """
    from pricdr.alignment.messages import load_message
    from pricdr.alignment.outputs import write_once
    from pricdr.alignment.protocol import Step, answered, begin_answer, require_first, second_message
    from pricdr.alignment.state import update_state
    from pricdr.files import require_writable

    _require_two_files(out, state)
    if not os.path.lexists(state):  # else a stopped run may have written it
        require_writable(out)
    given = read_own_ids(ids, normalise)
    with working(f"reading {message}"):
        received = load_message(message, at_most=at_most)
    with _naming(message):
        require_first(received.header, given.normalisation)
        if both and received.header.who_learns.value != "both":
            raise InputError("by this message the other side alone learns the common users, and you gave --both")

    def same(left: "State") -> bool:
        fresh = begin_answer(received, given, pad_to=pad_to)
        facts = ("ids", "own", "normalisation", "first_message", "answerer_ids")
        return all(getattr(left, name) == getattr(fresh, name) for name in facts)

    with only_step(state):
        begun = _begun(state, lambda: begin_answer(received, given, pad_to=pad_to), same, Step.ANSWERING)
        with _blinding(out, begun, processes) as blinder:
            reply = second_message(begun, received, blinder)
            write_once(out, reply.blocks())
        update_state(state, answered(begun, reply))
    header = reply.header
    say(
        f"{out}: the other side's {header.starter_ids:,} ids blinded again, and {header.answerer_ids:,} ids, blinded"
        f"{_padding(header.answerer_ids or 0, given)}"
    )
    say(f"session {header.session}; SHA-256 of the message: {reply.sha256}")
    if header.who_learns.value == "both":
        say(f"send {out} back; both are to learn the common users: run align accept on the list that comes")
    else:
        say(f"send {out} back; the other side alone learns the common users, and {state} has served its purpose")


@app.command("finish")
def finish(
    message: Annotated[Path, typer.Argument(help="The answer to your message.")],
    state: Annotated[Path, typer.Option(help="The state file of align start.")],
    out: Annotated[Path, typer.Option(help="The user list to create; its record comes beside it.")],
    own_ids: OwnOption = None,
    at_most: MostOption = None,
    processes: ProcessesOption = None,
) -> None:
    """Write the common users, and a record of what was revealed.

    The list has one user a line, in the order of bytes; it is what publish takes as --users. A state takes one answer:
    any other is refused from then on. If it is stopped, the same command goes on where it was.
    """
    from pricdr.alignment.messages import load_message
    from pricdr.alignment.outputs import require_room, write_alignment
    from pricdr.alignment.protocol import Step, begin_finish, finished
    from pricdr.alignment.protocol import finish as common_users
    from pricdr.alignment.state import read_state, update_state

    with only_step(state):
        with working(f"reading {message}"):
            kept = read_state(state)
            with _naming(state):
                kept.require(Step.STARTED, Step.FINISHING)
            if kept.step is Step.STARTED:  # else a stopped run may have written them
                require_room(out, own_ids)
            received = load_message(message, at_most=at_most)
        with _naming(message):
            bound = begin_finish(kept, received)
        update_state(state, bound)
        with _blinding(out, bound, processes) as blinder:
            with _naming(message):
                alignment = common_users(bound, received, blinder)
            write_alignment(alignment, out, own_ids=own_ids)
        update_state(state, finished(bound))
    say_alignment(alignment, out, own_ids)
    if alignment.record.who_learns.value == "both":
        say(f"both are to learn them: send {out} and its record to the other side, which runs align accept")


@app.command("accept")
def accept(
    users: Annotated[Path, typer.Argument(help="The user list that the other side has sent.")],
    state: Annotated[Path, typer.Option(help="The state file of align answer.")],
    own_ids: OwnOption = None,
) -> None:
    """Check the list of common users against your own ids.

    Its record is written beside it, or compared with the one that came with it. Exit 1 where a listed user is none of
    yours, or where list or record were changed on the way. No check can show that the other side left nobody out.
    """
    from pricdr.alignment.outputs import read_list, require_unchanged, write_own_ids
    from pricdr.alignment.protocol import Step, finished
    from pricdr.alignment.protocol import accept as checked
    from pricdr.alignment.record import record_beside
    from pricdr.alignment.state import read_state, update_state
    from pricdr.files import write_new

    with only_step(state):
        with working(f"reading {users}"):
            kept = read_state(state)
            with _naming(state):
                kept.require(Step.ANSWERED)
            listed = read_list(users)
        with _naming(users):
            alignment = checked(kept, listed)
        require_unchanged(alignment, users)
        if not os.path.lexists(record_beside(users)):
            write_new(record_beside(users), alignment.record.content())
        write_own_ids(alignment, own_ids)
        update_state(state, finished(kept))
    say_alignment(alignment, users, own_ids)


def read_own_ids(path: Path, normalise: NormaliseName) -> "NormalisedIds":
    """Return the ids in a file as the rule writes them, and warn where some become the same."""
    from pricdr.alignment.normalisation import Normalisation, NormalisedIds
    from pricdr.data.reading.readers import read_ids

    with working(f"reading {path}"):
        given = NormalisedIds.of(read_ids(path), Normalisation(normalise.value), name=str(path))
    if given.merged:
        warn(f"{path}: {given.merged:,} ids are another spelling of an earlier one, and count once with it")
    return given


def _require_two_files(out: Path, state: Path) -> None:
    """Refuse one name for both: the state would lie, with its key, where the user looks for the message to send."""
    if out.resolve() == state.resolve():
        raise ParameterError(f"--out and --state are both {out}: the one is sent, the other is kept secret")


def _begun(path: Path, drawn: Callable[[], "State"], same: Callable[["State"], bool], step: object) -> "State":
    """Return the state that a stopped run of the same command has left, or a new one, on disk before it is used."""
    from pricdr.alignment.state import create_state, read_state

    if not os.path.lexists(path):
        state = drawn()
        create_state(path, state)
        return state
    left = read_state(path)
    if left.step is not step or not same(left):
        raise OutputError(
            f"{path} exists already, from another session or step; choose another name or remove it first"
        )
    warn(f"going on with session {left.session}, which was begun before")
    return left


@contextmanager
def _blinding(out: Path, state: "State", processes: int | None) -> Iterator["Blinder"]:
    """Yield what blinds ids and points, with a bar, and keeps what is done for the next run of the same command."""
    from pricdr.alignment.blinding import Blinder
    from pricdr.alignment.portions import PortionFiles
    from pricdr.parallel import cores

    portions = PortionFiles(out, state)
    try:
        with portions, progress_bar("blinding") as progress:
            yield Blinder(processes or cores(), progress, portions)
    except BaseException:
        if portions.count:
            warn(f"what is done is kept in {portions.folder}: the same command goes on")
        raise


def say_alignment(alignment: "Alignment", out: Path, own_ids: Path | None) -> None:
    """Say how many users are common, and what that has revealed."""
    from pricdr.alignment.record import record_beside

    record = alignment.record
    say(f"{out}: {record.common_users:,} common users; record of the session: {record_beside(out)}")
    shown = f"{record.starter_ids:,} by the side that started, {record.answerer_ids:,} by the other"
    say(f"ids shown, dummies included: {shown}")
    if own_ids is not None:
        say(f"{own_ids}: your own spelling of each; keep it")
    if not alignment.users:
        warn("there is no common user: do both sides write their ids in the same way?")


def _padding(shown: int, given: "NormalisedIds") -> str:
    dummies = shown - len(given.ids)
    return f", {dummies:,} of them dummies" if dummies else ""


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let a refusal begin with the file that it is about."""
    try:
        yield
    except (InputError, VerificationError) as error:
        raise type(error)(f"{printable(str(path))}: {error}") from error
