"""A signature can be checked without this software: the commands of docs/privacy-officer.md, run as they stand."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pricdr import Guarantee, Ratings, publish
from pricdr.release.revocation import revoke
from pricdr.signing import create_keys, fingerprint, read_public_key
from pricdr.strategies import JLT

PAGE = Path(__file__).parents[1] / "docs" / "privacy-officer.md"
SECTION = (
    PAGE.read_text(encoding="utf-8").partition("## Check a signature without this software\n")[2].partition("\n## ")[0]
)


def _openssl_3() -> bool:
    if shutil.which("openssl") is None or shutil.which("bash") is None:
        return False
    version = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=False).stdout
    return re.match(r"OpenSSL ([3-9]|\d\d)\.", version) is not None


pytestmark = pytest.mark.skipif(not _openssl_3(), reason="needs bash and OpenSSL 3 or newer: pkeyutl -rawin")


@pytest.fixture
def files(tmp_path):
    """What the page's commands name: a signed release, its public key, and a notice about it."""
    create_keys(tmp_path / "company.key")
    release = publish(
        Ratings.from_triples(["a", "b"], ["x", "y"]), Guarantee(epsilon=4, delta=1e-6), strategy=JLT(dim=2)
    )
    release.save(tmp_path / "movies.release", signing_key=tmp_path / "company.key")
    revoke(tmp_path / "movies.release", key=tmp_path / "company.key", reason="é", out=tmp_path / "notices")
    return tmp_path


def blocks():
    """The indented blocks of the section, in order: key, certificate, files, notice."""
    found = re.findall(r"(?:^ {4}.*\n)+", SECTION, re.MULTILINE)
    assert len(found) == 4
    return [re.sub(r"^ {4}", "", block, flags=re.MULTILINE) for block in found]


def run(script, folder):
    return subprocess.run(["bash", "-ec", script], cwd=folder, capture_output=True, text=True, check=False)


def test_every_command_says_what_pricdr_says_and_notices_a_change(files):
    key, certificate, hashes, notice = blocks()
    for script, says in (
        (key, fingerprint(read_public_key(files / "company.key.pub"))),
        (certificate, "Signature Verified Successfully"),
        (hashes, ""),
        (notice, "Signature Verified Successfully"),
    ):
        done = run(script, files)
        assert done.returncode == 0, done.stderr
        assert says in done.stdout
        if script is hashes:
            found = re.findall(r"\b[0-9a-f]{64}\b", done.stdout)
            assert len(found) == 3
            assert all(value in (files / "movies.release" / "certificate.json").read_text() for value in found)
    (notified,) = (files / "notices").iterdir()
    for file, old, new, script in (
        (files / "movies.release" / "certificate.json", b'"epsilon": 4.0', b'"epsilon": 1.0', certificate),
        (notified, "é".encode(), b"ee", notice),
    ):
        assert old in file.read_bytes()
        file.write_bytes(file.read_bytes().replace(old, new))
        assert run(script, files).returncode != 0
