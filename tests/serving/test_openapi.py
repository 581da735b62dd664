"""The OpenAPI document is complete: schemathesis finds nothing that it does not say."""

from pathlib import Path

from hypothesis import HealthCheck, settings
from schemathesis import openapi
from tests.serving.conftest import small_model

from pricdr.serving.app import create_app
from pricdr.serving.models import Models
from pricdr.serving.settings import Settings
from pricdr.serving.snapshot import Snapshot

APP = create_app(Models(Path("model"), load=lambda folder: Snapshot.of(small_model())), Settings(allowed_hosts=("testserver",)))
SCHEMA = openapi.from_asgi("/openapi.json", APP)


@SCHEMA.parametrize()
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def test_the_server_does_what_its_document_says(case):
    case.call_and_validate()
