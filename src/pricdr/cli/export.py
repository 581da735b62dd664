"""``pricdr export``: a release as a Parquet file, for other programs."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import pricdr
from pricdr.cli.console import say
from pricdr.cli.options import PublicKeyOption


def export(
    folder: Annotated[Path, Argument(help="The release folder; it must verify.")],
    out: Annotated[Path, Option(help="The file to create: .parquet.")],
    public_key: PublicKeyOption = None,
) -> None:
    """Verify a release and write its rows as Parquet: the columns user and vector, in the order of the user list.

    The file holds no promise and cannot be verified: keep the release, and hand out that.
    """
    from pricdr.release.folder import export_parquet

    release = pricdr.Release.load(folder, public_key=public_key)
    export_parquet(release, out)
    say(f"wrote {out}: {len(release.users):,} users x {release.certificate.dim:,} numbers")
