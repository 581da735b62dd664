import copy
import pickle

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, strategies as st

from pricdr.randomness import Secret, Simulation, Stream, _Key


def test_a_stream_is_aes_256_ctr_from_counter_zero():
    key = bytes(range(32))
    reference = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(bytes(1000))
    assert Stream(_Key(key)).read(0, 1000).tobytes() == reference


@given(st.integers(0, 10_000), st.integers(0, 5_000))
def test_reading_anywhere_gives_the_same_bytes(start, count):
    stream = Simulation(1).stream("x")
    assert np.array_equal(stream.read(start, count), stream.read(0, start + count)[start:])


def test_block_addresses_reach_the_same_stream():
    stream = Simulation(1).stream("x")
    blocks = np.frombuffer(b"".join(n.to_bytes(16, "big") for n in (7, 0, 7)), dtype=np.uint8)
    expected = np.concatenate([stream.read(16 * n, 16) for n in (7, 0, 7)])
    assert np.array_equal(stream.at(blocks), expected)


def test_names_seeds_and_secrets_give_unrelated_streams():
    streams = [
        Simulation(1).stream("x"),
        Simulation(1).stream("y"),
        Simulation(2).stream("x"),
        Secret().stream("x"),
        Secret().stream("x"),
    ]
    heads = [stream.read(0, 4096) for stream in streams]
    for i, left in enumerate(heads):
        for right in heads[i + 1 :]:
            assert (left == right).sum() < 60  # 16 expected; 11 standard deviations above


def test_a_simulation_repeats_and_a_secret_does_not():
    assert np.array_equal(Simulation(5).stream("x").read(0, 64), Simulation(5).stream("x").read(0, 64))
    assert not np.array_equal(Secret().stream("x").read(0, 64), Secret().stream("x").read(0, 64))
    assert Simulation(5).generator("g").integers(1 << 60) == Simulation(5).generator("g").integers(1 << 60)


def test_secrets_do_not_print_pickle_or_copy():
    with Secret() as secret:
        stream = secret.stream("x")
        for thing in (secret, stream, stream._key):
            assert "hidden" in repr(thing)
            assert bytes(stream._key._bytes).hex() not in repr(thing)
            with pytest.raises(TypeError, match=r"never serialised|cannot pickle"):
                pickle.dumps(thing)
            with pytest.raises(TypeError, match=r"never serialised|cannot pickle"):
                copy.deepcopy(thing)


def test_an_erased_secret_cannot_be_used_again():
    secret = Secret()
    stream = secret.stream("x")
    stream.read(0, 16)
    secret.erase()
    for use in (lambda: stream.read(0, 16), lambda: stream.address("item"), lambda: secret.stream("y")):
        with pytest.raises(RuntimeError, match="erased"):
            use()
