"""The JSON Schema of specs, as committed under ``docs/``: for editors, and for programs that write specs."""

import json
from typing import Any

from pydantic import TypeAdapter

from pricdr.experiments.spec import SpecFile
from pricdr.models.catalogue import METHODS
from pricdr.privacy.strategies import BY_NAME


def schema_text() -> str:
    """Return the JSON Schema of a spec, once its TOML is read.

    It states types, limits and meanings. What takes more than a schema (which settings a method has, which arms exist)
    ``read_spec`` alone can check.
    """
    schema = _as_toml(TypeAdapter(SpecFile).json_schema())
    schema["title"] = "pricdr spec"
    schema["required"].remove("name")  # the file has one
    several = schema["properties"]["data"]
    schema["properties"]["data"] = {"description": several.pop("description"), "anyOf": [several["items"], several]}
    arm, release = (schema["$defs"][name]["properties"] for name in ("Arm", "ReleaseSpec"))
    arm["method"]["examples"] = list(METHODS.own)  # no enumeration: packages of others bring their own
    release["strategy"]["examples"] = [name for name in BY_NAME.own if name != "features"]
    content = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _as_toml(part: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """Return a schema without what TOML lacks or readers skip: null, and titles that repeat the key."""
    if isinstance(part, list):
        return [_as_toml(one) for one in part]
    if not isinstance(part, dict):
        return " ".join(part.replace("``", "").split()) if isinstance(part, str) else part
    kept = {
        key: _as_toml(value)
        for key, value in part.items()
        if not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None)
    }
    given = [one for one in kept.pop("anyOf", []) if one != {"type": "null"}]
    assert len(given) <= 1, "no field of a spec takes two types"
    return {**(given[0] if given else {}), **kept}
