"""The same common users as another implementation finds: OpenMined's, in an environment of its own."""

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from pricdr.alignment.normalisation import Normalisation, NormalisedIds
from pricdr.alignment.protocol import finish
from tests.alignment.conftest import answer, start

PINNED = "openmined-psi==2.0.6"
THEIRS = """
import json, sys
import private_set_intersection.python as psi
cases = []
for case in json.load(sys.stdin):
    client, server = psi.client.CreateWithNewKey(True), psi.server.CreateWithNewKey(True)
    # Raw points: its other structures find users by chance who are not there.
    setup = server.CreateSetupMessage(1e-9, len(case["ours"]), case["theirs"], psi.DataStructure.RAW)
    response = server.ProcessRequest(client.CreateRequest(case["ours"]))
    cases.append([case["ours"][at] for at in client.GetIntersection(setup, response)])
json.dump(cases, sys.stdout)
"""


@pytest.fixture(scope="module")
def their_python(tmp_path_factory) -> Path:
    """A Python that has OpenMined's package, and nothing of ours."""
    folder = tmp_path_factory.mktemp("openmined") / "venv"
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    try:
        subprocess.run(
            [*pip, "install", "--quiet", "--only-binary=:all:", "--retries=0", "--timeout=10", PINNED],
            capture_output=True,
            text=True,
            timeout=180,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        pytest.skip(f"{PINNED} cannot be installed: {(error.stderr.strip() or 'pip failed').splitlines()[-1]}")
    except subprocess.TimeoutExpired:
        pytest.skip(f"{PINNED} cannot be installed: it took over 180 s")
    return python


def common(ours: list[str], theirs: list[str]) -> tuple[str, ...]:
    state, first = start(NormalisedIds.of(ours, Normalisation.EXACT), pad_to=len(ours) + 3)
    _, second = answer(first, NormalisedIds.of(theirs, Normalisation.EXACT), pad_to=len(theirs) + 2)
    return finish(state, second).users


@pytest.mark.slow
def test_random_sets_have_the_same_intersection(their_python, rng):
    everybody = [f"{prefix}{at}" for at in range(400) for prefix in ("user-", "Ä ", "用户")]
    cases = [{"ours": everybody[:5], "theirs": everybody[5:9]}, {"ours": everybody[:5], "theirs": everybody[:9]}]
    for sizes in ((1, 1), (1, 300), (300, 1), (400, 500), (700, 900)):
        ours, theirs = (rng.permutation(everybody)[:size].tolist() for size in sizes)
        cases.append({"ours": ours, "theirs": theirs})
    done = subprocess.run(
        [their_python, "-I", "-c", THEIRS], input=json.dumps(cases), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = [tuple(sorted(case)) for case in json.loads(done.stdout)]
    assert found == [common(**case) for case in cases]
    assert found == [tuple(sorted(set(case["ours"]) & set(case["theirs"]))) for case in cases]
    assert len(found[-1]) > 100
