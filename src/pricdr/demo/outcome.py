"""What the demo measured, in figures and in words. The words follow from the figures, whatever those turn out to be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pricdr.data.splits import Split
from pricdr.evaluation.metrics import Float64Array, Metrics
from pricdr.evaluation.verdict import Difference, compare, standard_error
from pricdr.pages import (
    Bullets,
    Column,
    Commands,
    Content,
    Details,
    Dot,
    Note,
    Page,
    Row,
    Section,
    Table,
    dot_plot,
    render,
    table,
)

POPULARITY: Final = "popularity"
ALONE: Final = "target only"
RELEASE: Final = "with release"
PLAINTEXT: Final = "plaintext source"

METRICS: Final = ("NDCG@10", "HR@10")
STRATA: Final = {"cold": "no history", "warm": "own history"}
_PAIRS: Final = ((RELEASE, POPULARITY), (RELEASE, ALONE), (PLAINTEXT, RELEASE))

NOT_FOR_REAL: Final = (
    "The plaintext source is there for comparison only: it needs both companies' ratings on one desk, which no real "
    "target has. It shows what there would be to gain without privacy."
)
SYNTHETIC: Final = (
    "The data are made up, with taste that the two domains share more than real ones do. Expect less from your own, "
    "and measure it: pricdr split, train and evaluate."
)


@dataclass(frozen=True)
class Estimate:
    """A mean over users with its 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Float64Array) -> "Estimate":
        """Return the mean of ``values`` ± 1.96 standard errors."""
        mean, half = float(values.mean()), 1.96 * standard_error(values)
        return cls(mean, mean - half, mean + half)

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.high - self.mean:.3f}"


@dataclass(frozen=True)
class Outcome:
    """Everything the demo measured, by kind of user."""

    users: Mapping[str, int]
    figures: Mapping[tuple[str, str, str], Estimate]
    """By method, kind of user and metric."""
    differences: Mapping[tuple[str, str, str], Difference]
    """In NDCG@10: of one method over another, by kind of user."""

    @classmethod
    def of(cls, metrics: Mapping[str, Metrics], split: Split) -> "Outcome":
        """Return the outcome of every method's metrics of every evaluated user."""
        parts = {name: split.strata()[name] for name in STRATA}
        return cls(
            users={name: int(keep.sum()) for name, keep in parts.items()},
            figures={
                (method, name, metric): Estimate.of(values[metric][keep])
                for method, values in metrics.items()
                for name, keep in parts.items()
                for metric in METRICS
            },
            differences={
                (left, right, name): compare(metrics[left]["NDCG@10"][keep], metrics[right]["NDCG@10"][keep])
                for left, right in _PAIRS
                for name, keep in parts.items()
            },
        )

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in the order they were measured."""
        return tuple(dict.fromkeys(method for method, _, _ in self.figures))


def conclusion(outcome: Outcome) -> tuple[str, str]:
    """Return what the figures show, in words, for cold and for warm users.

    A gain is claimed only where intervals lie above zero.
    """
    return _verdict(outcome, "cold"), _verdict(outcome, "warm")


def _verdict(outcome: Outcome, stratum: str) -> str:
    over = {rival: outcome.differences[RELEASE, rival, stratum] for rival in (POPULARITY, ALONE)}
    # Both: a release that beats the target's own model, but not a list of what is popular, is worth nothing.
    verdict = "the release helps" if all(d.low > 0 for d in over.values()) else "no gain shown"
    rivals = {POPULARITY: "popularity", ALONE: "the target alone"}
    compared = [
        _by_sign(d, f"is {d.mean:.3f} above {name}", f"is {-d.mean:.3f} below {name}", f"cannot be told from {name}")
        for d, name in ((d, rivals[rival]) for rival, d in over.items())
    ]
    price = outcome.differences[PLAINTEXT, RELEASE, stratum]
    costs = _by_sign(
        price,
        f"The plaintext source would give {price.mean:.3f} more",
        f"The plaintext source gave {-price.mean:.3f} less",
        "No difference from the plaintext source is shown",
    )
    comment = _by_sign(price, ": that is the price of privacy", ": here it is no upper limit", "", interval=False)
    return (
        f"{stratum.capitalize()} users: {verdict}. NDCG@10 with the release {compared[0]} and {compared[1]}. "
        f"{costs}{comment}."
    )


def _by_sign(d: Difference, above: str, below: str, unclear: str, *, interval: bool = True) -> str:
    """Return the words for a difference that lies above zero, below it, or cannot be told from it."""
    words = above if d.low > 0 else below if d.high < 0 else unclear
    return f"{words} (95 % interval {d.low:+.3f} to {d.high:+.3f})" if interval else words


def outcome_lines(outcome: Outcome) -> list[str]:
    """Return the figures, in lines for a screen of ninety columns."""
    wide = 15 * len(METRICS)
    shown = [
        "One held-out item of each user among 99 unrated ones; mean ± 1.96 standard errors over users:",
        "",
        " " * 18 + "".join(f"{f'{outcome.users[stratum]:,} {stratum} users':<{wide}}" for stratum in STRATA),
        " " * 18 + "".join(f"{metric:<15}" for _ in STRATA for metric in METRICS),
        *(
            f"{method:<18}"
            + "".join(f"{outcome.figures[method, s, metric]!s:<15}" for s in STRATA for metric in METRICS)
            for method in outcome.methods
        ),
        "",
        "Differences in NDCG@10, user by user, with 95 % intervals:",
        "",
        " " * 34 + "".join(f"{stratum + ' users':<26}" for stratum in STRATA),
        *(f"{row[0]:<34}" + "".join(f"{cell:<26}" for cell in row[1:]) for row in _differences(outcome)),
    ]
    return [line.rstrip() for line in shown]


def outcome_page(
    outcome: Outcome,
    epsilon: float,
    promise: Sequence[tuple[str, Sequence[str]]],
    commands: Sequence[str],
    drawn: Sequence[Section] = (),
) -> str:
    """Return the same as a page: plot, figures, conclusion, promise, and how to repeat it.

    Args:
        outcome: what was measured.
        epsilon: at which ε both parties published.
        promise: what the release promises: headings, and sentences under each.
        commands: what to type to repeat it.
        drawn: sections that draw the release for people.
    """
    story = (
        f"A source company published its ratings under differential privacy (epsilon {epsilon:g} for one rating). A "
        "target company, which shares its users and nothing else, trained a recommender with that release and without."
    )
    groups = {stratum: f"{outcome.users[stratum]:,} {stratum} users ({words})" for stratum, words in STRATA.items()}
    dots = [
        Dot(method, group, figure.mean, figure.low, figure.high)
        for stratum, group in groups.items()
        for method in outcome.methods
        for figure in [outcome.figures[method, stratum, "NDCG@10"]]
    ]
    ranked = "How high each user's held-out item is ranked among 99 unrated ones: mean and 95 % interval over users."
    plot = dot_plot("ndcg", "NDCG@10 by kind of user", dots, label="NDCG@10", strong=RELEASE)
    header = ["difference", *(f"{stratum} users" for stratum in STRATA)]
    differences = table(
        "differences-table", "Differences in NDCG@10, user by user, with 95 % intervals", header, _differences(outcome)
    )
    repeated = (
        "In this page's folder, with pricdr installed. The noise is new in every release, so figures move a little."
    )
    figures: Content = [
        ranked,
        *([plot] if plot else []),
        _figures(outcome, groups, "NDCG@10"),
        NOT_FOR_REAL,
        Details("Differences, and the same by HR@10", [differences, _figures(outcome, groups, "HR@10")]),
    ]
    return render(
        Page(
            "PriCDR demo: what a private release is worth",
            lead=[story, *conclusion(outcome), Note(SYNTHETIC)],
            sections=[
                Section("Figures", figures),
                *drawn,
                *(Section(title, [Bullets(sentences)]) for title, sentences in promise),
                Section("How to repeat it", [repeated, Commands(commands)]),
            ],
        )
    )


def _figures(outcome: Outcome, groups: Mapping[str, str], metric: str) -> Table:
    """Return a metric of every method: three columns, which fit a phone."""
    columns = [Column("method", numeric=False), *(Column(f"{stratum} users", groups[stratum]) for stratum in STRATA)]
    rows = [
        Row([method, *(str(outcome.figures[method, stratum, metric]) for stratum in STRATA)], method == RELEASE)
        for method in outcome.methods
    ]
    return Table(
        metric.partition("@")[0].lower() + "-table", f"{metric}, mean ± half of its 95 % interval", columns, rows
    )


def _differences(outcome: Outcome) -> list[list[str]]:
    rows = []
    for left, right in _PAIRS:
        by_stratum = (outcome.differences[left, right, stratum] for stratum in STRATA)
        rows.append([f"{left} − {right}", *(f"{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]" for d in by_stratum)])
    return rows
