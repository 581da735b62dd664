"""Changes to bytes, JSON values, tensors and folders, each drawn from a generator that belongs to one case."""

import copy
import json
import struct
from random import Random
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from tests.fuzz.cases import Entry, Files, Special

NUMBERS = (
    0, -0.0, 1, -1, 2, 0.5, 1e308, -1e308, 5e-324, 1e-300, 1e15, 10**400, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1,
    2**63, -(2**63), 2**64, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
TEXTS = (
    "", " ", "0", "1e9", "nan", "null", "\x00", "a\nb", "\r", "\x1b[2J", "\u202e", "\u2028", "\ufeff", "💥" * 40,
    "../../x", "/dev/zero", "x" * 1001, "x" * 70_000, "'", '"', "\\", "{}", "^.*$", "*",
)  # fmt: skip
WORDS = (
    b"\0" * 4, b"\xff" * 4, b"\0" * 8, b"\xff" * 8, b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff" * 7 + b"\x7f",
    b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\0\0\x80\xff", b"\0" * 6 + b"\xf0\x7f", b"\n", b"\r\n", b'"', b",", b"\t",
    b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3", b"\x00", b"\x1b[31m", b"[" * 3000, b"9" * 5000,
)  # fmt: skip


def mutate_bytes(rng: Random, content: bytes, other: bytes = b"") -> bytes:
    """One to three changes of bytes, wherever they fall."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = _change_bytes(rng, content, other)
    return content


def _change_bytes(rng: Random, content: bytes, other: bytes) -> bytes:
    at = rng.randrange(len(content) + 1)
    length = rng.randint(1, max(1, rng.choice((1, 2, 4, 8, 16, 64, 1024, len(content)))))
    word, head, part, tail = rng.choice(WORDS), content[:at], content[at : at + length], content[at + length :]
    a, b, c, d = sorted(rng.randrange(len(content) + 1) for _ in range(4))
    flipped = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8)) if content else 0):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    overwritten = head + word + content[at + len(word) :]
    return rng.choice((
        bytes(flipped), bytes(flipped), overwritten, overwritten,
        head + rng.choice((word, rng.randbytes(rng.randint(1, 40)))) + content[at:],  # inserted
        rng.choice((head, content[at:], content[: max(0, len(content) - rng.randint(1, 12))])),  # cut off
        head + tail,
        head + part * (rng.choice((2, 2, 3, 50)) if len(part) < 2000 else 2) + tail,
        content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:],  # exchanged
        head + other[rng.choice((at, rng.randrange(len(other) + 1))) :],  # spliced
    ))  # fmt: skip


def mutate_lines(rng: Random, lines: list[bytes], spares: list[bytes], odd: tuple[bytes, ...]) -> list[bytes]:
    """Lines dropped, doubled, exchanged, borrowed from another file, or of no sense."""
    at, another = rng.randrange(len(lines)), rng.randrange(len(lines) + 1)
    swapped = list(lines)
    swapped[at], swapped[another - 1] = swapped[another - 1], swapped[at]
    return rng.choice((
        lines[:at] + lines[at + rng.choice((1, 1, 4)) :],
        [*lines[:at], rng.choice(lines), *lines[at:]],
        swapped,
        [*lines[:at], rng.choice(spares), *lines[at + 1 :]],
        [*lines[:another], rng.choice((*spares, *odd)), *lines[another:]],
        [*lines[:at], *spares[at:]],
    )) or [b""]  # fmt: skip


def junk(rng: Random) -> Any:
    """A value that has no business where it is put."""
    draw = rng.randrange(8)
    if draw < 3:
        return rng.choice(NUMBERS)
    if draw < 5:
        return rng.choice(TEXTS)
    if draw == 5:
        return rng.choice((None, True, False, [], {}, [[]], {"": None}, [None] * 100))
    return rng.choice(({"a": rng.choice(NUMBERS)}, [rng.choice(TEXTS), rng.choice(NUMBERS)], nested(rng)))


def nested(rng: Random) -> Any:
    """Lists or objects in each other, to a depth that is deep for people and not yet for parsers."""
    value: Any = None
    for _ in range(rng.choice((3, 30, 200))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def paths(content: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a JSON value."""
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    all_paths = []
    for key, value in inner:
        all_paths += [(*prefix, key), *paths(value, (*prefix, key))]
    return all_paths


def at_path(content: Any, path: tuple[Any, ...]) -> Any:
    """What is at a place, None where there is no such place."""
    for step in path:
        try:
            content = content[step]
        except (KeyError, IndexError, TypeError):
            return None
    return content


def mutate_json(rng: Random, content: Any, other: Any = None) -> Any:
    """A copy with one to three places changed: replaced, nudged, swapped, dropped, added or taken from ``other``."""
    changed = copy.deepcopy(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = paths(changed)
        if not places:
            return junk(rng)
        _change_place(rng, changed, rng.choice(places), other)
    return changed


def _change_place(rng: Random, changed: Any, path: tuple[Any, ...], other: Any) -> None:
    parent, key = at_path(changed, path[:-1]), path[-1]
    value, draw = parent[key], rng.randrange(12)
    if draw < 4 and isinstance(value, int | float) and not isinstance(value, bool):
        parent[key] = nudge(rng, value)
    elif draw < 6:
        parent[key] = junk(rng)
    elif draw == 6 and isinstance(value, bool | str):
        parent[key] = not value if isinstance(value, bool) else rng.choice((value + " ", value[:-1], value.upper()))
    elif draw == 7:
        del parent[key]
    elif draw == 8:
        another = rng.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
        parent[key], parent[another] = parent[another], parent[key]
    elif draw == 9 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(value))
    elif draw == 9:
        parent[rng.choice(TEXTS)[:40]] = parent.pop(key) if rng.random() < 0.5 else junk(rng)
    else:
        replacement = at_path(other, path)
        parent[key] = junk(rng) if replacement is None else copy.deepcopy(replacement)


def nudge(rng: Random, value: float) -> float:
    """A number that could be meant: near the old one, its opposite, or some times as large."""
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, value * 2, value // 2, -value, float(min(value, 2**60))))
    factor = rng.choice((0.5, 2, 0.99, 1.01, 1 - 1e-7, 1 + 1e-7, 1 + 1e-12, -1, 1e-3, 1e3))
    return value * factor


def json_bytes(rng: Random, content: Any, **layout: Any) -> bytes:
    """JSON text as ``layout`` says; sometimes with a key given twice, which parsers take differently."""
    text = json.dumps(content, ensure_ascii=False, **layout)
    if isinstance(content, dict) and content and rng.random() < 0.05:
        key, value = rng.choice(list(content.items()))
        again = f"{json.dumps(key)}: {json.dumps(rng.choice((value, junk(rng))))}"
        text = f"{{{again}, {text[1:]}" if rng.random() < 0.5 else f"{text[:-1]}, {again}}}"
    return text.encode("utf-8", "surrogatepass")


def mutate_ids(rng: Random, content: bytes) -> bytes:
    """A list of ids as somebody else might write it: other ids, other lines, other ends of lines, other encodings."""
    ids, draw = content.decode().splitlines(), rng.randrange(8)
    if draw < 3:
        ids[rng.randrange(len(ids))] = rng.choice((*TEXTS, *ids))
    elif draw == 3:
        ids = rng.choice((ids[:-1], [*ids, "more"], [], ids[::-1], ["", *ids]))
    text = "".join(f"{name}\n" for name in ids)
    if draw == 4:
        text = rng.choice(
            (text[:-1], text + "\n", text.replace("\n", "\r\n"), "\ufeff" + text, text.replace("\n", "\0"))
        )
    return text.encode(rng.choice(("utf-8", "utf-8", "utf-8", "utf-16")) if draw == 5 else "utf-8", "surrogatepass")


def mutate_folder(rng: Random, files: Files) -> Files:
    """Another set of files: one missing, one too many, renamed, exchanged, or something that is no file."""
    name, another = rng.choice(sorted(files)), rng.choice(sorted(files))
    rest = {other: entry for other, entry in files.items() if other != name}
    target = rng.choice((name, "missing", "/dev/null", "/dev/zero", ".", *sorted(files)))
    extra = rng.choice(("extra", ".hidden", "\x1b[2J", "a\nb", "certificate.json.sig", "x" * 200))
    changed: tuple[dict[str, Entry], ...] = (
        rest,
        {**files, extra: b"x"},
        {**rest, f"{name}.old": files[name]},
        {**files, name: files[another], another: files[name]},
        *({**files, name: entry} for entry in (Special("folder"), Special("pipe"), Special("link", target), b"")),
    )
    return rng.choice(changed)


Arrays = dict[str, np.ndarray]
_FLOATS = (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 0.0, -0.0, -1.0)
_WHOLE = (0, 1, -1, 2, 7, 100, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**63))
_TYPES = (np.float16, np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.bool_)


def mutate_tensors(rng: Random, content: bytes, other: bytes) -> bytes:
    """A file that is whole for safetensors in most cases, and says something else; both given ones are honest."""
    size = int.from_bytes(content[:8], "little")
    header, body = json.loads(content[8 : 8 + size]), content[8 + size :]
    if rng.random() < 0.25:
        changed = json_bytes(rng, mutate_json(rng, header, header))
        stated = len(changed) if rng.random() < 0.95 else rng.choice((0, 1, 2**31, 2**63, 2**64 - 1, len(changed) + 8))
        return struct.pack("<Q", stated) + changed + rng.choice((body, body, body, body + b"\0" * 8, body[:-4]))
    arrays, others = load(content), load(other)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        name, draw = rng.choice(sorted(arrays)), rng.randrange(7)
        with np.errstate(all="ignore"):
            if draw < 3:
                arrays[name] = _with_numbers(rng, arrays[name].copy())
            elif draw == 3:
                arrays[name] = arrays[name].astype(rng.choice(_TYPES))
            elif draw < 6:
                arrays[name] = _reshaped(rng, arrays[name])
            else:
                _set_names(rng, name, arrays, others)
    ordered = {name: np.array(array, order="C") for name, array in arrays.items()}
    return save(ordered, metadata=header.get("__metadata__"))


def _with_numbers(rng: Random, array: np.ndarray) -> np.ndarray:
    flat = array.reshape(-1)
    for _ in range(min(array.size, rng.choice((1, 1, 3, array.size)))):
        value = rng.choice(_FLOATS if array.dtype.kind == "f" else (*_WHOLE, int(flat[-1]) + 1))
        flat[rng.randrange(array.size)] = np.array(value).astype(array.dtype)
    return array


def _reshaped(rng: Random, array: np.ndarray) -> np.ndarray:
    empty = rng.choice([(0,), (0, 3), (3, 0), (), (1, 1, 1, 1)])
    changed = [array.reshape(-1), array[..., None], array.T, np.zeros(empty, dtype=array.dtype)]
    if array.ndim:
        changed += [array[: len(array) // 2], np.concatenate([array, array]), array[..., :-1]]
    return rng.choice(changed)


def _set_names(rng: Random, name: str, arrays: Arrays, others: Arrays) -> None:
    draw, another, taken = rng.randrange(6), rng.choice(sorted(arrays)), rng.choice(sorted(others))
    if draw == 0:
        del arrays[name]
        arrays.setdefault("kept", np.zeros(1, dtype=np.float32))  # a file without any would be another case
    elif draw == 1:
        arrays[name + rng.choice(("x", "/data", "/-1", "/9", "\n"))] = arrays.pop(name)
    elif draw == 2:
        arrays[name], arrays[another] = arrays[another], arrays[name]
    elif draw == 3:
        arrays[rng.choice(("uses_history", "x", "interaction/9/bias", "optimizer/99/step", "network/x"))] = arrays[name]
    else:
        arrays[rng.choice((name, taken))] = others[taken]
