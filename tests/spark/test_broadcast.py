"""Works that are sent to executors: a broadcast cannot be read, and a work arrives unchanged."""

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from cryptography.exceptions import InvalidTag

import pricdr.engines.spark.blocks as spark_blocks
from pricdr import Bounds
from pricdr.engines.spark.blocks import dispatched
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.randomness import Seal, Secret, Simulation
from tests.spark.key_search import KeySearch

pytest.importorskip("pyspark", reason="pyspark is missing (make system brings it)")


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
    spark_blocks._received.clear()


def noisy(rows, noise):
    """Return a work as a release runs them: a function that holds an array and the noise of its step."""

    def work(block, start):
        sums = block @ rows
        return sums + noise.draw(start * sums.shape[1], sums.size).reshape(sums.shape)

    return work


def held(work):
    return inspect.getclosurevars(work).nonlocals


def _contents(context):
    return b"".join(chunk for piece in context.value for chunk in piece)


@pytest.mark.parametrize("refinement", [1, 8])
def test_a_work_does_the_same_at_the_other_end(refinement):
    noise = DiscreteGaussian(Simulation(4), "noise", refinement=refinement)
    rows = np.arange(60, dtype=np.int64).reshape(20, 3)
    work = noisy(rows, noise)
    block = sp.csr_array(np.eye(5, 20, dtype=np.int64))
    with dispatched(Context(), (work, (Bounds(rating_bound=4).steps,))) as message:
        there, (convert,) = message.opened()
        assert there is not work
        assert held(there)["noise"] is not noise
        assert np.array_equal(there(block, 7), work(block, 7))
        assert np.array_equal(convert(block).toarray(), block.toarray())
        assert message.opened()[0] is there, "opened once in a process"


def test_a_broadcast_shows_neither_keys_nor_arrays_nor_the_key_that_seals_them(monkeypatch):
    search = KeySearch()
    make = spark_blocks.secrets.token_bytes

    def remember_key(size):
        content = make(size)
        if size == 32:  # other sizes are not keys
            search.add(content)
        return content

    monkeypatch.setattr(spark_blocks.secrets, "token_bytes", remember_key)
    with Secret() as secret:
        noise = DiscreteGaussian(secret, "noise", refinement=8)
        for stream in (*noise._coarse.streams.values(), *noise._fine.streams.values()):
            search.add(stream._key._bytes)
        rows = np.frombuffer(np.random.default_rng(1).bytes(4000), dtype=np.int32).reshape(10, 100)
        search.add(rows.tobytes())
        context = Context()
        with dispatched(context, noisy(rows, noise)) as message:
            assert len(search.keys) == 7, "of the release, of four streams, of the seal; an array"
            assert not search.found_in(_contents(context))
            assert not search.found_in(repr(message).encode())
            assert search.found_in(message.wrapping)
    assert context.destroyed


def test_only_the_keys_that_a_work_needs_travel():
    noise = DiscreteGaussian(Simulation(1), "centre noise")
    with dispatched(Context(), noisy(np.eye(2), noise)) as message:
        assert set(held(message.opened())["noise"]._coarse.streams) == {"centre noise draws", "centre noise ties"}


def test_an_array_in_several_pieces_and_an_empty_one(monkeypatch):
    monkeypatch.setattr(spark_blocks, "_PIECE", 100)
    arrays = np.arange(90, dtype=np.float64).reshape(9, 10), np.empty((0, 4), dtype=np.int32)
    context = Context()
    with dispatched(context, arrays) as message:
        assert max(map(len, context.value)) == 8
        for there, here in zip(message.opened(), arrays, strict=True):
            assert there.dtype == here.dtype
            assert np.array_equal(there, here)


def test_what_was_changed_or_exchanged_on_a_disk_is_not_opened():
    for spoil in ("flip", "exchange"):
        context = Context()
        with dispatched(context, (np.zeros(16), np.ones(16))) as message:
            if spoil == "flip":
                first = context.value[1][0]
                context.value[1][0] = first[:-1] + bytes([first[-1] ^ 1])
            else:
                context.value[1:] = context.value[:0:-1]
            with pytest.raises(InvalidTag):
                message.opened()


@dataclass(frozen=True)
class Careless:
    notes: Any

    def __call__(self, block, start):
        return self.notes


def test_nothing_that_a_work_holds_travels_in_the_clear():
    hidden = np.frombuffer(b"what nobody may read in a broadcast".ljust(40), dtype=np.int8)
    for notes in (hidden.tobytes(), hidden, [hidden], lambda block, start: hidden):
        context = Context()
        with dispatched(context, Careless(notes)) as message:
            assert b"nobody may read" not in _contents(context)
            assert b"notes" not in _contents(context)
            assert message.opened().notes is not None


@pytest.mark.parametrize("key", [Secret(), Simulation(1).stream("x")], ids=lambda key: type(key).__name__)
def test_a_key_does_not_travel(key):
    with pytest.raises(TypeError, match="never serialised"), dispatched(Context(), Careless(key)):
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
