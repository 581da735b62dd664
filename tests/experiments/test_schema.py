"""docs/spec.schema.json and docs/researchers.md: current, complete, and true of every spec that we ship."""

import json
import re
import tomllib
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from docs._generate.spec import reference as spec_reference

from pricdr.cli import run
from pricdr.experiments.spec import read_specs, schema_text

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "specs").glob("*.toml"))
SCHEMA = json.loads((ROOT / "docs" / "spec.schema.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "researchers.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
TABLES = [SCHEMA, *(SCHEMA["$defs"][name] for name in ("DataSpec", "Arm", "ReleaseSpec"))]
FIELDS = [(table, key) for table in TABLES for key in table["properties"]]
CHECK = jsonschema.Draft202012Validator(SCHEMA)


def test_the_committed_schema_is_current():
    assert (ROOT / "docs" / "spec.schema.json").read_text(encoding="utf-8") == schema_text(), "run make schema"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_field_is_described_in_the_reference():
    page = spec_reference()
    for table, key in FIELDS:
        description = table["properties"][key]["description"]
        assert re.search(rf"^\| `{key}` \| [^|]* \| {re.escape(description)} \|$", page, re.MULTILINE), key


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_shipped_spec_obeys_the_schema(path):
    CHECK.validate(tomllib.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seeds = [1, 2]", "seeds = [1, 1]"),
        ("seeds = [1, 2]", "seeds = []"),
        ("seeds = [1, 2]", "seed = 1"),
        ("epsilon = 4", "epsilon = 0"),
        ("epsilon = 4", 'epsilon = "4"'),
        ("epsilon = 4", "epsilon = 4, dim = 5000"),
        ('rows = "shuffled"', 'rows = "loud"'),
        ('"films_books"', '"../films_books"'),
        ("cold = 0.2", "cold = 1.0"),
        ("core = 5", "core = 0"),
        ('method = "popularity"\n', ""),
        ("title = ", "titel = "),
    ],
)
def test_what_the_schema_refuses_is_refused_when_it_is_read(tmp_path, old, new):
    assert old in EXAMPLE
    wrong = EXAMPLE.replace(old, new)
    assert not CHECK.is_valid(tomllib.loads(wrong))
    (tmp_path / "table.toml").write_text(wrong, encoding="utf-8")
    with pytest.raises(ValueError, match=r"table\.toml"):
        read_specs(tmp_path / "table.toml")


def test_the_example_of_the_page_runs(tmp_path, monkeypatch, capsys):
    CHECK.validate(tomllib.loads(EXAMPLE))
    monkeypatch.chdir(tmp_path)
    data = tomllib.loads(EXAMPLE)["data"]
    folder = tmp_path / "data" / data["folder"]
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for side, items in (("source", 150), ("target", 400)):
        rated = [(u, i, rng.integers(2, 6)) for u in range(100) for i in rng.choice(items, 30, replace=False)]
        rows = "\n".join(f"u{user},i{item},{rating}" for user, item, rating in rated)
        (folder / data[side]).write_text(f"user,item,rating\n{rows}\n")
    (command,) = re.findall(r"^    pricdr (reproduce films_books.*)$", PAGE, re.MULTILINE)
    (tmp_path / "films_books.toml").write_text(EXAMPLE, encoding="utf-8")
    assert run(command.split()) == 0
    lines = (tmp_path / "results" / "films_books.jsonl").read_text().splitlines()
    assert len(lines) == 5 * 2
    table = (tmp_path / "results" / "films_books.md").read_text()
    assert "spectral, ε = 4, decoded by ridge" in table
    assert table in capsys.readouterr().out
