"""``pricdr align``: find the users that two companies share without revealing any others."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer
from typer import Argument, Option

import pricdr
from pricdr.cli.console import progress_bar, say, warn
from pricdr.errors import InputError, OutputError, ParameterError, VerificationError, printable
from pricdr.files import PRIVATE, only_run, replace_file, require_writable, write_new

if TYPE_CHECKING:
    from pricdr.alignment.curve import Blinder
    from pricdr.alignment.messages import Message
    from pricdr.alignment.normalisation import Normalisation, NormalisedIds
    from pricdr.alignment.protocol import Alignment, ProtocolState

IdsArgument: TypeAlias = Annotated[Path, Argument(help="Your ids, one per line.")]
NormaliseOption: TypeAlias = Annotated[Literal["exact", "email", "phone"], Option(help="How ids are compared.")]
PadOption: TypeAlias = Annotated[int | None, Option(min=1, help="Hide how many ids you have: add dummies up to this.")]
MostOption: TypeAlias = Annotated[int | None, Option(min=1, help="Refuse a message that shows more ids than this.")]
OwnOption: TypeAlias = Annotated[Path | None, Option(help="A private CSV file to create: user, own (your spelling).")]
ProcessesOption: TypeAlias = Annotated[int | None, Option(min=1, help="Worker processes.  [default: one per core]")]
app = typer.Typer(
    help="Find the users that two companies share. Neither learns about any others.\n\n"
    "One company runs start, the other answer, the first finish. If both are to learn the common users, the second "
    "then runs accept. Messages are files, to be sent by any means."
)


@app.command("start")
def start(
    ids: IdsArgument,
    out: Annotated[Path, Option(help="The message to create and send.")],
    state: Annotated[Path, Option(help="The state file to create, for align finish; keep it secret.")],
    normalise: NormaliseOption = "exact",
    both: Annotated[bool, Option("--both", help="Both sides learn the common users, not only yours.")] = False,
    pad_to: PadOption = None,
    processes: ProcessesOption = None,
) -> None:
    """Write the first message: your ids, blinded.

    The other side answers it with align answer. The message shows how many ids you have, unless --pad-to hides it, and
    whether both sides learn the common users. If the command is interrupted, run it again to resume.
    """
    from pricdr.alignment import protocol

    own = _read_own_ids(ids, normalise, out, state)
    new = protocol.begin(own, who_learns="both" if both else "starter", pad_to=pad_to)
    message = _send(out, state, new, protocol.first_message, processes)
    shown = message.header.starter_ids
    say(f"{out}: {shown:,} ids, blinded{_padding(shown, own)}")
    say(f"session {message.header.session}; SHA-256 of the message: {message.sha256}")
    say(f"send {out} to the other side, keep {state} secret, and run align finish on the answer")


@app.command("answer")
def answer(
    message: Annotated[Path, Argument(help="The message from align start.")],
    ids: IdsArgument,
    out: Annotated[Path, Option(help="The message to create and send back.")],
    state: Annotated[Path, Option(help="The state file to create, for align accept; keep it secret.")],
    normalise: NormaliseOption = "exact",
    both: Annotated[bool, Option("--both", help="Refuse a message unless both sides learn the common users.")] = False,
    pad_to: PadOption = None,
    at_most: MostOption = None,
    processes: ProcessesOption = None,
) -> None:
    """Answer the first message with your own ids, blinded.

    The answer contains the other side's ids, blinded again, and yours, blinded and sorted, so that their order reveals
    nothing. The other side learns which of its ids you have too, and how many ids you have, unless --pad-to hides it.
    You learn how many ids it shows. You learn the common users only if its message says that both sides do: --both
    refuses any other.

    A side that includes ids of people who are not its users learns whether they are yours. Agree on how many ids each
    side shows, and give that number as --at-most.

    If the command is interrupted, run it again to resume.
    """
    from pricdr.alignment import protocol
    from pricdr.alignment.messages import load_message

    own = _read_own_ids(ids, normalise, out, state)
    with progress_bar(f"reading {message}"):
        received = load_message(message, at_most=at_most)
    with _naming(message):
        new = protocol.begin_answer(received, own, pad_to=pad_to)
        if both and received.header.who_learns != "both":
            raise InputError("with this message only the other side learns the common users, but you gave --both")
    reply = _send(out, state, new, lambda at, blinder: protocol.second_message(at, received, blinder), processes)
    header = reply.header
    theirs, ours = header.starter_ids, header.answerer_ids or 0
    say(f"{out}: the other side's {theirs:,} ids, blinded again, and your {ours:,} ids, blinded{_padding(ours, own)}")
    say(f"session {header.session}; SHA-256 of the message: {reply.sha256}")
    if header.who_learns == "both":
        say(f"send {out} back; both sides learn the common users: run align accept on the list when it arrives")
    else:
        say(f"send {out} back; only the other side learns the common users, and {state} is no longer needed")


@app.command("finish")
def finish(
    message: Annotated[Path, Argument(help="The answer to your message.")],
    state: Annotated[Path, Option(help="The state file of align start.")],
    out: Annotated[Path, Option(help="The user list to create; its record is written beside it.")],
    own_ids: OwnOption = None,
    at_most: MostOption = None,
    processes: ProcessesOption = None,
) -> None:
    """Write the common users, and a record of what was revealed.

    The list has one user per line, in the order of bytes; publish takes it as --users. A state accepts one answer and
    refuses any other from then on. If the command is interrupted, run it again to resume.
    """
    from pricdr.alignment import protocol
    from pricdr.alignment.messages import load_message

    with only_run(state, "nothing was done"):
        with progress_bar(f"reading {message}"):
            current = protocol.read_state(state)
            with _naming(state):
                current.require("started", "finishing")
            if current.step == "started":  # otherwise an interrupted run may have written them
                protocol.require_new_outputs(out, own_ids)
            received = load_message(message, at_most=at_most)
        with _naming(message):
            bound = protocol.begin_finish(current, received)
            replace_file(state, bound.content(), mode=PRIVATE)
            with _blinding(processes) as blinder:
                alignment, after = protocol.finish(bound, received, blinder)
        protocol.write_alignment(alignment, out, own_ids=own_ids)
        replace_file(state, after.content(), mode=PRIVATE)
    _say_alignment(alignment, out, own_ids)
    if alignment.record.who_learns == "both":
        say(f"both sides learn them: send {out} and its record to the other side, which runs align accept")


@app.command("accept")
def accept(
    users: Annotated[Path, Argument(help="The user list that the other side sent.")],
    state: Annotated[Path, Option(help="The state file of align answer.")],
    own_ids: OwnOption = None,
) -> None:
    """Check the list of common users against your own ids.

    Its record is written beside it, or compared with the one that came with it. The exit code is 1 if a listed user is
    not one of yours, or if the list or its record was changed. No check can tell whether the other side left a user
    out.
    """
    from pricdr.alignment import protocol

    with only_run(state, "nothing was done"):
        with progress_bar(f"reading {users}"):
            current = protocol.read_state(state)
            with _naming(state):
                current.require("answered")
            listed = protocol.read_list(users)
        with _naming(users):
            alignment, after = protocol.accept(current, listed)
        protocol.keep_unchanged(alignment, users)
        protocol.write_own_ids(alignment, own_ids)
        replace_file(state, after.content(), mode=PRIVATE)
    _say_alignment(alignment, users, own_ids)


def _read_own_ids(path: Path, rule: "Normalisation", out: Path, state: Path) -> "NormalisedIds":
    """Return the normalised ids in a file, once it is clear that a message and a state can be written."""
    from pricdr.alignment.normalisation import NormalisedIds

    if out.resolve() == state.resolve():  # the user might send the state, with its key, in place of the message
        raise ParameterError(f"--out and --state are both {out}: one is sent, the other is kept secret")
    if not os.path.lexists(state):  # otherwise an interrupted run may have written it
        require_writable(out)
    with progress_bar(f"reading {path}"):
        own = NormalisedIds.of(pricdr.read_ids(path), rule, name=str(path))
    if own.merged:
        warn(f"{path}: {own.merged:,} of the ids are other spellings of an earlier one and were left out")
    return own


def _send(
    out: Path,
    state: Path,
    new: "ProtocolState",
    compute: "Callable[[ProtocolState, Blinder], tuple[Message, ProtocolState]]",
    processes: int | None,
) -> "Message":
    """Write the state, so that the same command computes the same bytes after an interruption; then the message."""
    from pricdr.alignment.protocol import read_state, write_once

    with only_run(state, "nothing was done"):
        if os.path.lexists(state):
            current = read_state(state)
            # The same command would draw only another session and another key.
            if current.model_copy(update={"session": new.session, "key": new.key}) != new:
                raise OutputError(
                    f"{state} exists already, from another session or step; choose another name or remove it first"
                )
            warn(f"resuming session {current.session}")
        else:
            current = new
            write_new(state, new.content(), mode=PRIVATE)
        with _blinding(processes) as blinder:
            message, after = compute(current, blinder)
            write_once(out, message.blocks())
        replace_file(state, after.content(), mode=PRIVATE)
    return message


@contextmanager
def _blinding(processes: int | None) -> "Iterator[Blinder]":
    from pricdr.alignment.curve import Blinder
    from pricdr.parallel import cores

    with progress_bar("blinding") as progress:
        yield Blinder(processes or cores(), progress)


def _say_alignment(alignment: "Alignment", out: Path, own_ids: Path | None) -> None:
    from pricdr.alignment.messages import record_beside

    record = alignment.record
    say(f"{out}: {record.common_users:,} common users; record of the session: {record_beside(out)}")
    shown = f"{record.starter_ids:,} by the side that started, {record.answerer_ids:,} by the other"
    say(f"ids shown, dummies included: {shown}")
    if own_ids is not None:
        say(f"{own_ids}: your own spelling of each user; do not send it")
    if not alignment.users:
        warn("there are no common users: do both sides write their ids in the same way?")


def _padding(shown: int, own: "NormalisedIds") -> str:
    dummies = shown - len(own.ids)
    return f", {dummies:,} of them dummies" if dummies else ""


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Put the name of a file before the errors that are about it."""
    try:
        yield
    except (InputError, VerificationError) as error:
        raise type(error)(f"{printable(str(path))}: {error}") from error
