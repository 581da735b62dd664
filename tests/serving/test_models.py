"""A new folder takes over between two requests; one that cannot be loaded changes nothing."""

import shutil
import weakref

import pytest

from pricdr.serving.snapshot import Snapshot, WatchedModel
from tests.serving.conftest import answer_of


class Watched(WatchedModel):
    """A model whose events are recorded."""

    def __init__(self, *folders, **named):
        self.events = []
        super().__init__(*folders, report=lambda event, **facts: self.events.append((event, facts)), **named)

    def settle(self):
        """Check as often as it takes to load a folder that has changed, and once more."""
        for _ in range(3):
            self.reload_if_changed()

    @property
    def names(self):
        return [event for event, _ in self.events]


def replaced(folder, by):
    folder.unlink() if folder.is_symlink() else shutil.rmtree(folder)
    shutil.copytree(by, folder)


def test_a_replaced_folder_is_loaded_once_it_has_settled(saved, folder):
    model = Watched(folder)
    before = model.snapshot.fingerprint
    replaced(folder, saved / "two")
    model.reload_if_changed()  # it has changed, and may still be being written
    assert model.snapshot.fingerprint == before
    model.settle()
    assert model.snapshot.fingerprint == Snapshot.load(saved / "two").fingerprint != before
    assert model.names == ["model taken", "model freed"]
    assert model.problem is None


def test_a_moved_link_is_followed_and_requests_in_flight_keep_the_old_model_which_then_leaves_memory(saved, tmp_path):
    link, other = tmp_path / "current", tmp_path / "next"
    link.symlink_to(saved / "one")
    model = Watched(link)
    snapshot = model.snapshot
    old, expected = weakref.ref(snapshot), answer_of(snapshot, "u0", 3)
    other.symlink_to(saved / "two")
    other.rename(link)
    model.settle()
    assert model.names == ["model taken"]
    assert answer_of(snapshot, "u0", 3) == expected != answer_of(model.snapshot, "u0", 3)
    del snapshot
    assert model.names == ["model taken", "model freed"]
    assert old() is None


def broken(folder, monkeypatch):
    (folder / "model.safetensors").write_bytes(b"broken")


def of_another_certificate(folder, monkeypatch):
    (folder / "release.certificate.json").write_text("{}")


def with_an_id_that_is_none(folder, monkeypatch):
    (folder / "users.txt").write_text("alice\rsmith\n" + "".join(f"u{at}\n" for at in range(39)))


def a_bug(folder, monkeypatch):
    (folder / "model.json").touch()
    monkeypatch.setattr("pricdr.serving.snapshot._fingerprint", lambda folder: 1 / 0)


def too_large_for_memory(folder, monkeypatch):
    (folder / "model.json").touch()
    monkeypatch.setattr("pricdr.models.folder.memory_limit", lambda: 1000)


def beyond_reach(folder, monkeypatch):
    """As a folder of another user is: not even what is in it can be asked for."""
    folder.rename(folder.with_name("away"))
    folder.symlink_to("x" * 300)


REASONS = {
    beyond_reach: "File name too long",
    broken: "model.safetensors",
    of_another_certificate: "certificate",
    with_an_id_that_is_none: "users.txt must hold one user id per line",
    too_large_for_memory: "at most",
    a_bug: "model: ZeroDivisionError",
}


@pytest.mark.parametrize("spoil", REASONS, ids=lambda spoil: spoil.__name__)
def test_a_folder_that_cannot_be_used_is_refused_once_and_the_old_model_stays(saved, folder, monkeypatch, spoil):
    model = Watched(folder)
    before = model.snapshot
    with monkeypatch.context() as patch:
        spoil(folder, patch)
        model.settle()
    assert model.snapshot is before
    assert model.names == ["model refused"]
    assert REASONS[spoil] in model.problem
    assert model.events[0][1]["reason"] == model.problem
    assert "alice" not in model.problem
    replaced(folder, saved / "two")
    model.settle()
    assert model.problem is None
    assert model.snapshot is not before


def test_a_folder_that_vanishes_and_comes_back_is_no_problem(saved, folder):
    model = Watched(folder)
    before = model.snapshot
    shutil.rmtree(folder)
    model.reload_if_changed()
    assert model.problem is None
    model.reload_if_changed()
    assert "no such folder" in model.problem
    shutil.copytree(saved / "one", folder)
    model.settle()
    assert model.problem is None
    assert model.snapshot is before
    assert model.names == ["model refused"]
