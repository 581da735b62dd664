"""The pages that readers get, made of small data: the demo's, an evaluation, an inspection, and one with everything."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from pricdr import Guarantee, Ledger, Ratings, publish, verify
from pricdr.cli.evaluate import evaluation_page
from pricdr.demo import outcome_page
from pricdr.evaluation.comparison import RANKINGS, Comparison
from pricdr.evaluation.metrics import per_user
from pricdr.pages import render
from pricdr.release.inspection import Inspection, render_inspection
from pricdr.report.folder import read_folder
from pricdr.report.page import report
from pricdr.strategies import JLT
from tests.pages.everything import everything
from tests.report import made_up
from tests.test_demo_outcome import measured

USERS = [f"u{at:02d}" for at in range(40)]


def demo(folder: Path) -> str:
    return outcome_page(measured(0.05, 0.0), _inspection(folder))


def evaluation(folder: Path) -> str:
    rng = np.random.default_rng(0)
    cold = np.arange(len(USERS)) < 10
    strata = {"all": cold | True, "warm": ~cold, "few": cold & False, "cold": cold}
    names = ("popular", "models/" + "long-" * 12 + "name", "<b>hostile</b>")
    values = {name: {ranking: per_user(rng.integers(1, 40, len(USERS))) for ranking in RANKINGS} for name in names}
    return evaluation_page(Comparison(np.array(USERS), strata, values), "books.split")


def inspection(folder: Path) -> str:
    return render_inspection(_inspection(folder))


def with_everything(folder: Path) -> str:
    return render(everything())


def whole_report(folder: Path) -> str:
    return report(read_folder(made_up.everything(folder)))


PAGES: dict[str, Callable[[Path], str]] = {
    "demo": demo,
    "evaluation": evaluation,
    "inspection": inspection,
    "everything": with_everything,
    "report": whole_report,
}


def _ratings() -> Ratings:
    rng = np.random.default_rng(0)
    cells = [(user, f"i{item:03d}") for user in USERS for item in rng.choice(260, 12, replace=False)]
    return Ratings.from_triples(*zip(*cells, strict=True))


def _inspection(folder: Path) -> Inspection:
    ledger = Ledger.create(folder / "ledger.jsonl", Guarantee(epsilon=8, delta=1e-6))
    release = publish(_ratings(), Guarantee(epsilon=4, delta=1e-6), strategy=JLT(dim=8), users=USERS, ledger=ledger)
    release.save(folder / "release")
    return Inspection(verify(folder / "release"), key_given=False)
