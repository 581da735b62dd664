"""Figures on the page about published code are computed, and its links lead to lines that cannot change."""

import math
import re

import pytest
from docs._generate.results import ROOT
from scipy.optimize import brentq
from scipy.stats import norm

PAGE = (ROOT / "docs" / "published-code.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The ε of a Gaussian mechanism, from the definition of its profile."""

    def excess(epsilon: float) -> float:
        second = math.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))
        return norm.cdf(mu / 2 - epsilon / mu) - second - delta

    return brentq(excess, 1e-6, 2000)


def test_every_link_into_code_names_a_commit_and_lines():
    links = re.findall(r"^\[.+\]: https://github\.com/[\w-]+/\w+/(.+)$", PAGE, re.MULTILINE)
    assert len(links) > 40
    for link in links:
        assert re.fullmatch(r"(tree/[0-9a-f]{40}|blob/[0-9a-f]{40}/[\w./-]+#L\d+(-L\d+)?)", link), link


def test_what_draws_of_gaussian_noise_cost_is_as_stated():
    sigma = math.sqrt(2 * math.log(1.25 / 1e-5)) / 8
    one, other, all_one, all_other = (
        gaussian_epsilon(moved * math.sqrt(draws) / sigma, 1e-5) for draws in (1, 150) for moved in (1, 2)
    )
    assert f"σ = √(2 ln(1.25/δ))/ε = {sigma:.3f}" in WORDS
    assert f"one draw is ε = {one:.2f} for" in WORDS
    assert f"and {other:.1f} for one that is replaced" in WORDS
    assert f"are {all_one:.0f} and {round(all_other, -1):.0f}." in WORDS


def test_what_a_random_offset_and_laplace_noise_cost_is_as_stated():
    moved = (math.exp(0.3) + 1) / (math.exp(0.3) + 2)
    ratio = (1 - moved + moved / 256) / (moved / 256)
    assert f"(e^ε + 1)/(e^ε + 2) = {moved:.3f}" in WORDS
    assert f"then {ratio:.0f} times as likely as any other one: ε = {math.log(ratio):.2f} for" in WORDS
    assert 2 * 0.2 * math.sqrt(64) / 0.1 == pytest.approx(32)
    assert f"{32 * 257 * 300:,} entries" in WORDS
