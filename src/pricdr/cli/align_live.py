"""``pricdr align serve`` and ``join``: the exchange over a connection that shows certificates on both sides."""

import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from pricdr.cli.align import (
    IdsArgument,
    MostOption,
    NormaliseName,
    NormaliseOption,
    OwnOption,
    PadOption,
    ProcessesOption,
    read_own_ids,
    say_alignment,
)
from pricdr.cli.console import progress_bar, say, warn
from pricdr.errors import ParameterError

if TYPE_CHECKING:
    from pricdr.alignment.blinding import Blinder
    from pricdr.alignment.messages import WhoLearns
    from pricdr.alignment.normalisation import NormalisedIds
    from pricdr.alignment.protocol import Alignment
    from pricdr.alignment.tls import Credentials
    from pricdr.progress import Progress

_PATIENCE: Final = 3600
_LONGEST_PATIENCE: Final = 7 * 24 * 3600
"""A week; the system takes no number of seconds that is large beyond reason."""
CertOption: TypeAlias = Annotated[Path, typer.Option(help="Your certificate (PEM).")]
KeyOption: TypeAlias = Annotated[Path, typer.Option(help="The private key of your certificate (PEM).")]
PeerCertOption: TypeAlias = Annotated[
    Path | None, typer.Option(help="The other side's certificate (PEM): no other one is talked to.")
]
PeerCaOption: TypeAlias = Annotated[
    Path | None, typer.Option(help="In place of --peer-cert: the authority that signed it (PEM).")
]
BothOption: TypeAlias = Annotated[
    bool, typer.Option("--both", help="Both sides learn the common users; both must say so.")
]
TimeoutOption: TypeAlias = Annotated[
    int, typer.Option(min=1, max=_LONGEST_PATIENCE, help="Seconds that the other side may compute in silence.")
]


def keygen(
    out: Annotated[Path, typer.Option(help="Private key NAME.key (mode 0600) and certificate NAME.crt.")],
    days: Annotated[int, typer.Option(help="How long the certificate is valid.")] = 365,
) -> None:
    """Make a certificate for align serve and align join: keep NAME.key, hand out NAME.crt."""
    from pricdr.alignment.certificates import create_certificate, fingerprint, read_certificate

    key, certificate = create_certificate(out, days=days)
    say(f"private key {key} (keep it), certificate {certificate} (hand it out)")
    say(f"fingerprint (SHA-256), to compare on the telephone: {fingerprint(read_certificate(certificate))}")


def serve(
    ids: IdsArgument,
    cert: CertOption,
    key: KeyOption,
    peer_cert: PeerCertOption = None,
    peer_ca: PeerCaOption = None,
    out: Annotated[
        Path | None, typer.Option(help="With --both: the user list to create; its record comes beside it.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes a free one.")] = 8443,
    both: BothOption = False,
    normalise: NormaliseOption = NormaliseName.EXACT,
    pad_to: PadOption = None,
    at_most: MostOption = None,
    own_ids: OwnOption = None,
    processes: ProcessesOption = None,
    timeout: TimeoutOption = _PATIENCE,
) -> None:
    """Wait for the other side, answer it once, and end.

    The side that joins learns which of its ids are yours too, and how many ids you show. You learn how many it shows,
    and with --both the common users. Whoever comes without the right certificate is refused, and the wait goes on.
    """
    from pricdr.alignment.connection import Listener
    from pricdr.alignment.live import serve as answer
    from pricdr.alignment.outputs import require_room

    if both != (out is not None):
        raise ParameterError("serve learns the common users with --both alone, and then needs --out for the list")
    if own_ids is not None and out is None:
        raise ParameterError("--own-ids is a table of the common users, and they are learnt with --both alone")
    if out is not None:
        require_room(out, own_ids)
    credentials = _credentials(cert, key, peer_cert, peer_ca)
    given = _read(ids, normalise, pad_to)
    with Listener(host, port, credentials) as listener:
        say(f"listening on {listener.address} for the side with {_peer(peer_cert, peer_ca)}")
        with (
            progress_bar("waiting for the other side") as progress,
            listener.accept(warn, patience=timeout) as connection,
        ):
            served = answer(
                connection,
                given,
                who_learns=_who_learns(both),
                pad_to=pad_to,
                at_most=at_most,
                blinder=_blinder(processes, progress),
            )
    header = served.header
    if served.alignment is None or out is None:
        shown = f"it showed {header.starter_ids:,} ids, this one {header.answerer_ids:,}, dummies included"
        say(f"session {header.session}: the other side alone has learnt the common users; {shown}")
        return
    _write(served.alignment, out, own_ids)


def join(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where the other side serves.")],
    ids: IdsArgument,
    cert: CertOption,
    key: KeyOption,
    out: Annotated[Path, typer.Option(help="The user list to create; its record comes beside it.")],
    peer_cert: PeerCertOption = None,
    peer_ca: PeerCaOption = None,
    both: BothOption = False,
    normalise: NormaliseOption = NormaliseName.EXACT,
    pad_to: PadOption = None,
    at_most: MostOption = None,
    own_ids: OwnOption = None,
    processes: ProcessesOption = None,
    timeout: TimeoutOption = _PATIENCE,
) -> None:
    """Find the common users with a side that serves, and write them with a record of what was revealed."""
    from pricdr.alignment.connection import connect, parse_address
    from pricdr.alignment.live import join as align
    from pricdr.alignment.outputs import require_room

    host, port = parse_address(address)
    require_room(out, own_ids)
    credentials = _credentials(cert, key, peer_cert, peer_ca)
    given = _read(ids, normalise, pad_to)
    with (
        progress_bar(f"connecting to {address}") as progress,
        connect(host, port, credentials, patience=timeout) as connection,
    ):
        alignment = align(
            connection,
            given,
            who_learns=_who_learns(both),
            pad_to=pad_to,
            at_most=at_most,
            blinder=_blinder(processes, progress),
        )
    _write(alignment, out, own_ids)


def _read(ids: Path, normalise: NormaliseName, pad_to: int | None) -> "NormalisedIds":
    from pricdr.alignment.protocol import begin

    given = read_own_ids(ids, normalise)
    begin(given, pad_to=pad_to)  # refuses a number below that of the ids; what it draws is drawn again
    return given


def _credentials(cert: Path, key: Path, peer_cert: Path | None, peer_ca: Path | None) -> "Credentials":
    from pricdr.alignment.tls import Credentials

    with suppress(OSError):  # what is wrong with it will be said when it is read
        if key.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            warn(f"{key}: others on this machine can read this key: chmod 600 it")
    return Credentials(certificate=cert, key=key, peer_certificate=peer_cert, peer_authority=peer_ca)


def _peer(peer_cert: Path | None, peer_ca: Path | None) -> str:
    """Return whom we wait for, by what people can compare."""
    from pricdr.alignment.certificates import fingerprint, read_certificate

    if peer_cert is None:
        return f"a certificate signed by {peer_ca}"
    return f"the certificate {peer_cert} (SHA-256 {fingerprint(read_certificate(peer_cert))})"


def _who_learns(both: bool) -> "WhoLearns":
    from pricdr.alignment.messages import WhoLearns

    return WhoLearns.BOTH if both else WhoLearns.STARTER


def _blinder(processes: int | None, progress: "Progress") -> "Blinder":
    from pricdr.alignment.blinding import Blinder
    from pricdr.parallel import cores

    return Blinder(processes or cores(), progress)


def _write(alignment: "Alignment", out: Path, own_ids: Path | None) -> None:
    from pricdr.alignment.outputs import write_alignment

    write_alignment(alignment, out, own_ids=own_ids)
    say_alignment(alignment, out, own_ids)
