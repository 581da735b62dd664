"""Pages and figures from templates: whatever is put into one is text, never markup."""

from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from pricdr.errors import printable


def template_environment(package: str) -> Environment:
    """Return the environment of the templates in a package's folder ``templates``, and of those that all pages share.

    The shared ones are a page that forbids itself to load anything (``base.html.j2``) and its looks (``page.css``).
    """
    return Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("pricdr")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )


def _shown(value: Any) -> Any:  # noqa: ANN401 - whatever a template is given
    r"""Return text as it is shown: printable, a number and its % on one line. Jinja escapes it afterwards.

    >>> _shown("95 % of a\nline")
    '95\xa0% of a\\u000aline'
    """
    # A macro's output has been through here already, and its line breaks are its own.
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return printable(value).replace(" %", "\xa0%")
    return value
