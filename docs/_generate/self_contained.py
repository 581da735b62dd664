"""``python -m docs._generate.self_contained SITE``: refuse a built site that would load anything from elsewhere."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

_OUTSIDE: Final = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_LOADING: Final = {"src", "srcset", "poster", "data", "href", "action", "formaction"}
_CSS: Final = re.compile(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)


class _Loads(HTMLParser):
    """Collects the addresses that a browser fetches to show a page; a link somebody may click is none of them."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            followed_by_hand = tag == "a" or (tag == "link" and ("rel", "canonical") in attrs)
            if name in _LOADING and not followed_by_hand and _OUTSIDE.match(value or ""):
                self.outside.append(f"<{tag} {name}={value}>")
            if name == "style":
                self.outside += _CSS.findall(value or "")
            if name == "class" and "mermaid" in (value or "").split():
                self.outside.append("a mermaid diagram, whose script the theme fetches from unpkg.com")


def loaded_from_elsewhere(site: Path) -> list[str]:
    """Return "file: address" for everything that the pages and styles of ``site`` would load from outside it."""
    found = []
    for path in sorted(site.rglob("*")):
        if path.suffix == ".html":
            page = _Loads()
            page.feed(path.read_text(encoding="utf-8"))
            found += [f"{path.relative_to(site)}: {address}" for address in page.outside]
        if path.suffix in {".css", ".html"}:
            styles = _CSS.findall(path.read_text(encoding="utf-8"))
            found += [f"{path.relative_to(site)}: {address}" for address in styles]
    return found


def main() -> int:
    """Check the site named on the command line."""
    site = Path(sys.argv[1])
    found = loaded_from_elsewhere(site)
    sys.stderr.writelines(f"error: {line}\n" for line in found)
    if not any(site.glob("*.html")):
        sys.stderr.write(f"error: there are no pages in {site}\n")
        return 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
