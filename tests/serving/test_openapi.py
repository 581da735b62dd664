"""The OpenAPI document is complete: schemathesis finds no response that it does not describe."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, settings
from schemathesis import openapi

from pricdr.serving.keys import Scope, add_key
from pricdr.serving.snapshot import Snapshot, WatchedModel
from tests.serving.conftest import app_of, small_model

MODELS = [WatchedModel(Path("model"), load=lambda folder: Snapshot(small_model()))]
OPEN = app_of(MODELS, allowed_hosts=["testserver"])
SCHEMA = openapi.from_asgi("/openapi.json", OPEN)
BOUNDED = settings(max_examples=30, suppress_health_check=list(HealthCheck))


@SCHEMA.parametrize()
@BOUNDED
def test_the_server_does_what_its_document_says(case):
    case.call_and_validate()


with TemporaryDirectory() as folder:
    KEY = add_key(Path(folder, "keys.json"), "all", Scope)
    WITH_KEYS = app_of(MODELS, allowed_hosts=["testserver"], keys=Path(folder, "keys.json"))
SCHEMA_WITH_KEYS = openapi.from_asgi("/openapi.json", WITH_KEYS)


@SCHEMA_WITH_KEYS.parametrize()
@settings(parent=BOUNDED, max_examples=8)
def test_the_server_asks_for_keys_where_its_document_says(case):
    case.call_and_validate(headers={"Authorization": f"Bearer {KEY}"})


def test_the_document_names_every_status_that_a_request_may_meet():
    document = OPEN.openapi()
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
