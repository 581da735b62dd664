"""Safetensors files changed from the inside: other headers, and arrays of other shapes, types and numbers."""

import json
import struct
from random import Random
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from tests.fuzz.mutations import json_bytes, mutate_json

Arrays = dict[str, np.ndarray]
_FLOATS = (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 0.0, -0.0, -1.0)
_WHOLE = (0, 1, -1, 2, 7, 100, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**63))


def mutate_tensors(rng: Random, content: bytes, other: bytes) -> bytes:
    """A file that is whole for safetensors in most cases, and says something else; both given ones are honest."""
    if rng.random() < 0.25:
        return _mutate_header(rng, content)
    arrays, others = load(content), load(other)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(_ARRAY_CHANGES)(rng, arrays, others)
    return save(
        {name: np.array(array, order="C") for name, array in arrays.items()},
        metadata=_header(content).get("__metadata__"),
    )


def _header(content: bytes) -> dict[str, Any]:
    return json.loads(content[8 : 8 + _size(content)])


def _size(content: bytes) -> int:
    return int.from_bytes(content[:8], "little")


def _mutate_header(rng: Random, content: bytes) -> bytes:
    header, body = _header(content), content[8 + _size(content) :]
    changed = json_bytes(rng, mutate_json(rng, header, header))
    stated = len(changed) if rng.random() < 0.95 else rng.choice((0, 1, 2**31, 2**63, 2**64 - 1, len(changed) + 8))
    return struct.pack("<Q", stated) + changed + rng.choice((body, body, body, body + b"\0" * 8, body[:-4]))


def _set_numbers(rng: Random, arrays: Arrays, _: Arrays) -> None:
    name = _any(rng, arrays)
    array = arrays[name].copy()
    if array.size:
        flat = array.reshape(-1)
        for _ in range(rng.choice((1, 1, 3, array.size))):
            value = rng.choice(_FLOATS if array.dtype.kind == "f" else (*_WHOLE, int(flat[-1]) + 1))
            with np.errstate(all="ignore"):
                flat[rng.randrange(array.size)] = np.array(value).astype(array.dtype)
        arrays[name] = array


def _set_type(rng: Random, arrays: Arrays, _: Arrays) -> None:
    name = _any(rng, arrays)
    kind = rng.choice((np.float16, np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.bool_))
    with np.errstate(all="ignore"):
        arrays[name] = arrays[name].astype(kind)


def _set_shape(rng: Random, arrays: Arrays, _: Arrays) -> None:
    name = _any(rng, arrays)
    array, draw = arrays[name], rng.randrange(7)
    if draw == 0:
        arrays[name] = array.reshape(-1)
    elif draw == 1:
        arrays[name] = array[..., None]
    elif draw == 2:
        arrays[name] = array.T
    elif draw == 3:
        arrays[name] = array[: len(array) // 2] if array.ndim else array
    elif draw == 4:
        arrays[name] = np.concatenate([array, array]) if array.ndim else array.reshape(1)
    elif draw == 5:
        arrays[name] = array[..., :-1] if array.ndim else array
    else:
        arrays[name] = np.zeros(rng.choice([(0,), (0, 3), (3, 0), (), (1, 1, 1, 1)]), dtype=array.dtype)


def _set_names(rng: Random, arrays: Arrays, others: Arrays) -> None:
    name, draw = _any(rng, arrays), rng.randrange(6)
    if draw == 0:
        del arrays[name]
        arrays.setdefault("kept", np.zeros(1, dtype=np.float32))  # a file without any would be another case
    elif draw == 1:
        arrays[name + rng.choice(("x", "/data", "/-1", "/9", "\n"))] = arrays.pop(name)
    elif draw == 2:
        another = _any(rng, arrays)
        arrays[name], arrays[another] = arrays[another], arrays[name]
    elif draw == 3:
        arrays[rng.choice(("uses_history", "x", "interaction/9/bias", "optimizer/99/step", "network/x"))] = arrays[name]
    else:
        taken = _any(rng, others)
        arrays[rng.choice((name, taken))] = others[taken]


def _any(rng: Random, arrays: Arrays) -> str:
    return rng.choice(sorted(arrays))


_ARRAY_CHANGES = (_set_numbers, _set_numbers, _set_numbers, _set_type, _set_shape, _set_shape, _set_names)
