"""Pages in a real browser. One browser for each test process, a new context for each test.

``open_page`` opens a page and, when the test is over, checks that the page has complained about nothing and has asked
nobody for anything.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
MISSING = "pages are tested in chromium, which is not here: `make system` brings it (PRICDR_CHROMIUM names another)"


@pytest.fixture(scope="session")
def browser() -> Iterator:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip("playwright is not installed: `make setup` brings it, and `make system` the browser")
    program = shutil.which(os.environ.get("PRICDR_CHROMIUM", "chromium"))
    if program is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, tmp_path) -> Iterator[Callable]:
    contexts, complaints = [], []

    def opened(html: str | Path, **options):
        """Return the page, opened from a file; ``options`` are those of a browser's context."""
        path = html if isinstance(html, Path) else tmp_path / "page.html"
        if isinstance(html, str):
            path.write_text(html, encoding="utf-8")
        context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options}
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30000)  # a busy machine is not a broken page
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        # Pictures are part of the page.
        page.on(
            "request",
            lambda sent: sent.url in {path.as_uri()} or sent.url.startswith("data:") or complaints.append(sent.url),
        )
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints
