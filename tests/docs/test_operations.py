"""What docs/operations.md says in figures and codes is what the program does."""

import re
import signal

from docs._generate.results import ROOT

from pricdr import Guarantee, errors
from pricdr.privacy.ledger import Balance
from pricdr.privacy.plan import equal_allowance

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def test_the_prices_are_those_of_ledger_plan():
    rows = re.findall(r"^\| (\d+)[^|]*\| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    budget = Balance.unspent(Guarantee(epsilon=8, delta=1e-6))
    for releases, epsilon, sigma in rows:
        allowance = equal_allowance(budget, int(releases))
        assert allowance.sigma is not None
        assert (epsilon, sigma) == (f"{allowance.guarantee.epsilon:.3g}", f"{allowance.sigma:.3g}")


def test_every_exit_code_is_explained():
    table = PAGE.partition("## Exit codes")[2].partition("\n## ")[0]
    explained = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE) for code in row.split(", ")}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.PriCDRError)]
    signals = {128 + sent for sent in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)}
    assert {0, *(kind.exit_code for kind in kinds), *signals} == explained
