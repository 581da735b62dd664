"""Write the pages of the Python API: one entry for every public name, its text taken from the docstrings."""

from importlib import import_module
from inspect import isclass
from typing import Final

PAGES: Final = {
    "reference/python.md": (
        "pricdr",
        "# Python: pricdr\n\nWhat both parties need: `import pricdr`. Names load when they are first used.",
    ),
    "reference/models.md": (
        "pricdr.models",
        "# Python: models\n\nEvery method of stage two. A method holds settings; `fit` returns a trained model.",
    ),
    "reference/strategies.md": (
        "pricdr.strategies",
        "# Python: strategies\n\nThe ways from ratings to published rows. Give one to `pricdr.publish(strategy=…)`.",
    ),
}
"""Page → (module, what stands above its names)."""


def pages() -> dict[str, str]:
    """Return every page of the Python API as Markdown for mkdocstrings."""
    return {page: _page(introduction, public_names(module)) for page, (module, introduction) in PAGES.items()}


def public_names(module: str) -> list[str]:
    """Return the dotted public names of a module, functions before classes, each in the order it is listed."""
    package = import_module(module)
    documented = [
        name for name in package.__all__ if getattr(package, name).__doc__ and callable(getattr(package, name))
    ]
    return [f"{module}.{name}" for name in sorted(documented, key=lambda name: isclass(getattr(package, name)))]


def _page(introduction: str, names: list[str]) -> str:
    return "\n\n".join([introduction, *(f"::: {name}" for name in names)]) + "\n"
