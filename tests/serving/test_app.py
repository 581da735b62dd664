"""Answers and refusals of the application: the right status, one line, one shape, nothing leaked."""

import json
from dataclasses import asdict
from io import StringIO
from urllib.parse import quote

import pytest
from pydantic import ValidationError

from pricdr.serving.app import BatchRequest
from pricdr.serving.keys import Scope, add_key
from pricdr.serving.log import ServerLog
from pricdr.serving.snapshot import Snapshot
from tests.serving.conftest import STRANGE, answer_of, small_model

ONE, RECOMMEND = "/users/u0/recommendations", "/users/{user}/recommendations"


def refused(response, status, *words):
    """Check that a response is an error of the usual shape, and return its message."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert list(body) == ["error"]
    assert "\n" not in body["error"]
    for word in words:
        assert word in body["error"]
    return body["error"]


def test_a_user_is_answered_with_ten_items_unless_asked_otherwise(client):
    body = client.get(ONE).json()
    expected = answer_of(Snapshot(small_model()), "u0", 10)
    assert (body["user"], body["basis"], body["model"]) == ("u0", "release", "0123456789ab")
    assert body["items"] == [asdict(item) for item in expected.items]
    assert client.get(ONE, params={"k": 3}).json()["items"] == body["items"][:3]
    assert len(client.get(ONE, params={"k": 1000}).json()["items"]) == 60
    stranger = client.get("/users/nobody/recommendations").json()
    assert stranger["basis"] == "popularity"
    assert [item["rank"] for item in stranger["items"]] == list(range(1, 11))


@pytest.mark.parametrize("name", STRANGE)
def test_ids_that_look_like_something_else_are_ids(client, name):
    encoded = quote(name, safe="").replace(".", "%2E")  # or the client would take ".." for the folder above
    body = client.get(f"/users/{encoded}/recommendations").json()
    assert body["user"] == name
    assert body["basis"] != "popularity"
    assert client.get(f"/items/{encoded}/similar").json()["item"] == name
    many = client.post("/recommendations", json={"users": [name]}).json()
    assert many["recommendations"][0]["items"] == body["items"]


def test_slashes_need_no_encoding_and_encodings_are_undone_once(client):
    encoded = {"a%252Fb": "a%2Fb", "%2e%2e": "..", "..%2f..%2fetc%2fpasswd": "../../etc/passwd"}
    for path, user in {**{name: name for name in ("a/b", "x/recommendations", "💜" * 1000)}, **encoded}.items():
        assert client.get(f"/users/{path}/recommendations").json()["user"] == user


@pytest.mark.parametrize("kind", ["users/{}/recommendations", "items/{}/similar"])
def test_an_invalid_id_is_refused(client, kind):
    for name in ("%00", "a%0Ab", "a%C2%85b"):
        refused(client.get("/" + kind.format(name)), 400, "control character")
    for name in ("%FF", "%ED%A0%80"):
        refused(client.get("/" + kind.format(name)), 400, "UTF-8")
    for name, says in (("x" * 1001, "at most 1000 characters"), ("", "at least 1 character")):
        refused(client.get("/" + kind.format(name)), 422, says)


def test_k_outside_its_range_is_refused(client):
    for k in ("0", "-1", "1001", "ten", "1.5", "", "1e3", "99999999999999999999", "٣", "+5", " 5", "6&k=0"):
        for path in (ONE, "/items/i3/similar"):
            refused(client.get(f"{path}?k={k}"), 422, "k: ")


def test_a_batch_is_answered_in_its_order(client):
    users = ["u3", "stranger", "u30", "u3", *[f"u{at}" for at in range(10)] * 5]
    body = client.post("/recommendations", json={"users": users, "k": 4}).json()
    assert [answer["user"] for answer in body["recommendations"]] == users
    snapshot = Snapshot(small_model())
    for answer in body["recommendations"]:
        assert [item["item"] for item in answer["items"]] == [
            item.item for item in answer_of(snapshot, answer["user"], 4).items
        ]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "body"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "body"),
        (b"[]", "body"),
        (b'{"users": []}', "users"),
        (b'{"users": "u0"}', "users"),
        (b'{"users": [1]}', "users"),
        (b'{"users": ["\\u0000"]}', "control character"),
        (b'{"users": ["\\ud800"]}', "users"),
        (b'{"users": [""]}', "at least 1 character"),
        *((b'{"users": ["a"], "k": %s}' % k, "k") for k in (b"0", b"101", b'"5"', b"true", b"NaN")),
        (b'{"users": ["a"], "secret-word": 1}', "unknown field"),
        (json.dumps({"users": ["a"] * 1001}).encode(), "users"),
        (b"[" * 100_000, "the body is not JSON"),
        (b'{"users": ["a"], "k": ' + b"9" * 9000 + b"}", "the body is not JSON"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_body_that_is_no_batch_is_refused(client, body, word):
    response = client.post("/recommendations", content=body, headers={"content-type": "application/json"})
    message = refused(response, response.status_code, word)
    assert response.status_code in {400, 422}
    assert "secret-word" not in message
    assert len(message) < 200


def test_a_body_of_another_kind_or_size_is_refused(client):
    refused(client.post("/recommendations", content=b"users=a", headers={"content-type": "text/plain"}), 422, "body")
    refused(client.post("/recommendations"), 422, "body")
    refused(client.post("/recommendations", content=b"x" * 10_000_000), 413, "1,048,576 bytes")

    async def pieces():
        for _ in range(40):
            yield b"x" * 500_000

    refused(client.post("/recommendations", content=pieces()), 413)  # no declared length
    with pytest.raises(ValidationError) as refusal:
        BatchRequest.model_validate({"users": ["u1"], **{f"field{at}": 0 for at in range(1000)}})
    assert refusal.value.error_count() == 1


def test_other_addresses_and_methods_are_refused(client):
    nowhere = ("/nowhere", "/items/nowhere/similar", f"{ONE}/", "/users", "/docs")
    wrong = (("POST", ONE), ("GET", "/recommendations"), ("DELETE", "/health"), ("BREW", ONE))
    for method, path, status in (*(("GET", path, 404) for path in nowhere), *((*one, 405) for one in wrong)):
        response = client.request(method, path)
        refused(response, status)
        assert status == 404 or response.headers["allow"]


def test_every_response_has_the_security_headers(client):
    for response in (client.get(ONE), client.get("/nowhere"), client.get("/health"), client.get(f"{ONE}?k=0")):
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script" not in policy  # there is none
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"] == "no-store"
        assert "strict-transport-security" not in response.headers
        assert "server" not in response.headers


def test_only_names_of_this_machine_are_answered(client, client_of):
    """Otherwise evil.example could point its name at 127.0.0.1 and read answers through its visitors' browsers."""
    for host in ("localhost", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST:1"):
        assert client.get("/health", headers={"host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", ""):
        refused(client.get(ONE, headers={"host": host}), 421, "--allowed-host")
        refused(client.get(ONE, headers=[("host", "localhost"), ("host", host)]), 400, "more than one Host")
    allowing = client_of(allowed_hosts=("Evil.example",))
    assert allowing.get(ONE, headers={"host": "evil.example:443"}).status_code == 200


def test_keys_open_what_their_scope_says(client_of, tmp_path):
    file = tmp_path / "keys.json"
    keys = {scope: add_key(file, scope.value, [scope]) for scope in Scope}
    client = client_of(keys=file)
    routes = {ONE: Scope.RECOMMEND, "/items/i1/similar": Scope.RECOMMEND, "/metrics": Scope.METRICS}
    for path, needed in routes.items():
        response = client.get(path)
        refused(response, 401, "API key")
        assert "Basic" in response.headers["www-authenticate"]
        for scope, key in keys.items():
            answered = client.get(path, headers={"authorization": f"Bearer {key}"})
            if scope is needed:
                assert answered.status_code == 200
                assert client.get(path, auth=("anybody", key)).status_code == 200
            else:
                refused(answered, 403, needed.value)
    for path in ("/health", "/ready", "/openapi.json"):
        assert client.get(path).status_code == 200
    assert client.get("/page/anything").status_code == 401
    refused(client.get("/nowhere"), 401)
    key = keys[Scope.RECOMMEND]
    assert key not in refused(client.get(ONE, headers={"authorization": f"Bearer {key}x"}), 401)


def test_health_and_readiness(client):
    assert client.get("/health").json() == {"status": "alive"}
    assert client.get("/ready").json() == {"ready": True, "model": "0123456789ab", "users": 40, "items": 60}
    client.model.problem = "a path that nobody needs to know"
    body = client.get("/ready").json()
    assert body["ready"]
    assert "older model" in body["refused"]
    assert "path" not in body["refused"]
    assert "pricdr_model_refused 1.0" in client.get("/metrics").text


def test_metrics_count_what_was_answered_without_ids(client):
    client.get(ONE)
    client.get("/users/stranger/recommendations")
    client.post("/recommendations", json={"users": ["u0", "u38"]})
    client.get("/users/x/recommendations?k=0")
    client.get("/secret-address")
    text = client.get("/metrics").text
    for basis, count in (("release", 2), ("popularity", 1), ("both", 1)):
        assert f'pricdr_answers_total{{basis="{basis}"}} {count}.0' in text
    for route, status, count in ((RECOMMEND, 200, 2), ("none", 404, 1), (RECOMMEND, 422, 1)):
        assert f'pricdr_requests_total{{route="{route}",status="{status}"}} {count}.0' in text
    assert not {"stranger", "u38", "secret"} & set(text.replace('"', " ").replace("/", " ").split())


def test_an_internal_error_reveals_nothing(client_of, monkeypatch):
    stream = StringIO()
    log = ServerLog(stream, lambda event, **facts: json.dumps({"event": event, **facts}))
    client = client_of(log=log)

    def fail(self, *arguments):
        raise RuntimeError("secret-detail")

    monkeypatch.setattr(Snapshot, "answers", fail)
    monkeypatch.setattr(Snapshot, "similar_to", fail)
    for path in (ONE, "/items/i1/similar"):
        refused(client.get(path), 500, "server's log")
    refused(client.post("/recommendations", json={"users": ["a"]}), 500, "server's log")
    log.close()
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert {"event": "fault", "error": "RuntimeError", "place": events[0]["place"]} == events[0]
    assert events[0]["place"].startswith("test_app.py:")
    assert "secret" not in stream.getvalue()
