"""``pricdr revoke``: take a release back, for whoever looks."""

import shlex
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from pricdr.cli.console import say


def revoke(
    folder: Annotated[Path, Argument(help="The release folder; it stays as it is.")],
    key: Annotated[Path, Option(help="The private key that signed the release; no other counts.")],
    reason: Annotated[str, Option(help="One line for whoever verifies the release.")],
    out: Annotated[Path, Option(help="The folder of notices to hand out, beside the release.")],
) -> None:
    """Write a signed notice that a release must no longer be used, for verify --revocations.

    The notice names the release by the SHA-256 of its release.safetensors. It cannot be taken back, and it refunds
    nothing in a ledger: what was published stays published. A release that is not signed cannot be revoked.
    """
    from pricdr.release.revocation import revoke as write_notice

    file = write_notice(folder, key=key, reason=reason, out=out)
    say(f"revoked {folder}: {file}")
    check = f"pricdr verify {shlex.quote(str(folder))} --revocations {shlex.quote(str(out))}"
    say(f"hand it out to everybody who has the release; this now fails: {check}")
