"""``pricdr demo``: a newcomer's first command."""

import stat

from pricdr import Ledger, verify


def test_the_demo_publishes_and_verifies(here, pricdr):
    outcome = pricdr("demo", "--out", "my demo")
    assert (outcome.code, outcome.err) == (0, "")
    assert "verified" in outcome.out
    assert "pricdr inspect 'my demo/target/movies.release'" in outcome.out
    demo = here / "my demo"
    received = verify(demo / "target" / "movies.release", public_key=demo / "target" / "source.pub")
    assert received.certificate.private
    assert received.users == tuple((demo / "target" / "users.txt").read_text().splitlines())
    assert len(Ledger(demo / "source" / "ledger.jsonl").read().spends) == 1
    assert stat.S_IMODE((demo / "source" / "key").stat().st_mode) == 0o600
    assert not (demo / "target" / "key").exists()
    assert pricdr("inspect", demo / "target" / "movies.release").code == 0
    assert [path.name for path in here.iterdir()] == ["my demo"]


def test_the_demo_runs_in_a_process_of_its_own(here, process):
    outcome = process("demo")
    assert (outcome.code, outcome.err) == (0, "")
    assert verify(here / "pricdr-demo" / "target" / "movies.release").certificate.private
