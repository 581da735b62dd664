"""A new folder takes over between two requests; one that cannot be loaded changes nothing."""

import shutil
import weakref

from pricdr.serving.models import Models
from pricdr.serving.snapshot import Snapshot


class EventRecorder:
    def __init__(self):
        self.events = []

    def __call__(self, event, **facts):
        self.events.append((event, facts))

    def names(self):
        return [event for event, _ in self.events]


def replaced(folder, by):
    shutil.rmtree(folder)
    shutil.copytree(by, folder)


def current(models):
    return models.current.fingerprint


def test_a_replaced_folder_is_loaded_once_it_has_settled(saved, folder):
    events = EventRecorder()
    models = Models(folder, report=events)
    before = current(models)
    replaced(folder, saved / "two")
    models.reload_if_changed()  # it has changed, and may still be being written
    assert current(models) == before
    models.reload_if_changed()
    assert current(models) == Snapshot.load(saved / "two").fingerprint != before
    assert events.names() == ["model taken", "model freed"]
    assert models.problem is None
    assert models.loads == {"taken": 2, "refused": 0}


def test_another_certificate_alone_is_another_model(folder):
    models = Models(folder)
    before = current(models)
    (folder / "release.certificate.json").write_text("{}")
    models.reload_if_changed()
    models.reload_if_changed()
    assert current(models) == before
    assert "certificate" in models.problem


def test_a_refusal_quotes_no_id(saved, folder):
    events = EventRecorder()
    models = Models(folder, report=events)
    (folder / "users.txt").write_text("alice\rsmith\n" + "".join(f"u{at}\n" for at in range(39)))
    models.reload_if_changed()
    models.reload_if_changed()
    assert events.names() == ["model refused"]
    assert "users.txt must hold one user id per line" in events.events[0][1]["reason"]
    assert "alice" not in events.events[0][1]["reason"]


def test_a_link_that_is_moved_is_followed(saved, tmp_path):
    link = tmp_path / "current"
    link.symlink_to(saved / "one")
    models = Models(link)
    other = tmp_path / "next"
    other.symlink_to(saved / "two")
    other.rename(link)
    models.reload_if_changed()
    models.reload_if_changed()
    assert current(models) == Snapshot.load(saved / "two").fingerprint


def test_requests_in_flight_keep_the_model_they_began_with(saved, folder):
    events = EventRecorder()
    models = Models(folder, report=events)
    snapshot = models.current
    expected = snapshot.recommend("u0", 3)
    replaced(folder, saved / "two")
    models.reload_if_changed()
    models.reload_if_changed()
    assert events.names() == ["model taken"]
    assert snapshot.recommend("u0", 3) == expected
    assert models.current.recommend("u0", 3) != expected
    del snapshot
    assert events.names() == ["model taken", "model freed"]


def test_a_replaced_model_leaves_memory(saved, folder):
    models = Models(folder)
    old = weakref.ref(models.current)
    replaced(folder, saved / "two")
    models.reload_if_changed()
    models.reload_if_changed()
    assert old() is None


def test_an_internal_error_while_loading_keeps_the_old_model(saved, folder):
    events = EventRecorder()
    loads = iter([Snapshot.load])
    models = Models(folder, load=lambda path: next(loads)(path), report=events)  # a second load is a StopIteration
    replaced(folder, saved / "two")
    models.reload_if_changed()
    models.reload_if_changed()
    assert events.names() == ["model refused"]
    assert models.problem == f"{folder}: StopIteration"


def test_a_corrupt_folder_is_refused_once_and_the_old_model_stays(saved, folder):
    events = EventRecorder()
    models = Models(folder, report=events)
    before = current(models)
    (folder / "model.safetensors").write_bytes(b"broken")
    for _ in range(4):
        models.reload_if_changed()
    assert current(models) == before
    assert events.names() == ["model refused"]
    assert "model.safetensors" in models.problem
    assert models.loads == {"taken": 1, "refused": 1}
    replaced(folder, saved / "two")
    models.reload_if_changed()
    models.reload_if_changed()
    assert models.problem is None
    assert current(models) != before


def test_a_folder_that_vanishes_and_comes_back_is_no_problem(saved, folder):
    events = EventRecorder()
    models = Models(folder, report=events)
    before = current(models)
    shutil.rmtree(folder)
    models.reload_if_changed()
    assert models.problem is None
    models.reload_if_changed()
    assert "no such folder" in models.problem
    shutil.copytree(saved / "one", folder)
    models.reload_if_changed()
    models.reload_if_changed()
    assert models.problem is None
    assert current(models) == before
    assert events.names() == ["model refused"]


def test_a_model_that_needs_too_much_memory_is_refused(folder, monkeypatch):
    models = Models(folder)
    before = current(models)
    (folder / "model.json").touch()
    monkeypatch.setenv("PRICDR_MEMORY", "1MB")
    monkeypatch.setattr("pricdr.models.folder.memory_limit", lambda: 1000)
    models.reload_if_changed()
    models.reload_if_changed()
    assert "at most" in models.problem
    assert current(models) == before


def test_a_second_model_is_there_to_compare_with(saved, folder):
    assert Models(folder).compared is None
    models = Models(saved / "two", folder)
    assert models.compared.fingerprint == Snapshot.load(saved / "one").fingerprint
    (folder / "model.safetensors").write_bytes(b"broken")
    models.reload_if_changed()
    models.reload_if_changed()
    assert "model.safetensors" in models.problem
    assert models.compared.recommend("u0", 1).items
