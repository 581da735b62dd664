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


def test_the_fingerprint_is_the_one_that_pricdr_shows(files):
    done = run(blocks()[0], files)
    assert done.returncode == 0, done.stderr
    assert fingerprint(read_public_key(files / "company.key.pub")) in done.stdout


def test_the_signature_of_a_certificate(files):
    done = run(blocks()[1], files)
    assert done.returncode == 0, done.stderr
    assert "Signature Verified Successfully" in done.stdout
    certificate = files / "movies.release" / "certificate.json"
    certificate.write_bytes(certificate.read_bytes().replace(b'"epsilon": 4.0', b'"epsilon": 1.0'))
    assert run(blocks()[1], files).returncode != 0


def test_the_hashes_of_the_files_are_in_the_certificate(files):
    done = run(blocks()[2], files)
    assert done.returncode == 0, done.stderr
    certificate = (files / "movies.release" / "certificate.json").read_text()
    hashes = re.findall(r"\b[0-9a-f]{64}\b", done.stdout)
    assert len(hashes) == 3
    assert all(value in certificate for value in hashes)


def test_the_signature_of_a_notice(files):
    done = run(blocks()[3], files)
    assert done.returncode == 0, done.stderr
    assert "Signature Verified Successfully" in done.stdout
    (notice,) = (files / "notices").iterdir()
    notice.write_bytes(notice.read_bytes().replace("é".encode(), b"ee"))
    assert run(blocks()[3], files).returncode != 0
