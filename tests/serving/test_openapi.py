"""The OpenAPI document is complete: schemathesis finds no response that it does not describe."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import HealthCheck, settings
from schemathesis import openapi

from pricdr.serving.app import Settings, create_app
from pricdr.serving.keys import Key, Keys, Scope
from pricdr.serving.snapshot import Snapshot, WatchedModel
from tests.serving.conftest import small_model

MODELS = [WatchedModel(Path("model"), load=lambda folder: Snapshot(small_model()))]
OPEN = Settings(allowed_hosts=("testserver",))
SCHEMA = openapi.from_asgi("/openapi.json", create_app(MODELS, OPEN))
BOUNDED = settings(max_examples=30, suppress_health_check=list(HealthCheck))


@SCHEMA.parametrize()
@BOUNDED
def test_the_server_does_what_its_document_says(case):
    case.call_and_validate()


SECRET = "x" * 43
DIGEST = hashlib.sha256(SECRET.encode()).hexdigest()
KEYS = Keys(keys=(Key(name="all", sha256=DIGEST, scopes=tuple(Scope), created=datetime.now(UTC)),))
SCHEMA_WITH_KEYS = openapi.from_asgi("/openapi.json", create_app(MODELS, OPEN, keys=KEYS))


@SCHEMA_WITH_KEYS.parametrize()
@settings(parent=BOUNDED, max_examples=8)
def test_the_server_asks_for_keys_where_its_document_says(case):
    case.call_and_validate(headers={"Authorization": f"Bearer all.{SECRET}"})


def test_the_document_names_every_status_that_a_request_may_meet():
    document = create_app(MODELS, OPEN).openapi()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            expected = {"200", "400", "421", "500"}
            if path not in {"/health", "/ready"}:
                expected |= {"401", "403"}
            if "recommendations" in path or "similar" in path:
                expected |= {"422", "503"}
            assert expected <= set(operation["responses"]), path
    assert "413" in document["paths"]["/recommendations"]["post"]["responses"]
    assert "404" in document["paths"]["/items/{item}/similar"]["get"]["responses"]
