"""Answers and refusals of the application: the right status, one line, one shape, nothing leaked."""

import json
from dataclasses import asdict
from urllib.parse import quote

import pytest
from pydantic import ValidationError

from pricdr.serving.app import BatchRequest
from pricdr.serving.keys import Scope, add_key
from pricdr.serving.log import ServerLog
from pricdr.serving.snapshot import Snapshot
from tests.serving.conftest import STRANGE, small_model

ONE = "/users/u0/recommendations"


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


def test_a_user_is_answered(client):
    body = client.get(ONE, params={"k": 3}).json()
    expected = Snapshot(small_model()).recommend("u0", 3)
    assert (body["user"], body["basis"], body["model"]) == ("u0", "release", "0123456789ab")
    assert body["items"] == [asdict(item) for item in expected.items]


def test_ten_items_unless_asked_otherwise(client):
    assert len(client.get(ONE).json()["items"]) == 10
    assert len(client.get(ONE, params={"k": 1000}).json()["items"]) == 60


def test_an_unknown_user_gets_popular_items(client):
    body = client.get("/users/nobody/recommendations").json()
    assert body["basis"] == "popularity"
    assert [item["rank"] for item in body["items"]] == list(range(1, 11))


@pytest.mark.parametrize("name", STRANGE)
def test_ids_that_look_like_something_else_are_ids(client, name):
    encoded = quote(name, safe="").replace(".", "%2E")  # or the client would take ".." for the folder above
    body = client.get(f"/users/{encoded}/recommendations").json()
    assert body["user"] == name
    assert body["basis"] != "popularity"
    assert client.get(f"/items/{encoded}/similar").json()["item"] == name
    many = client.post("/recommendations", json={"users": [name]}).json()
    assert many["recommendations"][0]["items"] == body["items"]


def test_a_slash_in_an_id_needs_no_encoding(client):
    assert client.get("/users/a/b/recommendations").json()["user"] == "a/b"
    assert client.get("/users/x/recommendations/recommendations").json()["user"] == "x/recommendations"
    assert client.get("/items/a/b/similar").json()["item"] == "a/b"


def test_encodings_are_undone_once(client):
    assert client.get("/users/a%252Fb/recommendations").json()["user"] == "a%2Fb"
    assert client.get("/users/%2e%2e/recommendations").json()["user"] == ".."
    assert client.get("/users/..%2f..%2fetc%2fpasswd/recommendations").json()["basis"] == "popularity"


@pytest.mark.parametrize("kind", ["users/{}/recommendations", "items/{}/similar"])
@pytest.mark.parametrize(
    ("name", "status", "word"),
    [
        ("%00", 400, "control character"),
        ("a%0Ab", 400, "control character"),
        ("a%C2%85b", 400, "control character"),
        ("x" * 1001, 422, "at most 1000 characters"),
        ("", 422, "at least 1 character"),
        ("%FF", 400, "UTF-8"),
        ("%ED%A0%80", 400, "UTF-8"),
    ],
)
def test_an_invalid_id_is_refused(client, kind, name, status, word):
    refused(client.get("/" + kind.format(name)), status, word)


def test_a_thousand_characters_are_an_id(client):
    assert client.get(f"/users/{'💜' * 1000}/recommendations").json()["basis"] == "popularity"


@pytest.mark.parametrize(
    "k", ["0", "-1", "1001", "ten", "1.5", "", "1e3", "99999999999999999999", "٣", "+5", " 5", "5&k=6"]
)
def test_k_outside_its_range_is_refused(client, k):
    for path in (ONE, "/items/i3/similar"):
        response = client.get(f"{path}?k={k}")
        if k == "5&k=6":  # the last one counts, as in most frameworks
            assert response.status_code == 200
        else:
            refused(response, 422, "k: ")


def test_unknown_items_are_not_found(client):
    refused(client.get("/items/nowhere/similar"), 404, "does not know this item")


def test_a_batch_is_answered_in_its_order(client):
    users = ["u3", "stranger", "u30", "u3", *[f"u{at}" for at in range(10)] * 5]
    body = client.post("/recommendations", json={"users": users, "k": 4}).json()
    assert [answer["user"] for answer in body["recommendations"]] == users
    snapshot = Snapshot(small_model())
    for answer in body["recommendations"]:
        assert [item["item"] for item in answer["items"]] == [
            item.item for item in snapshot.recommend(answer["user"], 4).items
        ]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "body"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "body"),
        (b"[]", "body"),
        (b"null", "body"),
        (b'{"users": []}', "users"),
        (b'{"users": "u0"}', "users"),
        (b'{"users": [1]}', "users"),
        (b'{"users": ["\\u0000"]}', "control character"),
        (b'{"users": ["\\ud800"]}', "users"),
        (b'{"users": [""]}', "at least 1 character"),
        (b'{"users": ["a"], "k": 0}', "k"),
        (b'{"users": ["a"], "k": 101}', "k"),
        (b'{"users": ["a"], "k": "5"}', "k"),
        (b'{"users": ["a"], "k": true}', "k"),
        (b'{"users": ["a"], "k": NaN}', "k"),
        (b'{"users": ["a"], "secret-word": 1}', "unknown field"),
        (json.dumps({"users": ["a"] * 1001}).encode(), "users"),
        (b"[" * 100_000, ""),
        (b'{"users": ["a"], "k": ' + b"9" * 5000 + b"}", ""),
    ],
)
def test_a_body_that_is_no_batch_is_refused(client, body, word):
    response = client.post("/recommendations", content=body, headers={"content-type": "application/json"})
    message = refused(response, response.status_code, word)
    assert response.status_code in {400, 422}
    assert "secret-word" not in message
    assert len(message) < 200


def test_a_body_of_another_kind_is_refused(client):
    refused(client.post("/recommendations", content=b"users=a", headers={"content-type": "text/plain"}), 422, "body")
    refused(client.post("/recommendations"), 422, "body")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/users/u0/recommendations/", 404),
        ("GET", "/users", 404),
        ("GET", "/docs", 404),
        ("POST", ONE, 405),
        ("GET", "/recommendations", 405),
        ("DELETE", "/health", 405),
        ("BREW", ONE, 405),
    ],
)
def test_other_addresses_and_methods_are_refused(client, method, path, status):
    response = client.request(method, path)
    refused(response, status)
    if status == 405:
        assert response.headers["allow"]


def test_ten_megabytes_are_too_much(client):
    refused(client.post("/recommendations", content=b"x" * 10_000_000), 413, "1,048,576 bytes")

    async def pieces():
        for _ in range(40):
            yield b"x" * 500_000

    refused(client.post("/recommendations", content=pieces()), 413)  # no declared length


def test_every_response_has_the_security_headers(client):
    for response in (client.get(ONE), client.get("/nowhere"), client.get("/health"), client.get(f"{ONE}?k=0")):
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script" not in policy  # there is none
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"] == "no-store"
        assert "strict-transport-security" not in response.headers
        assert "server" not in response.headers


def test_a_body_with_many_unknown_fields_has_one_error():
    with pytest.raises(ValidationError) as refusal:
        BatchRequest.model_validate({"users": ["u1"], **{f"field{at}": 0 for at in range(1000)}})
    assert refusal.value.error_count() == 1


def test_two_hosts_are_refused(client):
    refused(client.get(ONE, headers=[("host", "localhost"), ("host", "evil.example")]), 400, "more than one Host")


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"users": ["u1"], "k": ' + b"9" * 9_000 + b"}"])
def test_json_that_cannot_be_parsed_is_refused_with_our_message(client, body):
    headers = {"content-type": "application/json"}
    refused(client.post("/recommendations", content=body, headers=headers), 400, "the body is not JSON")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST:1"])
def test_names_of_this_machine_are_answered(client, host):
    assert client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", "", "[::1"])
def test_other_names_are_refused_on_this_machine(client_of, host):
    """Otherwise evil.example could point its name at 127.0.0.1 and read answers through its visitors' browsers."""
    response = client_of().get(ONE, headers={"host": host})
    if host == "[::1":
        assert response.status_code == 200  # no name at all: no browser sends it
    else:
        refused(response, 421, "--allowed-host")
    assert client_of(allowed_hosts=("Evil.example",)).get(ONE, headers={"host": "evil.example:443"}).status_code == 200


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
    assert client.get("/page/anything").status_code == 401  # a page, see test_page_routes
    refused(client.get("/nowhere"), 401)


def test_a_key_that_is_wrong_is_not_repeated(client_of, tmp_path):
    key = add_key(tmp_path / "keys.json", "shop", [Scope.RECOMMEND])
    response = client_of(keys=tmp_path / "keys.json").get(ONE, headers={"authorization": f"Bearer {key}x"})
    assert key not in refused(response, 401)


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
    assert 'pricdr_answers_total{basis="release"} 2.0' in text
    assert 'pricdr_answers_total{basis="popularity"} 1.0' in text
    assert 'pricdr_answers_total{basis="both"} 1.0' in text
    assert 'pricdr_requests_total{route="/users/{user}/recommendations",status="200"} 2.0' in text
    assert 'pricdr_requests_total{route="none",status="404"} 1.0' in text
    assert 'pricdr_requests_total{route="/users/{user}/recommendations",status="422"} 1.0' in text
    assert not {"stranger", "u38", "secret"} & set(text.replace('"', " ").replace("/", " ").split())


def test_an_internal_error_reveals_nothing(client, client_of, monkeypatch):
    class Stream:
        def __init__(self):
            self.text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

    stream = Stream()
    log = ServerLog(stream, lambda event, **facts: json.dumps({"event": event, **facts}))
    client = client_of(log=log)

    def fail(self, *arguments):
        raise RuntimeError("secret-detail")

    monkeypatch.setattr(Snapshot, "answers", fail)
    monkeypatch.setattr(Snapshot, "similar_to", fail)
    for response in (
        client.get(ONE),
        client.get(f"{ONE}?k=1&x"),
        client.post("/recommendations", json={"users": ["a"]}),
    ):
        refused(response, 500, "server's log")
    refused(client.get("/items/i1/similar"), 500)
    log.close()
    events = [json.loads(line) for line in stream.text.splitlines()]
    assert {"event": "fault", "error": "RuntimeError", "place": events[0]["place"]} == events[0]
    assert events[0]["place"].startswith("test_app.py:")
    assert "secret" not in stream.text
