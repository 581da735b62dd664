"""Hooks of MkDocs: pages that are generated, and files of the repository that pages link to."""

import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs._generate import command_line, python_api, spec

ROOT: Final = Path(__file__).parents[2]
_LINK: Final = re.compile(r"\]\((?:\.\./)+([\w./-]+)(#[\w-]+)?\)")
_FIGURE: Final = re.compile(r"(\d) ± (\.?\d)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is generated, and what pages link to outside this folder."""
    reference = {"reference/command-line.md": command_line.reference(), "reference/spec.md": spec.reference()}
    for name, content in {**reference, **python_api.pages()}.items():
        files.append(File.generated(config, name, content=content))
    for path in _served():
        files.append(File.generated(config, _address(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links that work in the repository work on the site: ``../results/x.md`` is served as ``results/x.md``."""
    up = "../" * page.file.src_uri.count("/")
    linked = _LINK.sub(lambda link: f"]({up}{_address(link[1])}{link[2] or ''})", markdown)
    if markdown.startswith("## "):  # tables of results begin below the heading that a page needs
        linked = re.sub(r"^##", "#", linked, flags=re.MULTILINE)
    return _FIGURE.sub("\\1\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}\\2", linked)


def _served() -> list[str]:
    """Return the repository's files that the site holds beside its own, as paths from the root."""
    tables = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "results").glob("*.md"))
    specs = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "specs").glob("*.toml"))
    return ["CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "results/frontier.svg", *tables, *specs]


def _address(path: str) -> str:
    """Return where a file of the repository lies on the site."""
    return {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}.get(path, path)
