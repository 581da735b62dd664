"""The reference of specs: every key of every table, from the schema."""

import json
from pathlib import Path
from typing import Any, Final

SCHEMA: Final = Path(__file__).parents[1] / "spec.schema.json"
TABLES: Final = {
    "The table itself": None,
    "`[data]`, or several `[[data]]`": "DataSpec",
    "`[[arm]]`": "Arm",
    "`release = { … }` of an arm": "ReleaseSpec",
}


def reference() -> str:
    """Return the page as Markdown."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    parts = [
        "# Specs",
        "What a TOML file for `pricdr reproduce` may say. [For researchers](../researchers.md#specs) has an example.",
    ]
    for title, name in TABLES.items():
        table = schema if name is None else schema["$defs"][name]
        rows = [
            f"| `{key}` | {_default(table, key)} | {about['description']} |"
            for key, about in table["properties"].items()
        ]
        parts += [f"## {title}", "\n".join(["| key | default | meaning |", "| --- | --- | --- |", *rows])]
    return "\n\n".join(parts) + "\n"


def _default(table: dict[str, Any], key: str) -> str:
    if key in table.get("required", ()):
        return "needed"
    default = table["properties"][key].get("default")
    return "" if default in (None, "") else f"`{json.dumps(default)}`"
