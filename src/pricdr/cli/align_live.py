"""``pricdr align serve`` and ``join``: the exchange over a TLS connection with certificates on both sides."""

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
"""A week; the system refuses timeouts that are far longer."""
CertOption: TypeAlias = Annotated[Path, typer.Option(help="Your certificate (PEM).")]
KeyOption: TypeAlias = Annotated[Path, typer.Option(help="The private key of your certificate (PEM).")]
PeerCertOption: TypeAlias = Annotated[
    Path | None, typer.Option(help="The other side's certificate (PEM); no other is accepted.")
]
PeerCaOption: TypeAlias = Annotated[
    Path | None, typer.Option(help="Instead of --peer-cert: the authority that signed it (PEM).")
]
BothOption: TypeAlias = Annotated[
    bool, typer.Option("--both", help="Both sides learn the common users; give it on both.")
]
TimeoutOption: TypeAlias = Annotated[
    int, typer.Option(min=1, max=_LONGEST_PATIENCE, help="Seconds to wait while the other side computes.")
]


def keygen(
    out: Annotated[Path, typer.Option(help="NAME: the files are NAME.key (mode 0600) and NAME.crt.")],
    days: Annotated[int, typer.Option(help="Days until the certificate expires.")] = 365,
) -> None:
    """Create a certificate for align serve and align join.

    Keep NAME.key secret, and give NAME.crt to the other side.
    """
    from pricdr.alignment.certificates import create_certificate, fingerprint, read_certificate

    key, certificate = create_certificate(out, days=days)
    say(f"private key {key} (keep it secret), certificate {certificate} (give it to the other side)")
    say(f"fingerprint (SHA-256), to compare by telephone: {fingerprint(read_certificate(certificate))}")


def serve(
    ids: IdsArgument,
    cert: CertOption,
    key: KeyOption,
    peer_cert: PeerCertOption = None,
    peer_ca: PeerCaOption = None,
    out: Annotated[
        Path | None, typer.Option(help="With --both: the user list to create; its record is written beside it.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 picks a free one.")] = 8443,
    both: BothOption = False,
    normalise: NormaliseOption = NormaliseName.EXACT,
    pad_to: PadOption = None,
    at_most: MostOption = None,
    own_ids: OwnOption = None,
    processes: ProcessesOption = None,
    timeout: TimeoutOption = _PATIENCE,
) -> None:
    """Wait for the other side, answer it once, and exit.

    The side that joins learns which of its ids you have too, and how many ids you show. You learn how many it shows,
    and with --both the common users. Connections without the right certificate are refused, and serve keeps waiting.
    """
    from pricdr.alignment.connection import Listener
    from pricdr.alignment.live import serve as answer
    from pricdr.alignment.outputs import require_new_outputs

    if both != (out is not None):
        raise ParameterError(
            "give --out together with --both: only then does serve learn the common users and write a list"
        )
    if own_ids is not None and out is None:
        raise ParameterError("--own-ids lists the common users, which serve learns only with --both")
    if out is not None:
        require_new_outputs(out, own_ids)
    credentials = _credentials(cert, key, peer_cert, peer_ca)
    own = _read_ids(ids, normalise, pad_to)
    with Listener(host, port, credentials) as listener:
        say(f"listening on {listener.address} for the side with {_peer(peer_cert, peer_ca)}")
        with (
            progress_bar("waiting for the other side") as progress,
            listener.accept(warn, patience=timeout) as connection,
        ):
            served = answer(
                connection,
                own,
                who_learns=_who_learns(both),
                pad_to=pad_to,
                at_most=at_most,
                blinder=_blinder(processes, progress),
            )
    header = served.header
    if served.alignment is None or out is None:
        shown = f"it showed {header.starter_ids:,} ids, this side {header.answerer_ids:,}, dummies included"
        say(f"session {header.session}: only the other side has learnt the common users; {shown}")
        return
    _write(served.alignment, out, own_ids)


def join(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="The address on which the other side serves.")],
    ids: IdsArgument,
    cert: CertOption,
    key: KeyOption,
    out: Annotated[Path, typer.Option(help="The user list to create; its record is written beside it.")],
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
    """Find the common users with a side that runs align serve.

    You learn which of your ids the other side has too, and how many ids it shows. The list and a record of what was
    revealed are written to --out and beside it.
    """
    from pricdr.alignment.connection import connect, parse_address
    from pricdr.alignment.live import join as align
    from pricdr.alignment.outputs import require_new_outputs

    host, port = parse_address(address)
    require_new_outputs(out, own_ids)
    credentials = _credentials(cert, key, peer_cert, peer_ca)
    own = _read_ids(ids, normalise, pad_to)
    with (
        progress_bar(f"connecting to {address}") as progress,
        connect(host, port, credentials, patience=timeout) as connection,
    ):
        alignment = align(
            connection,
            own,
            who_learns=_who_learns(both),
            pad_to=pad_to,
            at_most=at_most,
            blinder=_blinder(processes, progress),
        )
    _write(alignment, out, own_ids)


def _read_ids(ids: Path, normalise: NormaliseName, pad_to: int | None) -> "NormalisedIds":
    from pricdr.alignment.protocol import shown_ids

    own = read_own_ids(ids, normalise)
    shown_ids(own, pad_to)  # refuses a bad --pad-to before anyone connects
    return own


def _credentials(cert: Path, key: Path, peer_cert: Path | None, peer_ca: Path | None) -> "Credentials":
    from pricdr.alignment.tls import Credentials

    return Credentials(certificate=cert, key=key, peer_certificate=peer_cert, peer_authority=peer_ca)


def _peer(peer_cert: Path | None, peer_ca: Path | None) -> str:
    """Return a description of the expected certificate, with a fingerprint that people can compare."""
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
