"""What stage one reads: ledgers, messages of an alignment, and files of ratings in every accepted format.

Ledgers: whoever changes one must not get back what was spent, nor a larger budget. Any change of a signed one is
refused or means the same, unless it is another honest ledger signed by the same key. Of one that is not signed, a
well-formed line more at the end only spends, and a file that is an honest ledger byte for byte, of an earlier day or of
other ratings, cannot be told by itself: the releases it should have paid for contradict it. (Hashes are not computed
anew here: ``tests/privacy/test_ledger_chain.py`` does that.)

Messages: one that is accepted is canonical, has no point of low order, and fits the session. Anyone can put the right
SHA-256 at the end of a file, so most cases have it. Ratings: what is read has finite values and lawful ids.
"""

import gzip
import hashlib
import io
import json
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pricdr import Guarantee, Ledger, Unit
from pricdr.alignment.curve import LOW_ORDER, BlindingKey, P, split_points
from pricdr.alignment.messages import FIRST_LINE, Message, load_message
from pricdr.alignment.normalisation import NormalisedIds
from pricdr.alignment.protocol import begin, begin_answer, finish, first_message, second_message
from pricdr.cli.ledger import show
from pricdr.data.periods import Window
from pricdr.data.reading.read import read_ratings_file as read
from pricdr.errors import BudgetError
from tests.fuzz.cases import Files, Kind, Seed, require, require_ids
from tests.fuzz.mutations import NUMBERS, TEXTS, json_bytes, junk, mutate_bytes, mutate_json, mutate_lines
from tests.fuzz.releases import repeatable

_LEDGER = "ledger.jsonl"
_YEAR = Window.parse("2026-01-01", "2027-01-01")
_BUDGETS = [
    Guarantee(epsilon=8, delta=1e-6),
    Guarantee(epsilon=8, delta=1e-6, unit=Unit.USER),
    Guarantee(epsilon=8, delta=1e-6, window=_YEAR),
    Guarantee(epsilon=8, delta=1e-6, unit=Unit.USER_PERIOD, window=replace(_YEAR, days=7)),
]
_HONEST: set[bytes] = set()
"""What every honest ledger held after each of its lines, without the last line break; of signed ones, all of it."""
_LEDGER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


def make_ledgers(folder: Path) -> list[Seed]:
    """Ledgers of every unit, of all days and of some, with none to five releases, signed and not."""
    seeds = []
    with repeatable():
        for budget, key in product(_BUDGETS, (None, _LEDGER_KEY)):
            for count in range(6):
                path = folder / f"{_BUDGETS.index(budget)} {count} {'signed' if key else 'not signed'}"
                path.mkdir()
                ledger = Ledger.create(path / _LEDGER, budget, key)
                for number in range(count):
                    strategy = ("jlt", "spectral")[number % 2]
                    counted = {"unit": budget.unit, "window": budget.window}
                    ledger.spend(
                        mu=0.2 + 0.1 * number, dim=4 + number, strategy=strategy, promise="as asked", **counted
                    )
                seeds.append(Seed.of_folder(path, ledger.read()))
    for seed in seeds:
        lines = seed.files[_LEDGER].splitlines()
        first = len(lines) - 1 if seed.meaning.signed_by else 0
        _HONEST.update(b"\n".join(lines[: at + 1]) for at in range(first, len(lines)))
    return seeds


def mutate_ledger(rng: Random, seed: Seed, other: Seed) -> Files:
    """Change bytes, lines or fields of the file."""
    content, spare, draw = seed.files[_LEDGER], other.files[_LEDGER], rng.randrange(6)
    lines, spares = content.splitlines(), spare.splitlines()
    if draw == 0:
        changed = mutate_bytes(rng, content, spare)
    elif draw == 1:
        odd = (b"", b" ", b"{}", b"null", b"[" * 5000)
        changed = b"\n".join(mutate_lines(rng, lines, spares, odd)) + rng.choice((b"\n", b"\n", b"", b"\n\n"))
    elif draw == 2:  # the same values written otherwise, as an editor or another program would
        layout: dict[str, Any] = rng.choice(({"sort_keys": True}, {"separators": (", ", " : ")}, {"indent": 1}, {}))
        newline = rng.choice((b"\n", b"\r\n", b"\n\n", b"\r"))
        changed = newline.join(json_bytes(rng, json.loads(line), **layout) for line in lines) + newline
    else:
        at = rng.randrange(len(lines))
        field = mutate_json(rng, json.loads(lines[at]), json.loads(spares[min(at, len(spares) - 1)]))
        lines[at] = json_bytes(rng, field, separators=(",", ":"))
        changed = b"\n".join(lines) + b"\n"
    return {**seed.files, _LEDGER: changed}


def judge_ledger(folder: Path, seed: Seed, files: Files) -> None:
    """Read the ledger, compare with the honest one, and spend a little."""
    honest, ledger = seed.meaning, Ledger(folder / _LEDGER, _LEDGER_KEY)
    balance = ledger.read()
    written = files[_LEDGER]
    assert isinstance(written, bytes)
    appended = written.startswith(seed.files[_LEDGER])
    # A line each, after the first; and before the signature.
    releases = written.removesuffix(b"\n").count(b"\n") - (balance.signed_by is not None)
    require(len(balance.spends) == releases, f"releases that are not those recorded: {len(balance.spends)}, {releases}")
    if written.removesuffix(b"\n") not in _HONEST:
        require(honest.signed_by is None or balance.signed_by is None, "a signature of what was not signed")
        require(balance.budget == honest.budget, f"another budget: {balance.budget} for {honest.budget}")
        require(balance.spends[: len(honest.spends)] == honest.spends, "releases that are not those recorded")
        require(appended or len(balance.spends) == len(honest.spends), "a line more inside")
        require(balance.epsilon >= honest.epsilon, f"less spent than recorded: {balance.epsilon} {honest.epsilon}")
    require(0 <= balance.room < float("inf"), f"room that is none: {balance.room}")
    with redirect_stdout(io.StringIO()) as shown:
        show(ledger.path)
    require(shown.getvalue().replace("\n", "").isprintable(), "what ledger show prints a terminal would act on")
    try:
        counted = {"unit": balance.budget.unit, "window": balance.budget.window}
        after = ledger.spend(mu=0.01, dim=1, strategy="jlt", **counted)
    except BudgetError:
        require(appended, "a full ledger that had room")
        return
    require(len(after.spends) == len(balance.spends) + 1, "a release that was not counted")
    require(ledger.read() == after, "a balance that is not the one written")


# Messages of an alignment

_MESSAGE = "message"
_STARTER = ("ann", "bob", "carl", "dora")
_ANSWERER = ("bob", "dora", "eve")
_ODD_POINTS = (*LOW_ORDER, 9, P, P + 1, P + 9, 2**255 - 1, 2**255, 2**255 + 9, 2**256 - 1)


def _ids(*names: str) -> NormalisedIds:
    return NormalisedIds.of(names, "exact")


_BEGUN = begin(_ids(*_STARTER)).model_copy(update={"session": "5e" * 16, "key": BlindingKey(bytes(range(32)))})
_FIRST, _STATE = first_message(_BEGUN)
_SECOND, _ = second_message(
    begin_answer(_FIRST, _ids(*_ANSWERER)).model_copy(update={"key": BlindingKey(bytes(range(1, 33)))}),
    _FIRST,
)


def make_messages(folder: Path) -> list[Seed]:
    """Return both messages of one session."""
    return [Seed(name, {_MESSAGE: _bytes(message)}) for name, message in (("first", _FIRST), ("second", _SECOND))]


def _bytes(message: Message) -> bytes:
    return b"".join(message.blocks())


def mutate_message(rng: Random, seed: Seed, other: Seed) -> Files:
    """Change bytes, header fields or points, and usually correct the hash at the end."""
    content, spare = seed.files[_MESSAGE], other.files[_MESSAGE]
    draw = rng.randrange(8)
    if draw < 3:
        content = mutate_bytes(rng, content, spare)
    else:
        header, points = _parts(content)
        if draw < 6:
            changed = mutate_json(rng, json.loads(header), json.loads(_parts(spare)[0]))
            header = json_bytes(rng, changed, **rng.choice(({"separators": (",", ":")}, {})))
        else:
            points = b"".join(_changed_points(rng, split_points(points), split_points(_parts(spare)[1])))
        content = FIRST_LINE + len(header).to_bytes(4, "big") + header + points + content[-32:]
    if rng.random() < 0.8:
        content = content[:-32] + hashlib.sha256(content[:-32]).digest()
    return {_MESSAGE: content}


def _parts(content: bytes) -> tuple[bytes, bytes]:
    at = len(FIRST_LINE) + 4
    length = int.from_bytes(content[at - 4 : at], "big")
    return content[at : at + length], content[at + length : -32]


def _changed_points(rng: Random, points: list[bytes], others: list[bytes]) -> list[bytes]:
    at = rng.randrange(len(points))
    one = rng.choice((*points, rng.choice(_ODD_POINTS).to_bytes(32, "little"), *others, rng.randbytes(31) + b"\x01"))
    return rng.choice((
        [*points[:at], one, *points[at + 1 :]],
        [*points[:at], rng.choice(_ODD_POINTS).to_bytes(32, "little"), *points[at + 1 :]],
        rng.sample(points, len(points)),
        points[:at] + rng.choice(([], points[at:][::-1], [*points[at:], *others])),
    ))  # fmt: skip


def judge_message(folder: Path, seed: Seed, files: Files) -> None:
    """Read the message, and answer it or finish with it."""
    message = load_message(folder / _MESSAGE)
    content: Any = files[_MESSAGE]
    require(_bytes(message) == content, "a message that is not canonical")
    require(message.sha256 == hashlib.sha256(content).hexdigest(), "a message with another hash")
    points = split_points(message.points.tobytes())
    numbers = [int.from_bytes(point, "little") for point in points]
    require(all(u < P and u not in LOW_ORDER for u in numbers), "a point that no id hashes to")
    if message.header.kind == "start":
        reply, _ = second_message(begin_answer(message, _ids(*_ANSWERER)), message)
        require(len(reply.starter_points) == message.header.starter_ids, "an answer of another length")
        require(reply.header.previous == message.sha256, "an answer to another message")
        return
    alignment, _ = finish(_STATE, message)
    require(set(alignment.users) <= set(_STARTER), "a common user whom the starter does not have")
    require(message.header.previous == _FIRST.sha256, "an answer to another message")
    if content == _bytes(_SECOND):
        require(set(alignment.users) == set(_STARTER) & set(_ANSWERER), "another intersection")


# Ratings

_ROWS = [(f"{at % 7:03d}", f"item {at * 3 % 11}", 1 + at * 5 % 9 / 2, 978300000 + at) for at in range(24)]
_NO_RATINGS = "presence.parquet"
_HEADER = ("user", "item", "rating", "timestamp")


def make_ratings(folder: Path) -> list[Seed]:
    """The same two dozen ratings as text, JSON lines and Parquet, in what encodings and types these come in."""
    files = {**_texts(), **_parquets()}
    return [Seed(name, {"ratings" + "".join(Path(name).suffixes): files[name]}) for name in files]


def _texts() -> dict[str, bytes]:
    def table(separator: str, header: tuple[str, ...] = _HEADER, newline: str = "\n", mark: str = "") -> str:
        rows = [row for row in (header, *_ROWS) if row]
        return "".join(separator.join(f"{mark}{value}{mark}" for value in row) + newline for row in rows)

    def objects(*names: str) -> str:
        return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in _ROWS)

    texts = {
        "plain.csv": table(","),
        "crlf.csv": table(",", newline="\r\n"),
        "bom.csv": "\ufeff" + table(","),
        "quoted.csv": table(",", mark='"'),
        "plain.tsv": table("\t"),
        "plain.inter": table("\t", ("user_id:token", "item_id:token", "rating:float", "timestamp:float")),
        "plain.dat": table("::", ()),
        "plain.jsonl": objects(*_HEADER),
        "amazon.json": objects("reviewerID", "asin", "overall", "unixReviewTime"),
    }
    files = {name: text.encode() for name, text in texts.items()}
    packed = {f"{name}.gz": gzip.compress(files[name], 6, mtime=0) for name in ("plain.csv", "plain.jsonl")}
    return {**files, **packed}


def _parquets() -> dict[str, bytes]:
    frame = pl.DataFrame(_ROWS, schema=list(_HEADER), orient="row")
    whole = frame.with_columns(pl.col("user").cast(pl.Int64), item=pl.int_range(pl.len()) % 5)
    frames: dict[str, tuple[pl.DataFrame, dict[str, Any]]] = {
        "snappy.parquet": (frame, {"compression": "snappy", "data_page_size": 64}),
        "zstd.parquet": (frame, {"compression": "zstd", "row_group_size": 5}),
        "types.parquet": (whole.cast({"user": pl.UInt8, "item": pl.Int16, "rating": pl.Float32}), {}),
        "enum.parquet": (frame.cast({"user": pl.Categorical, "item": pl.Enum(sorted(set(frame["item"])))}), {}),
        "filtered.parquet": (frame, {"metadata": {"pricdr.filtered": "5-core"}}),
        _NO_RATINGS: (frame.select("user", "item"), {}),
    }
    return {name: _parquet(table, **how) for name, (table, how) in frames.items()}


def _parquet(frame: pl.DataFrame, **how: Any) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, **how)
    return buffer.getvalue()


def mutate_ratings(rng: Random, seed: Seed, other: Seed) -> Files:
    """Change bytes, or rows as the format allows; now and then give the file the name of another format."""
    ((name, content),) = seed.files.items()
    ((another, spare),) = other.files.items()
    draw = rng.random()
    if draw < 0.02:
        return {another: content}
    if draw < 0.45:
        return {name: mutate_bytes(rng, content, spare)}
    if not name.endswith(".gz"):
        return {name: _change_rows(rng, name, content)}
    if draw < 0.46:
        return {name: _bomb()}
    changed = gzip.compress(_change_rows(rng, name, gzip.decompress(content)), 1, mtime=0)
    return {name: changed * rng.choice((1, 1, 1, 2))}


def _change_rows(rng: Random, name: str, content: bytes) -> bytes:
    change = _change_columns if name.endswith(".parquet") else _change_json if "json" in name else _change_cells
    return change(rng, content)


@cache
def _bomb() -> bytes:
    """80 MiB of ratings in a third of one."""
    return gzip.compress(b"user,item\n" + b"a,b\n" * (20 << 20), 1, mtime=0)


def _change_cells(rng: Random, content: bytes) -> bytes:
    """Other fields, more of them, fewer, or rows in another order."""
    text = content.decode()
    separator = next(mark for mark in ("::", "\t", ",") if mark in text)
    rows = [line.split(separator) for line in text.split("\n")]
    for _ in range(rng.choice((1, 1, 2, 5))):
        row = rng.choice(rows)
        at, draw = rng.randrange(len(row)), rng.randrange(8)
        cell = rng.choice((rng.choice(TEXTS), rng.choice(NUMBERS), "=cmd()", '"unclosed', rng.choice(rng.choice(rows))))
        if draw < 5:  # another cell, one more, or the end of the row
            row[at : at + rng.choice((1, 1, 0, len(row)))] = [str(cell)]
        elif draw < 7:
            rows.insert(rng.randrange(len(rows)), list(rng.choice(rows)))
        else:
            rng.shuffle(rows)
    return "\n".join(separator.join(row) for row in rows).encode("utf-8", "surrogatepass")


def _change_json(rng: Random, content: bytes) -> bytes:
    rows = [json.loads(line) for line in content.splitlines()]
    at = rng.randrange(len(rows))
    rows[at] = rng.choice((mutate_json(rng, rows[at], rng.choice(rows)), mutate_json(rng, rows[at]), junk(rng)))
    lines = [json_bytes(rng, row) for row in rows]
    if rng.random() < 0.1:
        lines.insert(at, rng.choice((b"", b"[" * 100_000, b'{"user": ' * 5000, b"{}", b"\xff", b"NaN", b"1" * 5000)))
    return rng.choice((b"\n", b"\n", b"\r\n", b"")).join(lines)


def _change_columns(rng: Random, content: bytes) -> bytes:
    """The table as another program might write it; the columns may hold anything."""
    frame = pl.read_parquet(io.BytesIO(content))
    name = rng.choice(frame.columns)
    values: list[Any] = frame[name].to_list()
    draw = rng.randrange(7)
    if draw < 2:
        values = [str(value) for value in values]
        values[rng.randrange(len(values))] = rng.choice((*TEXTS, None))
    elif draw == 2:
        values = [float(at) for at in range(len(values))]
        values[rng.randrange(len(values))] = rng.choice([n for n in NUMBERS if isinstance(n, float)])
    elif draw == 3:
        values = rng.choice(([None] * len(values), [[value] for value in values], [{"a": value} for value in values]))
    elif draw == 4:
        values = rng.choice(([True] * len(values), [b"\xff"] * len(values), list(range(len(values)))))
    changed = frame.with_columns(pl.Series(name, values, strict=False))
    if draw == 5:
        changed = rng.choice((frame.head(0), frame.drop(name), frame.rename({name: rng.choice(TEXTS)[:50]})))
    return _parquet(changed, compression=rng.choice(("uncompressed", "zstd", "snappy")))


def judge_ratings(folder: Path, seed: Seed, files: Files) -> None:
    """Read the file, half of the time with a threshold, which needs a rating column."""
    ((name, content),) = files.items()
    reading = read(folder / name, threshold=3.0 if len(content) % 2 and seed.name != _NO_RATINGS else None)
    ratings = reading.ratings
    require(len(ratings) > 0 or ratings.threshold is not None, "ratings without any")
    require(ratings.matrix.shape == (len(ratings.users), len(ratings.items)), "a matrix of another shape")
    require(np.isfinite(ratings.matrix.data).all(), "ratings that are not finite")
    require(reading.rating_range is None or np.isfinite(reading.rating_range).all(), "a range that is not finite")
    require(reading.rows >= len(ratings), "more ratings than rows")
    require(reading.summary(), "no summary")
    require_ids("user", ratings.users)
    require_ids("item", ratings.items)


KINDS = {
    "ledgers": Kind(make_ledgers, mutate_ledger, judge_ledger),
    "alignments": Kind(make_messages, mutate_message, judge_message),
    "ratings": Kind(make_ratings, mutate_ratings, judge_ratings),
}
