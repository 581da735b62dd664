"""Pages and figures from templates: whatever is put into one is text, never markup."""

from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from pricdr.errors import printable


def template_environment(package: str = "pricdr") -> Environment:
    """Return the environment of the templates in a package's folder ``templates``, and of those of all pages."""
    packages = dict.fromkeys([package, "pricdr"])
    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )


def shown_text(text: str) -> str:
    r"""Return text as all templates show it: printable, a number and its % on one line.

    >>> shown_text("95 % of a\nline")
    '95\xa0% of a\\u000aline'
    """
    return printable(text).replace(" %", "\xa0%")


def _shown(value: Any) -> Any:  # noqa: ANN401 - whatever a template is given
    """Return what a template shows of a value; Jinja escapes it afterwards."""
    # A macro's output has been through here already, and its line breaks are its own.
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return shown_text(value)
    return value
