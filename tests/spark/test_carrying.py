"""Works that are sent to executors: a broadcast cannot be read, and a work arrives unchanged."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from cryptography.exceptions import InvalidTag

import pricdr.engines.spark.carrying as carrying
from pricdr import Bounds
from pricdr.engines.spark.carrying import dispatched
from pricdr.privacy.mechanism import ReleasedRows
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.privacy.sums import NoisySums, SummedRows
from pricdr.randomness import Seal, Secret, Simulation
from tests.spark.key_search import KeySearch


class Context:
    """A stand-in for a Spark context: it broadcasts a value and destroys it."""

    def __init__(self):
        self.value, self.destroyed = None, False

    def broadcast(self, value):
        self.value = value
        return self

    def destroy(self):
        self.destroyed = True


@pytest.fixture(autouse=True)
def _another_process():
    yield
    carrying._opened.forget()


def _contents(context):
    return b"".join(
        piece
        for content in context.value
        for piece in (content.keys.values() if hasattr(content, "keys") else [*content.chunks, content.dtype.encode()])
    )


@pytest.mark.parametrize("refinement", [1, 8])
def test_a_work_does_the_same_at_the_other_end(refinement):
    noise = DiscreteGaussian(Simulation(4), "noise", refinement=refinement)
    rows = np.arange(60, dtype=np.int64).reshape(20, 3)
    work = SummedRows(rows, NoisySums(bits=2, step=0.5, noise=noise))
    block = sp.csr_array(np.eye(5, 20, dtype=np.int64))
    with dispatched(Context(), (work, (Bounds(rating_bound=4).steps,))) as message:
        there, (convert,) = message.opened()
        assert there is not work
        assert there.finish.noise is not noise
        assert np.array_equal(there(block, 7), work(block, 7))
        assert np.array_equal(convert(block).toarray(), block.toarray())
        assert message.opened()[0] is there, "opened once in a process"


def test_a_broadcast_shows_neither_keys_nor_arrays_nor_the_key_that_seals_them(monkeypatch):
    search = KeySearch()
    make = carrying.secrets.token_bytes

    def remember_key(size):
        content = make(size)
        if size == 32:  # other sizes are not keys
            search.add(content)
        return content

    monkeypatch.setattr(carrying.secrets, "token_bytes", remember_key)
    with Secret() as secret:
        noise = DiscreteGaussian(secret, "noise", refinement=8)
        for stream in (*noise._coarse.streams.values(), *noise._fine.streams.values()):
            search.add(stream._key._bytes)
        rows = np.frombuffer(np.random.default_rng(1).bytes(4000), dtype=np.int32).reshape(10, 100)
        search.add(rows.tobytes())
        context = Context()
        with dispatched(
            context, ReleasedRows(item_rows=rows, pieces=0, total="int32", radius=None, step=1.0, noise=noise)
        ) as message:
            assert len(search.keys) == 7, "of the release, of four streams, of the seal; an array"
            assert not search.found_in(_contents(context))
            assert not search.found_in(repr(message).encode())
            assert search.found_in(message.wrapping)
    assert context.destroyed


def test_only_the_keys_that_a_work_needs_travel():
    context = Context()
    with dispatched(context, NoisySums(bits=0, step=1.0, noise=DiscreteGaussian(Simulation(1), "centre noise"))):
        (sealed,) = context.value
    assert set(sealed.keys) == {"centre noise draws", "centre noise ties"}


def test_an_array_in_several_pieces_and_an_empty_one(monkeypatch):
    monkeypatch.setattr(carrying, "_CHUNK", 100)
    arrays = np.arange(90, dtype=np.float64).reshape(9, 10), np.empty((0, 4), dtype=np.int32)
    context = Context()
    with dispatched(context, arrays) as message:
        assert len(context.value[0].chunks) == 8
        for there, here in zip(message.opened(), arrays, strict=True):
            assert there.dtype == here.dtype
            assert np.array_equal(there, here)


def test_what_was_changed_or_exchanged_on_a_disk_is_not_opened():
    arrays = np.zeros(16), np.ones(16)
    for spoil in (_flip, _exchange):
        context = Context()
        with dispatched(context, arrays) as message:
            spoil(context.value)
            with pytest.raises(InvalidTag):
                message.opened()


def _flip(contents):
    first = contents[0].chunks[0]
    contents[0].chunks[0] = first[:-1] + bytes([first[-1] ^ 1])


def _exchange(contents):
    contents.reverse()


@dataclass(frozen=True)
class Careless:
    notes: Any

    def __call__(self, block, start):
        return self.notes


@pytest.mark.parametrize(
    "notes",
    [["a list"], {"a": 1}, sp.csr_array((2, 2)), b"bytes", np.array([object()]), Simulation(1).stream("x")],
    ids=lambda notes: type(notes).__name__,
)
def test_what_might_hold_ratings_or_keys_does_not_travel_in_the_clear(notes):
    with (
        pytest.raises(TypeError, match="a work may hold numbers, arrays, noise"),
        dispatched(Context(), Careless(notes)),
    ):
        pass


def test_a_function_does_not_smuggle_an_array():
    hidden = np.ones(3)
    with pytest.raises(TypeError, match="holds arrays or noise"), dispatched(Context(), lambda block, start: hidden):
        pass


def test_a_seal_is_never_serialised_and_knows_its_purpose():
    seal = Seal(bytes(range(32)))
    first, second = seal.close(b"same", "array 0"), seal.close(b"same", "array 0")
    assert first != second
    with pytest.raises(InvalidTag):
        seal.open(first, "array 1")
    with pytest.raises(TypeError, match="never serialised"):
        seal.__reduce__()
    seal.erase()
    with pytest.raises(RuntimeError, match="erased"):
        seal.open(first, "array 0")
    assert "hidden" in repr(seal)
