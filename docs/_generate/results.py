"""``make results``: write docs/results.md from its template, every figure computed from ``results/*.jsonl``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pricdr.experiments.results import Mean, Result, mean, read
from pricdr.experiments.spec import read_spec
from pricdr.experiments.synthetic_results import read_synthetic
from pricdr.experiments.synthetic_results import share as synthetic_share
from pricdr.experiments.tables import plain, share

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "results.md"
METRIC: Final = "NDCG@10"
EPSILONS: Final = (8, 4, 2, 1, 0.5)
DUPLICATES: Final = {"movie_music": (139, 2_089, 81_830), "electronics_cell": (381, 13_544, 125_712)}
"""Items in both domains, their ratings, all target ratings; ``tests/data/test_realdata.py`` counts them on the data."""


class Experiment:
    """The committed results of one spec."""

    def __init__(self, name: str) -> None:
        self.spec = read_spec(ROOT / "specs" / f"{name}.toml", ROOT / "specs" / "tuned")
        results = read(ROOT / "results" / f"{name}.jsonl")
        self.by_arm: dict[str, list[Result]] = {
            arm.name: sorted((r for r in results if r.arm == arm.name), key=lambda r: r.seed) for arm in self.spec.arms
        }

    @property
    def seeds(self) -> int:
        """How often every arm was run."""
        return len(self.spec.seeds)

    def users(self, stratum: str) -> int:
        """Return how many users of a stratum were evaluated."""
        return next(iter(self.by_arm.values()))[0].users[stratum]

    def ndcg(self, arm: str, stratum: str, ranking: str = "sampled") -> Mean:
        """Return NDCG@10 of one arm, a mean over seeds."""
        return mean(self._values(arm, stratum, ranking))

    def gain(self, arm: str, stratum: str = "cold", base: str = "popularity") -> Mean:
        """Return by how much an arm is above another, seed by seed."""
        pairs = zip(self._values(arm, stratum), self._values(base, stratum), strict=True)
        return mean(own - other for own, other in pairs)

    def share(self, arm: str) -> Mean:
        """Return what cold users keep of the gain that the ceiling reaches in plaintext."""
        return share(self.spec, self.by_arm, arm)

    def controls(self) -> list[str]:
        """Return the arms whose release is worth nothing."""
        return [name for name in self.by_arm if name.endswith("(control)")]

    def _values(self, arm: str, stratum: str, ranking: str = "sampled") -> list[float]:
        return [result.figures[ranking][stratum][METRIC] for result in self.by_arm[arm]]


class Synthetic:
    """The committed results on synthetic pairs, by number of users."""

    def __init__(self) -> None:
        self.results = read_synthetic(ROOT / "results" / "frontier_synthetic.jsonl")
        self.sizes: list[int] = sorted({one.users for one in self.results})

    def share(self, arm: str, epsilon: float, users: int) -> float:
        """Return the share of the plaintext gain that an arm keeps."""
        kept = synthetic_share(self.results, arm, epsilon, users)
        assert kept is not None
        return kept.value


def percent(found: Mean) -> str:
    """Return a share as tables print it.

    >>> percent(Mean(-0.02, 0.011, 5))
    '−2 ± 1 %'
    """
    return f"{100 * found.value:.0f} ± {100 * found.error:.0f} %".replace("-", "−")


def figure(found: Mean) -> str:
    """Return a metric with its standard error, four digits each."""
    return str(found).replace("-", "−")


def short(found: Mean) -> str:
    """Return a metric with three digits, for sentences."""
    return f"{found.value:.3f}".replace("0.", ".", 1).replace("-", "−")


def share_rows(movie: Experiment, cell: Experiment, epsilons: Sequence[float] = EPSILONS) -> str:
    """Return the rows of the table of shares: both Amazon pairs, both strategies that learn."""
    arms = [(pair, strategy) for pair in (movie, cell) for strategy in ("guided", "spectral")]
    return "\n".join(
        f"| {epsilon:g} | "
        + " | ".join(percent(pair.share(f"{strategy}, ε = {epsilon:g}")) for pair, strategy in arms)
        + " |"
        for epsilon in epsilons
    )


def compared_table(pair: Experiment, strata: Sequence[str]) -> str:
    """Return every compared method of a pair with its NDCG@10."""
    head = f"| method | {' | '.join(strata)} |\n| --- |{' ---: |' * len(strata)}"
    rows = (f"| {plain(arm)} | {' | '.join(figure(pair.ndcg(arm, name)) for name in strata)} |" for arm in pair.by_arm)
    return "\n".join([head, *rows])


def page() -> str:
    """Return docs/results.md as it should be."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, keep_trailing_newline=True
    )  # Markdown, not HTML: nothing is escaped, and every value is ours
    environment.filters |= {"percent": percent, "figure": figure, "short": short}
    names = ("frontier", "compared", "distinct")
    pairs = {f"{kind}_{data}": Experiment(f"{kind}_{data}") for kind in names for data in DUPLICATES}
    douban = {f"{kind}_douban": Experiment(f"{kind}_douban_book_music") for kind in ("frontier", "compared")}
    tables = sorted((ROOT / "results").glob("*.md"))
    return environment.get_template("results.md.j2").render(
        **pairs,
        **douban,
        synthetic=Synthetic(),
        duplicates=DUPLICATES,
        share_rows=share_rows,
        compared_table=compared_table,
        tables=[(path.name, path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")) for path in tables],
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
