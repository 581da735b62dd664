"""``make results``: docs/results.md from its template, every figure computed from ``results``."""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks.fold_in import read_folded_in
from benchmarks.frontier_table import read_synthetic, share as synthetic_share
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from docs._generate import frontier_figure
from pricdr.errors import plain
from pricdr.evaluation.verdict import Verdict
from pricdr.experiments import measured
from pricdr.experiments.measured import Measurement
from pricdr.experiments.paper import table2
from pricdr.experiments.results import Outline, read
from pricdr.experiments.spec import Spec, read_specs

ROOT: Final = Path(__file__).parents[2]
METRIC: Final = "NDCG@10"
EPSILONS: Final = (8, 4, 2, 1, 0.5)
DOUBAN: Final = "Douban Book→Music"
SEVERAL: Final = tuple((target, users) for target in ("movie", "music", "book") for users in ("every", "any"))
"""Targets of two sources, and whose users: those of every domain, or of any source."""
LARGER: Final = (
    *(f"douban_{users}" for users in ("500", "1000", "2000", "4000", "book_music", "music_book")),
    *(f"joined_{pair}" for pair in ("movie_music", "movie_book", "music_book")),
)
"""Data of ``specs/larger.toml``, in the order of its table."""
DUPLICATES: Final = {"movie_music": (139, 2_089, 81_830), "electronics_cell": (381, 13_544, 125_712)}
"""Items in both domains, their ratings, all target ratings; ``tests/data/test_realdata.py`` counts them on the data."""


@cache
def specs() -> dict[str, Spec]:
    """Return every table by name."""
    paths = sorted((ROOT / "specs").glob("*.toml"))
    return {spec.name: spec for path in paths for spec in read_specs(path, ROOT / "specs" / "tuned")}


class Experiment:
    """The committed results of one spec."""

    def __init__(self, name: str) -> None:
        self.spec = specs()[name]
        self.found = measured.Experiment.of(Outline.of(self.spec), read(ROOT / "results" / f"{name}.jsonl"))
        runs = {arm.name: sorted(arm.runs.items()) for arm in self.found.arms.values()}
        self.by_arm = {name: [run for _, run in by_seed] for name, by_seed in runs.items()}

    @property
    def seeds(self) -> int:
        """How often every arm was run."""
        return len(self.spec.seeds)

    def users(self, stratum: str) -> int:
        """Return how many users of a stratum were evaluated."""
        return next(iter(self.by_arm.values()))[0].users[stratum]

    def ndcg(self, arm: str, stratum: str, ranking: str = "sampled") -> Measurement:
        """Return NDCG@10 of one arm, a mean over seeds."""
        return mean(self._values(arm, stratum, ranking))

    def gain(self, arm: str, stratum: str = "cold", base: str = "popularity") -> Measurement:
        """Return by how much an arm is above another, seed by seed."""
        pairs = zip(self._values(arm, stratum), self._values(base, stratum), strict=True)
        return mean(own - other for own, other in pairs)

    def over_better(self, epsilon: float, stratum: str) -> Measurement:
        """Return by how much releases of two sources are above the better one of them alone."""
        alone = [f"{source}, ε = {epsilon:g}" for source in ("A", "B")]
        better = max(alone, key=lambda arm: self.ndcg(arm, stratum).value)
        return self.gain(f"A and B, ε = {epsilon:g}", stratum, base=better)

    def used(self, arm: str, releases: int = 2) -> int:
        """Return in how many trainings an arm of several releases used that many of them."""
        return sum(len(result.releases_used or ()) == releases for result in self.by_arm[arm])

    def refused(self, arm: str) -> int:
        """Return in how many trainings an arm trusted no release."""
        return self.found.arms[arm].refused()[0]

    def share(self, arm: str) -> Measurement:
        """Return what cold users keep of the gain that the ceiling reaches in plaintext."""
        return self.found.share(self.found.arms[arm])

    def curve(self, name: str, stratum: str, metric: str = METRIC) -> dict[float, Measurement]:
        """Return the points of a curve, each a mean over seeds."""
        points = [(arm.point.at, arm.name) for arm in self.spec.arms if arm.point and arm.point.curve == name]
        return {at: mean(r.figures["sampled"][stratum][metric] for r in self.by_arm[arm]) for at, arm in points}

    def lowest(self, curve: str, stratum: str) -> Measurement:
        """Return the lowest point of a curve."""
        return min(self.curve(curve, stratum).values(), key=lambda point: point.value)

    def highest(self, curve: str, stratum: str) -> Measurement:
        """Return the highest point of a curve."""
        return max(self.curve(curve, stratum).values(), key=lambda point: point.value)

    def metrics(self, arm: str, stratum: str = "warm") -> dict[str, Measurement]:
        """Return every metric of an arm."""
        figures = [result.figures["sampled"][stratum] for result in self.by_arm[arm]]
        return {metric: mean(found[metric] for found in figures) for metric in figures[0]}

    def exact_epsilon(self, arm: str) -> float:
        """Return the ε that the noise of an arm's release delivers."""
        release = self.by_arm[arm][0].release
        assert release is not None
        assert release.epsilon is not None
        return release.epsilon

    def accepted(self) -> int:
        """Return in how many trainings a worthless release was trusted."""
        return sum(trusted(self, arm) for arm in self.controls())

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


class FoldedIn:
    """The committed results of folding in, beside training again."""

    def __init__(self) -> None:
        self.results = read_folded_in(ROOT / "results" / "fold_in.jsonl")

    def ndcg(self, kind: str, how: str) -> Measurement:
        """Return NDCG@10 of users of one kind, a mean over seeds."""
        return mean(one.ndcg[kind][how] for one in self.results)

    def lost(self, kind: str) -> Measurement:
        """Return by how much folding in is above training again, seed by seed."""
        return mean(one.ndcg[kind]["folded in"] - one.ndcg[kind]["trained again"] for one in self.results)

    def users(self, kind: str) -> str:
        """Return how many users of a kind were evaluated, over all seeds: from the fewest to the most."""
        counts = sorted({one.users[kind] for one in self.results})
        return " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))

    def seconds(self, *steps: str) -> float:
        """Return the mean seconds of a processor that some steps took together."""
        return sum(mean(one.seconds[step] for one in self.results).value for step in steps)


def mean(values: Iterable[float]) -> Measurement:
    """Return what was measured with each seed, in the order of the seeds."""
    return Measurement(dict(enumerate(values)))


def percent(found: Measurement) -> str:
    """Return a share as tables print it.

    >>> percent(Measurement({1: -0.01, 2: -0.03}))
    '−2 ± 1 %'
    """
    return f"{100 * found.value:.0f} ± {100 * found.error:.0f} %".replace("-", "−")


def figure(found: Measurement) -> str:
    """Return a metric with its standard error, four digits each."""
    return str(found).replace("-", "−")


def sure(found: Measurement) -> str:
    """Return a difference, bold where its 95 % interval lies above 0."""
    text = f"{signed(found.value)} ± {short(Measurement({0: found.error}), 4)}"
    return f"**{text}**" if found.verdict is Verdict.HELPS else text


def short(found: Measurement, digits: int = 3) -> str:
    """Return a metric with three digits, for sentences."""
    return f"{found.value:.{digits}f}".replace("0.", ".", 1).replace("-", "−")


def decimal(value: float) -> str:
    """Return a figure of the paper.

    >>> decimal(0.1058)
    '.1058'
    """
    return f"{value:.4f}".replace("0.", ".", 1)


def signed(value: float) -> str:
    """Return a difference with its sign.

    >>> signed(-0.0021)
    '−.0021'
    """
    return f"{value:+.4f}".replace("0.", ".", 1).replace("-", "−")


def share_rows(movie: Experiment, cell: Experiment, epsilons: Sequence[float] = EPSILONS) -> str:
    """Return the rows of the table of shares: both Amazon pairs, both strategies that learn."""
    arms = [(pair, strategy) for pair in (movie, cell) for strategy in ("guided", "spectral")]
    return "\n".join(
        f"| {epsilon:g} | "
        + " | ".join(percent(pair.share(f"{strategy}, ε = {epsilon:g}")) for pair, strategy in arms)
        + " |"
        for epsilon in epsilons
    )


def trusted(pair: Experiment, arm: str) -> int:
    """Return in how many trainings a release was trusted, for warm users or for cold ones."""
    return sum(result.trust != {"warm": 0, "cold": 0} for result in pair.by_arm[arm])


def compared_table(pair: Experiment, strata: Sequence[str]) -> str:
    """Return every compared method of a pair with its NDCG@10."""
    head = f"| method | {' | '.join(strata)} |\n| --- |{' ---: |' * len(strata)}"
    rows = (f"| {plain(arm)} | {' | '.join(figure(pair.ndcg(arm, name)) for name in strata)} |" for arm in pair.by_arm)
    return "\n".join([head, *rows])


def page() -> str:
    """Return the page as it should be."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, keep_trailing_newline=True
    )  # Markdown, not HTML: nothing is escaped, and every value is ours
    environment.filters |= {"percent": percent, "figure": figure, "short": short, "decimal": decimal, "signed": signed}
    environment.filters["sure"] = sure
    return environment.get_template("results.md.j2").render(
        tables={name: Experiment(name) for name in specs() if (ROOT / "results" / f"{name}.jsonl").exists()},
        several={at: Experiment("sources_{}_{}".format(*at)) for at in SEVERAL},
        larger=LARGER,
        synthetic=Synthetic(),
        folded=FoldedIn(),
        duplicates=DUPLICATES,
        paper=paper_rows(),
        trusted=trusted,
        share_rows=share_rows,
        compared_table=compared_table,
        files=[(f"{name}.md", spec.title) for name, spec in specs().items() if name != "quick"],
    )


def paper_rows() -> dict[str, dict[str, float]]:
    """Return the paper's Table 2 for Douban Book→Music, by its names of methods."""
    return {method: dict(figures) for (task, method), figures in table2().items() if task == DOUBAN}


if __name__ == "__main__":
    (ROOT / "docs" / "results.md").write_text(page(), encoding="utf-8")
    frontier_figure.write()
