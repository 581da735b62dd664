"""What the strategies share whose item rows do not depend on the ratings: one step, one row moved."""

from pricdr.privacy.dimension import BUDGET_SHARE, LARGEST, mean_sensitivity
from pricdr.privacy.mechanism import on_grid, release_rows
from pricdr.privacy.run import Entries, Run
from pricdr.privacy.steps import Declared, Step
from pricdr.privacy.strategies.base import FloatArray

PURPOSE = "adds up the rows of each user's items"


def fixed_steps(declared: Declared, dim: int | None) -> tuple[Step, ...]:
    """The rows; before them, where the dimension is to be chosen by it, a mean that takes 1 % of μ²."""
    chosen = dim is None
    widest = LARGEST if dim is None else dim
    rows = Step(
        name="rows",
        purpose=PURPOSE,
        sensitivity=declared.change,
        share=1 - BUDGET_SHARE if chosen else 1.0,
        rows=declared.users,
        numbers=widest,
        moved=widest,
    )
    if not chosen:
        return (rows,)
    mean = Step(
        name="dimension",
        purpose="finds the mean square of users' ratings, to choose the dimension by",
        sensitivity=mean_sensitivity(declared.bounds, declared.unit) * declared.bounds.rating_step**2,
        share=BUDGET_SHARE,
        rows=1,
        numbers=1,
        moved=1,
        published=False,
    )
    return mean, rows


def publish_fixed(item_rows: FloatArray, entries: Entries, run: Run) -> FloatArray:
    """Exact products with rows of norm at most 1 on the grid, clipped where declared, plus noise."""
    grid = run.grid("rows")
    return release_rows(
        entries.listed,
        on_grid(item_rows, radius=grid.radius(entries.bounds)),
        grid=grid,
        bounds=entries.bounds,
        noise=run.noise("rows"),
        progress=run.progress,
    )
