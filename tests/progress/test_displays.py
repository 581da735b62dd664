"""Where somebody watches: a terminal, a notebook without Jupyter; and one place that decides which."""

import io
import sys
import time
from contextlib import redirect_stderr
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import pricdr
from pricdr import progress
from pricdr.data.splits import hold_out
from pricdr.errors import ParameterError
from pricdr.models import DMF, EASE, TrainingOptions
from pricdr.models.methods.dmf import TargetStageConfig
from pricdr.models.methods.hetero import SourceStageConfig
from pricdr.progress import LastReport, display, in_notebook, notebook_bars, on_terminal, shown, silent
from pricdr.testing.contracts import Planted

SMALL = TargetStageConfig(hidden=16, width=8)


class Kernel:
    """What was displayed, in order: the first time and every time it was drawn again."""

    def __init__(self) -> None:
        self.sent: list[dict[str, str]] = []

    @property
    def html(self) -> list[str]:
        return [one["text/html"] for one in self.sent]

    def display(self, bundle, *, raw, display_id):
        assert raw
        assert display_id is True
        self.sent.append(bundle)
        return SimpleNamespace(update=self.update)

    def update(self, bundle, *, raw):
        assert raw
        self.sent.append(bundle)


@pytest.fixture
def kernel(monkeypatch) -> Kernel:
    """Run inside a notebook."""
    kernel, ipython, shown = Kernel(), ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=kernel)
    shown.display = kernel.display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return kernel


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    return Terminal()


@pytest.fixture(scope="module")
def planted() -> Planted:
    return Planted.pair()


def wait_for(words: str, terminal: Terminal, start: int = 0) -> None:
    """Wait until the terminal shows ``words``: it is drawn ten times a second, on a quiet machine."""
    deadline = time.monotonic() + 20
    while words not in terminal.getvalue()[start:]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_progress_is_nobody_the_watcher_or_what_the_caller_brought():
    def own(what, done, total, note=""): ...

    for given, shows in ((False, silent), (own, own)):
        with shown(given) as report:
            assert report is shows
    with redirect_stderr(io.StringIO()), shown(True) as report:
        assert isinstance(report, LastReport)
    with pytest.raises(ParameterError, match="progress must be True, False or a function, got 'yes'"):
        shown("yes").__enter__()


def shown_by(stream) -> str:
    with redirect_stderr(stream), display("reading r.csv"):
        return stream.getvalue()


def test_the_display_suits_the_place(kernel, terminal, monkeypatch):
    assert shown_by(terminal) == ""
    assert "reading r.csv" in kernel.html[0]
    monkeypatch.delitem(sys.modules, "IPython")
    assert shown_by(io.StringIO()) == ""
    assert "reading r.csv" in shown_by(terminal)
    monkeypatch.setenv("TERM", "dumb")
    with redirect_stderr(terminal):
        assert not on_terminal()


def test_ipython_on_a_terminal_is_no_notebook(monkeypatch):
    ipython = ModuleType("IPython")
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    for shell in (None, SimpleNamespace(prompts=None)):
        ipython.get_ipython = lambda shell=shell: shell
        assert not in_notebook()


def test_work_that_cannot_say_how_far_it_is_leaves_when_something_else_begins(terminal):
    with redirect_stderr(terminal), shown(True) as report:
        report("evidence test", 0, 0)
        wait_for("evidence test", terminal)
        before = len(terminal.getvalue())
        report("target", 0.5, 4, "epoch 1, batch 5 of 10")
        wait_for("epoch 1, batch 5 of 10", terminal, before)
        text = terminal.getvalue()
    last = text[text.rindex("target") :]
    assert "evidence test" not in last
    assert "preparing" not in last


def test_a_notebook_shows_something_at_once_and_keeps_the_bars(kernel):
    with shown(True, "reading r.csv"):
        assert "reading r.csv" in kernel.html[0]
        assert kernel.html[0].count("<progress></progress>") == 1
    with shown(True) as report:
        report("target", 2.5, 5, "loss 0.3")
        report("source", 4, 4)
    last = kernel.html[-1]
    assert '<progress value="2.5" max="5">' in last
    assert "2 of 5" in last
    assert "loss 0.3" in last
    assert '<progress value="4" max="4">' in last
    assert "preparing" not in last
    assert kernel.sent[-1]["text/plain"].startswith("target: 2 of 5, loss 0.3\nsource: 4 of 4\n0:00:0")


def test_a_notebook_is_drawn_while_the_work_is_inside_one_call_and_nothing_moves_afterwards(kernel, monkeypatch):
    monkeypatch.setattr(progress, "REDRAW_SECONDS", 0.01)
    with notebook_bars("solving"):
        deadline = time.monotonic() + 20
        while len(kernel.sent) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert "<progress></progress>" in kernel.html[-2]
    assert "solving" in kernel.html[-1]
    assert "<progress" not in kernel.html[-1]
    drawn = len(kernel.sent)
    time.sleep(0.05)
    assert len(kernel.sent) == drawn


def test_hostile_names_are_shown_as_they_are(kernel, terminal):
    name, note = "<script>alert(1)</script>", "\x1b[31m</div>"
    with shown(True) as report:
        report(name, 1, 2, note)
    assert "&lt;script&gt;alert(1)" in kernel.html[-1]
    assert "<script" not in kernel.html[-1]
    assert "\\u001b[31m&lt;/div&gt;" in kernel.html[-1]
    with redirect_stderr(terminal), progress.terminal_bars(f"reading {note}") as report:
        report(f"name {note}", 1, 2, f"note {note}")
    for what in ("reading", "name", "note"):
        assert f"{what} \\u001b[31m</div>" in terminal.getvalue()
    assert "\x1b[31m" not in terminal.getvalue()


def test_a_notebook_that_cannot_draw_does_no_harm(kernel, monkeypatch):
    monkeypatch.setattr(progress, "REDRAW_SECONDS", 0.01)
    with notebook_bars("a"):
        monkeypatch.setattr(kernel, "sent", None)
        time.sleep(0.05)


def test_every_function_that_takes_long_shows_itself(kernel, tmp_path, planted):
    pricdr.publish(planted.source, pricdr.Guarantee(epsilon=4, delta=1e-6), progress=True)
    assert "rows of round 1" in kernel.html[-1]
    file = tmp_path / "r.csv"
    file.write_text("user,item\na,x\n")
    pricdr.read_ratings(file, progress=True)
    assert "reading " in kernel.html[-1]
    split = hold_out(planted.target.select(items=tuple(f"i{at:02d}" for at in range(300))), seed=0)
    model = EASE().fit(split.train, progress=True)
    assert "fitting ease" in kernel.html[-1]
    pricdr.evaluate({"ease": model}, split, progress=True)
    assert "ranking" in kernel.html[-1]
    method = DMF(config=SMALL, options=TrainingOptions(epochs=2, batch=8, device="cpu"))
    pricdr.transfer(planted.target, method=method, validation=planted.validation, progress=True)
    assert "2 of 2" in kernel.html[-1]
    assert "validation" in kernel.html[-1]


def test_a_function_is_called_while_a_method_is_fitted_and_the_model_stays_the_same(planted):
    config = SourceStageConfig(base="dmf", hidden=16, width=8)
    method = pricdr.HeteroCDR(config=config, options=TrainingOptions(epochs=1, device="cpu"))
    for source in ({"release": planted.release}, {"plaintext_source": planted.source}):
        reported = []

        def report(*told, reported=reported):
            reported.append(told)

        seen = method.fit(planted.target, **source, validation=planted.validation, progress=report)
        assert reported[0][:3] == ("fitting hetero", 0, 0)
        assert {("target", 0.0, 1), ("target", 1, 1)} <= {told[:3] for told in reported}
        unseen = method.fit(planted.target, **source, validation=planted.validation)
        np.testing.assert_array_equal(seen.user_vectors, unseen.user_vectors)


def test_a_display_that_cannot_be_opened_costs_no_budget(monkeypatch, tmp_path, planted):
    def broken(what):
        raise OSError("no display")

    monkeypatch.setattr("pricdr.progress.display", broken)
    ledger = pricdr.Ledger.create(tmp_path / "ledger.jsonl", pricdr.Guarantee(epsilon=8, delta=1e-6))
    with pytest.raises(OSError, match="no display"):
        pricdr.publish(planted.source, pricdr.Guarantee(epsilon=4, delta=1e-6), ledger=ledger, progress=True)
    assert not ledger.read().spends
