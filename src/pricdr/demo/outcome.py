"""What the demo measured: tables for a screen, and the page it ends with."""

from collections.abc import Sequence
from typing import Final

from pricdr.evaluation.comparison import Comparison
from pricdr.evaluation.metrics import Float64Array
from pricdr.evaluation.verdict import compare, standard_error
from pricdr.pages import (
    Bullets,
    Column,
    Commands,
    Details,
    Note,
    Page,
    Row,
    Section,
    Table,
    render,
    table,
)
from pricdr.pages.charts import Dot, dot_plot

POPULARITY: Final = "popularity"
ALONE: Final = "target only"
RELEASE: Final = "with release"
PLAINTEXT: Final = "plaintext source"

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
RANKED: Final = "How high each user's held-out item is ranked among 99 unrated ones."


def conclusion(measured: Comparison) -> list[str]:
    """Return for cold and for warm users whether the release helps: over the target alone and over popularity.

    Both: a release that beats the target's own model, but not a list of what is popular, is worth nothing.
    """
    return [
        f"{stratum.capitalize()} users: "
        + (
            "the release helps."
            if all(
                compare(_values(measured, RELEASE, stratum), _values(measured, rival, stratum)).low > 0
                for rival in (POPULARITY, ALONE)
            )
            else "no gain shown."
        )
        for stratum in STRATA
    ]


def outcome_tables(measured: Comparison) -> list[Table]:
    """Return NDCG@10 of every model, the differences that matter, and HR@10; three columns each, which fit a phone."""
    return [_figures(measured, "NDCG@10"), _differences(measured), _figures(measured, "HR@10")]


def outcome_page(
    measured: Comparison,
    epsilon: float,
    promise: Sequence[tuple[str, Sequence[str]]],
    commands: Sequence[str],
    drawn: Sequence[Section] = (),
) -> str:
    """Return the same as a page: plot, figures, conclusion, promise, and how to repeat it.

    Args:
        measured: every model's metrics of every evaluated user.
        epsilon: at which ε both parties published.
        promise: what the release promises: headings, and sentences under each.
        commands: what to type to repeat it.
        drawn: sections that draw the release for people.
    """
    story = (
        f"A source company published its ratings under differential privacy (epsilon {epsilon:g} for one rating). A "
        "target company, which shares its users and nothing else, trained a recommender with that release and without."
    )
    repeated = (
        "In this page's folder, with pricdr installed. The noise is new in every release, so figures move a little."
    )
    ndcg, differences, hits = outcome_tables(measured)
    plot = dot_plot(
        "ndcg",
        "NDCG@10 by kind of user",
        [
            Dot(model, _group(measured, stratum), mean, mean - half, mean + half)
            for stratum in STRATA
            for model in measured.models
            for mean, half in [_mean(_values(measured, model, stratum))]
        ],
        label="NDCG@10",
        strong=RELEASE,
    )
    return render(
        Page(
            "PriCDR demo: what a private release is worth",
            lead=[story, *conclusion(measured), Note(SYNTHETIC)],
            sections=[
                Section(
                    "Figures",
                    [
                        RANKED,
                        *([plot] if plot else []),
                        ndcg,
                        NOT_FOR_REAL,
                        Details("Differences, and the same by HR@10", [differences, hits]),
                    ],
                ),
                *drawn,
                *(Section(title, [Bullets(sentences)]) for title, sentences in promise),
                Section("How to repeat it", [repeated, Commands(commands)]),
            ],
        )
    )


def _figures(measured: Comparison, metric: str) -> Table:
    columns = [Column("method", numeric=False)]
    columns += [Column(f"{stratum} users", _group(measured, stratum)) for stratum in STRATA]
    rows = []
    for model in measured.models:
        found = [_mean(_values(measured, model, stratum, metric)) for stratum in STRATA]
        rows.append(Row([model, *(f"{mean:.3f} ± {half:.3f}" for mean, half in found)], strong=model == RELEASE))
    caption = f"{metric}, mean ± half of its 95 % interval"
    return Table(f"{metric.partition('@')[0].lower()}-table", caption, columns, rows)


def _differences(measured: Comparison) -> Table:
    rows = []
    for left, right in _PAIRS:
        found = [compare(_values(measured, left, stratum), _values(measured, right, stratum)) for stratum in STRATA]
        rows.append([f"{left} − {right}", *(f"{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]" for d in found)])
    header = ["difference", *(f"{stratum} users" for stratum in STRATA)]
    return table("differences-table", "Differences in NDCG@10, user by user, with 95 % intervals", header, rows)


def _group(measured: Comparison, stratum: str) -> str:
    return f"{int(measured.strata[stratum].sum()):,} {stratum} users ({STRATA[stratum]})"


def _values(measured: Comparison, model: str, stratum: str, metric: str = "NDCG@10") -> Float64Array:
    return measured.values[model]["sampled"][metric][measured.strata[stratum]]


def _mean(values: Float64Array) -> tuple[float, float]:
    """Return a mean and half of its 95 % interval."""
    return float(values.mean()), 1.96 * standard_error(values)
