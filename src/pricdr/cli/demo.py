"""``pricdr demo``: both parties on a built-in synthetic pair."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from pricdr.cli.console import progress_bar, say

EPSILON = 8.0
DELTA = 1e-6


def demo(
    out: Annotated[Path, typer.Option(help="The folder to create, one folder inside for each party.")] = Path(
        "pricdr-demo"
    ),
) -> None:
    """Show the whole path on synthetic data: two companies, one release folder between them.

    The source publishes its ratings against a budget and signs the release; the target verifies what it received.
    """
    import shutil

    from pricdr.data.readers import write_ratings
    from pricdr.data.synthetic import synthetic_pair
    from pricdr.disclosure import statement
    from pricdr.files import new_folder
    from pricdr.privacy.guarantee import Guarantee
    from pricdr.privacy.ledger import Ledger
    from pricdr.privacy.strategies import JLT
    from pricdr.publish import publish
    from pricdr.release import verify
    from pricdr.signing import create_keys

    with new_folder(out) as staging:
        source, target = staging / "source", staging / "target"
        source.mkdir()
        target.mkdir()

        say("1. Two companies share users and nothing else (synthetic data).")
        pair = synthetic_pair()
        write_ratings(source / "ratings.parquet", pair.source)
        write_ratings(target / "ratings.parquet", pair.target)
        for party in (source, target):
            (party / "users.txt").write_text("".join(f"{user}\n" for user in pair.users), encoding="utf-8")
        say(f"   source {pair.source!r}")
        say(f"   target {pair.target!r}")

        say(f"2. The source opens a budget and publishes at epsilon {EPSILON:g}.")
        private, public = create_keys(source / "key")
        ledger = Ledger.create(source / "ledger.jsonl", Guarantee(epsilon=2 * EPSILON, delta=DELTA))
        with progress_bar() as progress:
            release = publish(
                pair.source,
                Guarantee(epsilon=EPSILON, delta=DELTA),
                strategy=JLT(dim=200),
                users=pair.users,
                ledger=ledger,
                progress=progress,
            )
        release.save(source / "movies.release", signing_key=private)
        say(f"   {release!r}")

        say("3. It hands over the release folder and its public key; the target verifies both.")
        shutil.copytree(source / "movies.release", target / "movies.release")
        shutil.copy(public, target / "source.pub")
        received = verify(target / "movies.release", public_key=target / "source.pub")
        for section in statement(received.certificate)[:2]:
            for line in section.lines:
                say(f"   {line}")
    received_at = shlex.quote(str(out / "target" / "movies.release"))
    say(f"\nverified. Everything is in {out}; read more with: pricdr inspect {received_at}")
