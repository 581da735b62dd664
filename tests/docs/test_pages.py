"""What the documentation names exists: links, files, commands and options; and the README stays short."""

import ast
import re
import shlex
import textwrap
from pathlib import Path

import pytest
from docs._generate import command_line, python_api
from docs._generate.docstrings import readable
from docs._generate.results import ROOT
from docs._generate.self_contained import loaded_from_elsewhere

import pricdr

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
OPTIONS = {
    name: {
        option
        for parameter in command.params
        if not getattr(parameter, "hidden", False)
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for name, command, _ in command_line.commands()
}
GENERATED = {"reference/command-line.md", "reference/spec.md", *python_api.pages()}
each_page = pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
each_page_of_prose = pytest.mark.parametrize(  # what extending.md tells people to write is run by a test of its own
    "path", [path for path in PAGES if path.name != "extending.md"], ids=lambda p: p.name
)


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def code_blocks(text: str) -> list[str]:
    """Indented blocks, without their indent; lines that go on after a backslash are joined."""
    found = re.findall(r"(?:^ {4}.*\n(?:\n(?= {4}))*)+", text, re.MULTILINE)
    return [textwrap.dedent(block).replace("\\\n", " ") for block in found]


def unknown_words(line: str) -> list[str]:
    """Commands and options in a line of shell that the program does not have."""
    words = shlex.split(line, comments=True)[1:]
    name = "pricdr"
    while words and f"{name} {words[0]}" in OPTIONS:
        name += f" {words.pop(0)}"
    if name == "pricdr" and words and not words[0].startswith("-"):
        return [f"pricdr {words[0]}"]
    return [
        f"{name} {word}" for word in words if re.match(r"--?[a-z]", word) and word.split("=")[0] not in OPTIONS[name]
    ]


def test_the_readme_is_at_most_700_words():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700


@each_page
def test_every_link_leads_somewhere(path):
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        if name.startswith("http") or name in GENERATED:
            continue
        to = (path.parent / name) if name else path
        assert to.exists(), link
        assert not anchor or anchor in anchors(to), link


@each_page
def test_every_command_line_is_one_the_program_takes(path):
    for block in code_blocks(path.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("pricdr "):
                assert unknown_words(line) == [], line


def test_a_wrong_command_line_is_noticed():
    assert unknown_words("pricdr publish r.csv --epsilon 1 --nonsense 2") == ["pricdr publish --nonsense"]
    assert unknown_words("pricdr ledger show x --out y") == ["pricdr ledger show --out"]
    assert unknown_words("pricdr nonsense x") == ["pricdr nonsense"]
    assert unknown_words("pricdr recommend final -k 3 --out x.csv  # --not-an-option") == []


@each_page_of_prose
def test_every_block_of_python_is_python_and_names_what_there_is(path):
    for block in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pricdr":
                assert hasattr(pricdr, node.attr), f"pricdr.{node.attr}"


@each_page_of_prose
def test_every_module_that_is_named_exists(path):
    known = [
        found.relative_to(ROOT).as_posix()
        for folder in ("src", "tests", "benchmarks", "docs")
        for found in (ROOT / folder).rglob("*.py")
    ]
    for name in re.findall(r"`([\w/]+\.py)`", path.read_text(encoding="utf-8")):
        assert any(f"/{found}".endswith(f"/{name}") for found in known), name


def test_the_reference_has_every_command_and_option():
    page = command_line.reference()
    assert len(OPTIONS) > 15
    for name, options in OPTIONS.items():
        section = page.partition(f"# {name}\n")[2].partition("\n## ")[0]
        assert name == "pricdr" or section, name
        for option in (option for option in options if option.startswith("-") and name != "pricdr"):
            assert re.search(rf"^`(?:[^`]* )?{re.escape(option)}[ `,/]", section, re.MULTILINE), (name, option)


def test_the_python_pages_have_every_public_name():
    pages = python_api.pages()
    for name in pricdr.__all__:
        if callable(getattr(pricdr, name)):
            assert f"::: pricdr.{name}\n" in pages["reference/python.md"]
    assert "HeteroCDR\n" in pages["reference/models.md"]
    assert "Spectral\n" in pages["reference/strategies.md"]


def test_doctests_and_roles_of_docstrings_become_markdown():
    text = readable("Return :class:`Ratings`, see ``x``.\n\n>>> 1 + 1\n2\n\nThe end.")
    assert text == "Return `Ratings`, see `x`.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nThe end."


@pytest.mark.parametrize(
    ("markup", "found"),
    [
        ('<script src="https://example.org/x.js"></script>', 1),
        ('<link rel="stylesheet" href="//example.org/x.css">', 1),
        ('<img src="http://example.org/x.png">', 1),
        ("<style>@import 'https://example.org/x.css';</style>", 1),
        ('<p style="background: url(https://example.org/x.png)">', 2),
        ('<pre class="mermaid">', 1),
        ('<a href="https://example.org">a link</a><script src="x.js"></script>', 0),
    ],
)
def test_a_site_that_loads_from_elsewhere_is_noticed(tmp_path, markup, found):
    (tmp_path / "page.html").write_text(f"<html>{markup}</html>")
    assert len(loaded_from_elsewhere(tmp_path)) == found
