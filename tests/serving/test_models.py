"""A new folder takes over between two requests; one that cannot be loaded changes nothing."""

import shutil
import weakref

import pytest

from pricdr.serving.snapshot import Models, Snapshot


class Watched(Models):
    """Models whose events are recorded."""

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
    shutil.rmtree(folder)
    shutil.copytree(by, folder)


def test_a_replaced_folder_is_loaded_once_it_has_settled(saved, folder):
    models = Watched(folder)
    before = models.current.fingerprint
    replaced(folder, saved / "two")
    models.reload_if_changed()  # it has changed, and may still be being written
    assert models.current.fingerprint == before
    models.settle()
    assert models.current.fingerprint == Snapshot.load(saved / "two").fingerprint != before
    assert models.names == ["model taken", "model freed"]
    assert models.problem is None
    assert models.loads == {"taken": 2, "refused": 0}


def test_a_link_that_is_moved_is_followed(saved, tmp_path):
    link, other = tmp_path / "current", tmp_path / "next"
    link.symlink_to(saved / "one")
    models = Watched(link)
    other.symlink_to(saved / "two")
    other.rename(link)
    models.settle()
    assert models.current.fingerprint == Snapshot.load(saved / "two").fingerprint


def test_requests_in_flight_keep_the_model_they_began_with_and_then_it_leaves_memory(saved, folder):
    models = Watched(folder)
    snapshot = models.current
    old, expected = weakref.ref(snapshot), snapshot.recommend("u0", 3)
    replaced(folder, saved / "two")
    models.settle()
    assert models.names == ["model taken"]
    assert snapshot.recommend("u0", 3) == expected != models.current.recommend("u0", 3)
    del snapshot
    assert models.names == ["model taken", "model freed"]
    assert old() is None


def broken(folder, monkeypatch):
    (folder / "model.safetensors").write_bytes(b"broken")


def of_another_certificate(folder, monkeypatch):
    (folder / "release.certificate.json").write_text("{}")


def with_an_id_that_is_none(folder, monkeypatch):
    (folder / "users.txt").write_text("alice\rsmith\n" + "".join(f"u{at}\n" for at in range(39)))


def too_large_for_memory(folder, monkeypatch):
    (folder / "model.json").touch()
    monkeypatch.setenv("PRICDR_MEMORY", "1MB")
    monkeypatch.setattr("pricdr.models.folder.memory_limit", lambda: 1000)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (broken, "model.safetensors"),
        (of_another_certificate, "certificate"),
        (with_an_id_that_is_none, "users.txt must hold one user id per line"),
        (too_large_for_memory, "at most"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused_once_and_the_old_model_stays(
    saved, folder, monkeypatch, spoil, reason
):
    models = Watched(folder)
    before = models.current
    with monkeypatch.context() as patch:
        spoil(folder, patch)
        models.settle()
    assert models.current is before
    assert models.names == ["model refused"]
    assert reason in models.problem
    assert models.events[0][1]["reason"] == models.problem
    assert "alice" not in models.problem
    assert models.loads == {"taken": 1, "refused": 1}
    replaced(folder, saved / "two")
    models.settle()
    assert models.problem is None
    assert models.current is not before


def test_an_internal_error_while_loading_keeps_the_old_model(saved, folder):
    loads = iter([Snapshot.load])
    models = Watched(folder, load=lambda path: next(loads)(path))  # a second load is a StopIteration
    replaced(folder, saved / "two")
    models.settle()
    assert models.names == ["model refused"]
    assert models.problem == f"{folder}: StopIteration"


def test_a_folder_that_vanishes_and_comes_back_is_no_problem(saved, folder):
    models = Watched(folder)
    before = models.current
    shutil.rmtree(folder)
    models.reload_if_changed()
    assert models.problem is None
    models.reload_if_changed()
    assert "no such folder" in models.problem
    shutil.copytree(saved / "one", folder)
    models.settle()
    assert models.problem is None
    assert models.current is before
    assert models.names == ["model refused"]


def test_a_second_model_is_there_to_compare_with(saved, folder):
    assert len(Models(folder).all) == 1
    models = Watched(saved / "two", folder)
    assert [snapshot.folder for snapshot in models.all] == [saved / "two", folder]
    broken(folder, None)
    models.settle()
    assert "model.safetensors" in models.problem
    assert models.all[1].recommend("u0", 1).items
