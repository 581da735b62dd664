"""Hostile release folders and ledgers: verified, or refused in one line; nothing else."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricdr import Guarantee, Ledger, Ratings, publish, verify
from pricdr.errors import PriCDRError, VerificationError
from pricdr.release.certificate import Certificate, content_digest
from pricdr.release.certify import check
from pricdr.strategies import JLT

quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(scope="module")
def certificate():
    ratings = Ratings.from_triples(["a", "b"], ["x", "y"])
    return publish(ratings, Guarantee(epsilon=4, delta=1e-6), strategy=JLT(dim=4), users=["a", "b"]).certificate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    ratings = Ratings.from_triples(["a", "b"], ["x", "y"])
    release = publish(ratings, Guarantee(epsilon=4, delta=1e-6), strategy=JLT(dim=4), users=["a", "b"])
    return release.save(tmp_path_factory.mktemp("fuzz") / "a.release")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
    | st.sampled_from([0.0, -1.0, 1e308, 5e-324, 10**400, "1", "../../etc/passwd", "\x00", "💥"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


def _paths(content, prefix=()):
    """Every place in a JSON object."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield (*prefix, key)
            yield from _paths(value, (*prefix, key))
    elif isinstance(content, list):
        for at, value in enumerate(content):
            yield (*prefix, at)
            yield from _paths(value, (*prefix, at))


@quick
@given(data=st.data())
def test_any_change_to_any_field_of_a_certificate(certificate, data):
    """The forger recomputes digest and bytes; what remains is whether the content holds together."""
    content = json.loads(certificate.to_bytes())
    del content["digest"]
    path = data.draw(st.sampled_from(sorted(_paths(content), key=str)))
    inner = content
    for step in path[:-1]:
        inner = inner[step]
    before = inner[path[-1]]
    inner[path[-1]] = data.draw(values)
    raw = (json.dumps({**content, "digest": content_digest(content)}, indent=2, ensure_ascii=False) + "\n").encode(
        "utf-8", "surrogatepass"
    )
    try:
        forged = Certificate.from_bytes(raw)
        check(forged)
    except VerificationError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 600
        return
    # what may pass: the same value again, another honest sentence, or a promise that is weaker than what σ gives
    assert inner[path[-1]] == before or path[0] in {
        "software",
        "issuer",
        "issued",
        "files",
        "signed_by",
        "input",
        "users",
        "delta",
        "epsilon",
        "strategy",
        "dim",
    }, path
    assert forged.epsilon is None or forged.epsilon >= 4 * (1 - 1e-9) or forged.delta > 1e-6


@quick
@given(st.binary(max_size=600))
def test_any_bytes_as_a_certificate(content):
    with pytest.raises(VerificationError) as caught:
        Certificate.from_bytes(content)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"a":' * 50_000, b'{"schema_version": 1, "x": "' + b"y" * 2_000_000]
)
def test_huge_and_deeply_nested_certificates(content):
    with pytest.raises(VerificationError):
        Certificate.from_bytes(content)


@quick
@given(
    st.sampled_from(["release.safetensors", "users.txt", "certificate.json", "README.md"]),
    st.integers(0, 1 << 30),
    st.binary(min_size=1, max_size=20),
)
def test_any_overwritten_stretch_of_any_file(folder, name, at, junk):
    path: Path = folder / name
    content = path.read_bytes()
    at %= len(content)
    changed = content[:at] + junk + content[at + len(junk) :]
    path.write_bytes(changed)
    try:
        if changed == content:
            verify(folder)
        else:
            with pytest.raises(VerificationError) as caught:
                verify(folder)
            assert "\n" not in str(caught.value)
    finally:
        path.write_bytes(content)


@quick
@given(
    st.binary(max_size=300) | st.lists(values, max_size=4).map(lambda rows: "\n".join(map(json.dumps, rows)).encode())
)
def test_any_bytes_as_a_ledger(tmp_path, content):
    path = tmp_path / "ledger"
    path.write_bytes(content)
    with pytest.raises(PriCDRError) as caught:
        Ledger(path).read()
    assert "\n" not in str(caught.value)


@quick
@given(data=st.data())
def test_any_change_to_a_ledger_line(tmp_path, data):
    path = tmp_path / "ledger"
    path.unlink(missing_ok=True)
    Ledger.create(path, Guarantee(epsilon=4, delta=1e-6))
    Ledger(path).spend(mu=0.1, dim=5, unit=Guarantee(epsilon=4, delta=1e-6).unit, strategy="jlt")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    line = data.draw(st.sampled_from(lines))
    key = data.draw(st.sampled_from(sorted(line)))
    line[key] = data.draw(values)
    path.write_bytes("\n".join(json.dumps(row) for row in lines).encode("utf-8", "surrogatepass") + b"\n")
    try:
        balance = Ledger(path).read()
        assert balance.epsilon >= 0
    except PriCDRError as error:
        assert "\n" not in str(error)
