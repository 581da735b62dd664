"""A griffe extension: what our docstrings write for a terminal becomes what Markdown shows as it was meant."""

import re
from typing import Any, Final

import griffe

_ROLE: Final = re.compile(r":(?:class|func|meth|mod|data|attr):`~?([^`]+)`")
_PROMPT: Final = ">>> "


class Readable(griffe.Extension):  # type: ignore[misc,unused-ignore]  # untyped where griffe ships no types
    """Turns Sphinx roles into code and bare doctests into code blocks."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401
        """Rewrite one docstring before it is parsed."""
        if obj.docstring:
            obj.docstring.value = readable(obj.docstring.value)


def readable(text: str) -> str:
    """Return a docstring without roles, its doctests fenced.

    A paragraph that begins with a prompt would otherwise be taken for three nested quotations.
    """
    paragraphs = _ROLE.sub(r"`\1`", text.replace("``", "`")).split("\n\n")
    return "\n\n".join(_fenced(part) if part.lstrip().startswith(_PROMPT) else part for part in paragraphs)


def _fenced(paragraph: str) -> str:
    indent = paragraph[: len(paragraph) - len(paragraph.lstrip())].replace("\n", "")
    return f"{indent}```pycon\n{paragraph}\n{indent}```"
