"""A page as a strict reader sees it: every tag closed, everything it could load, and its words."""

import base64
import hashlib
import re
from html.parser import HTMLParser

EMPTY = {"meta", "input", "br", "link", "img", "source"}


class Parsed(HTMLParser):
    """Tags in order, attributes, what was never closed, the page's words, its script and its style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.text = ""
        self.assets: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self._note(tag, attrs)
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self._note(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in self.assets:
            self.assets[self.open[-1]].append(data)
        else:
            self.text += data

    def _note(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def values(self, tag: str, name: str) -> list[str]:
        """Return the values of an attribute, in order."""
        return [value for other, attribute, value in self.attributes if (other, attribute) == (tag, name)]

    @property
    def ids(self) -> list[str]:
        return [value for _, name, value in self.attributes if name == "id"]


def require_self_contained(text: str) -> Parsed:
    """Check that a page loads nothing and runs nothing but its own script, and return it parsed."""
    page = Parsed(text)
    assert not page.open
    outside = {"link", "iframe", "object", "embed", "base", "form", "image", "use", "foreignobject", "video"}
    assert not outside & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on") or name == "style"]
    pictures = [value for _, name, value in page.attributes if name in {"src", "srcset"}]
    assert all(re.fullmatch(r"data:image/svg\+xml;base64,[\w+/=]+", value) for value in pictures)
    assert all(value.startswith("#") for _, name, value in page.attributes if name in {"href", "xlink:href"})
    assert not re.search(r"https?:|@import|url\((?!#)", text)
    assert len(page.ids) == len(set(page.ids))
    for name in ("aria-labelledby", "aria-describedby"):
        named = " ".join(value for _, attribute, value in page.attributes if attribute == name).split()
        assert set(named) <= set(page.ids)
    links = {value[1:] for value in page.values("a", "href")}
    assert links <= set(page.ids)
    (script,), (style,) = page.assets["script"], page.assets["style"]
    (policy,) = [value for value in page.values("meta", "content") if "default-src" in value]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert f"script-src '{_hash(script)}';" in policy
    assert f"style-src '{_hash(style)}';" in policy
    assert [page.tags.count(tag) for tag in ("h1", "main", "script", "style")] == [1, 1, 1, 1]
    return page


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
