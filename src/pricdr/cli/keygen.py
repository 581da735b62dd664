"""``pricdr keygen``: a key pair for signing releases."""

from pathlib import Path
from typing import Annotated

from typer import Option

from pricdr.cli.console import say


def keygen(out: Annotated[Path, Option(help="Private key NAME (mode 0600) and public key NAME.pub.")]) -> None:
    """Make an Ed25519 key pair: sign with NAME, hand out NAME.pub."""
    from pricdr.signing import create_keys, fingerprint, read_public_key

    private, public = create_keys(out)
    say(f"private key {private} (keep it), public key {public} (hand it out)")
    say(f"fingerprint: {fingerprint(read_public_key(public))}")
