"""What must not change when the code does: figures computed through the command line and the public names alone.

``python -m tests.golden`` writes them anew. A change of ``golden.json`` changes what users get: it needs a reason.
"""

import contextlib
import gzip
import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pricdr
from pricdr import cli
from tests.settings import config

Figures = dict[str, Any]

USERS = [f"u{n:03d}" for n in range(70)]
ITEMS = [f"i{n:03d}" for n in range(45)]
_BASIS = ["--epsilon", "4", "--delta", "1e-6", "--users", "users.txt", "--insecure-seed", "7"]
_STRATEGIES = {
    "jlt": ["--dim", "16"],
    "sjlt": ["--dim", "16", "--items", "items.txt"],
    "spectral": ["--dim", "4", "--items", "items.txt"],
    "guided": ["--dim", "4", "--guide", "guide", *config(allow_not_private_guide=True)],
    "guided, refined": ["--dim", "4", "--guide", "guide", *config(allow_not_private_guide=True, refine=True)],
    "features": ["--items", "items.txt", *config(item_features="features.csv")],
}
_INPUTS = {
    "counts": [],
    "positives": ["--threshold", "3"],
    "values": ["--values", "--rating-bound", "5", "--rating-step", "0.5"],
}
_UNITS = {"rating": [], "user": ["--unit", "user", "--clip", "3"]}


def run(*arguments: object) -> tuple[int, str, str]:
    """Run a command in this process: exit code, standard output, standard error."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = cli.run([str(argument) for argument in arguments])
    return code, out.getvalue(), error.getvalue()


def _draw(*parts: object, below: int) -> int:
    """Return a number that depends on ``parts`` alone, whatever generators do."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") % below


def ratings_csv(salt: str, users: int = 60, items: int = 40) -> str:
    """Return ratings in tastes, with repeated pairs, half stars and times."""
    lines = ["user,item,rating,time"]
    for user in range(users):
        for n in range(4 + _draw(salt, user, below=9)):
            item = (user % 5 + 5 * _draw(salt, user, n, below=items)) % items
            stars = (2 + _draw(salt, user, n, "stars", below=9)) / 2
            lines.append(f"u{user:03d},i{item:03d},{stars:g},{_draw(salt, user, n, 'time', below=1000)}")
    return "\n".join(lines) + "\n"


def lay_out(folder: Path) -> None:
    """Write the inputs that the scenarios share."""
    (folder / "source.csv").write_text(ratings_csv("source"))
    (folder / "target.csv").write_text(ratings_csv("target", users=70, items=600))
    (folder / "users.txt").write_text("\n".join(USERS[5:]) + "\n")
    (folder / "items.txt").write_text("\n".join(ITEMS) + "\n")
    rows = [",".join([item, *(str(_draw(item, n, below=100) / 50 - 1) for n in range(5))]) for item in ITEMS]
    (folder / "features.csv").write_text("\n".join(["item,a,b,c,d,e", *rows]) + "\n")
    done = run("publish", "target.csv", *_BASIS, *_STRATEGIES["jlt"], "--out", "guide")
    assert done[0] == 0, done


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[Path]:
    """Work in a folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)


def matrix_of(folder: str) -> str:
    """Return a hash of the rows of a release and of whose they are."""
    release = pricdr.Release.load(folder, allow_unverified=True)
    digest = hashlib.sha256(release.matrix.astype("<f4").tobytes())
    digest.update("\n".join(release.users).encode())
    return digest.hexdigest()[:32]


def releases(inputs: Collection[str] = tuple(_INPUTS)) -> Figures:
    """Publish with every strategy, unit and kind of value: a hash of the rows, and the certificate's figures."""
    figures = {}
    for strategy, own in _STRATEGIES.items():
        for unit, unit_options in _UNITS.items():
            for values in inputs:
                value_options = _INPUTS[values]
                command = ["publish", "source.csv", *_BASIS, "--strategy", strategy.split()[0].strip(","), *own]
                code, _, error = run(*command, *unit_options, *value_options, "--out", "release")
                key = f"{strategy} / {unit} / {values}"
                if code:
                    figures[key] = {"exit": code}
                    assert "error" in error, (key, error)
                    continue
                figures[key] = _figures_of("release")
                shutil.rmtree("release")
    return figures


def _figures_of(folder: str) -> Figures:
    """Return a hash of the rows of a release, and the certificate's figures."""
    certificate = json.loads(Path(folder, "certificate.json").read_text())
    names = ("epsilon", "delta", "unit", "sigma", "sensitivity", "mu", "grid", "users", "dim", "private")
    return {"rows": matrix_of(folder)} | {name: certificate[name] for name in names}


def series() -> Figures:
    """Publish two weeks that go on from a first one, with every unit and kind of value."""
    figures = {}
    for unit, unit_options in _UNITS.items():
        for values, value_options in _INPUTS.items():
            begin = ["publish", "source.csv", *_BASIS, "--dim", "3", *unit_options, *value_options, "--out", "weeks/1"]
            assert run(*begin)[0] == 0
            for week in ("2", "3"):
                further = ["--insecure-seed", week, "--continues", "weeks", "--out", f"weeks/{week}"]
                done = run("publish", "source.csv", *_BASIS, *further)
                assert done[0] == 0, done
                figures[f"week {week} / {unit} / {values}"] = _figures_of(f"weeks/{week}")
            shutil.rmtree("weeks")
    return figures


def ledgers() -> Figures:
    """Spend a budget until it refuses."""
    figures: Figures = {}
    plain = ["publish", "source.csv", "--delta", "1e-6", "--users", "users.txt", "--strategy", "jlt", "--dim", "8"]
    figures["init"] = run("ledger", "init", "budget", "--epsilon", "4", "--delta", "1e-6", "--unit", "rating")[0]
    figures["init again"] = run("ledger", "init", "budget", "--epsilon", "4", "--delta", "1e-6")[0]
    for name, more in {
        "first": ["--epsilon", "2"],
        "dry run": ["--epsilon", "2", "--dry-run"],
        "another unit": ["--epsilon", "1", "--unit", "user", "--clip", "3"],
        "second": ["--epsilon", "3"],
        "too much": ["--epsilon", "2"],
    }.items():
        lines = Path("budget").read_bytes().count(b"\n")
        code = run(*plain, *more, "--ledger", "budget", "--out", name.replace(" ", "-"))[0]
        spent = Path("budget").read_bytes().count(b"\n") - lines
        figures[name] = {"exit": code, "lines": spent, "release": Path(name.replace(" ", "-")).exists()}
    shown = json.loads(run("ledger", "show", "budget", "--json", "-")[1])
    figures["show"] = {key: value for key, value in _numbers(shown).items() if "time" not in key}
    plan = json.loads(run("ledger", "plan", "budget", "--releases", "5", "--json", "-")[1])
    figures["plan"] = _numbers(plan)
    figures["verify"] = run("ledger", "verify", "budget", "first")[0]
    return figures


def _numbers(data: Any, path: str = "") -> Figures:
    """Return every number and every truth of a JSON document, by its path."""
    if isinstance(data, dict):
        return {k: v for key, value in data.items() for k, v in _numbers(value, f"{path}.{key}".lstrip(".")).items()}
    if isinstance(data, list):
        return {k: v for n, value in enumerate(data) for k, v in _numbers(value, f"{path}[{n}]").items()}
    return {path: data} if isinstance(data, bool | int | float) else {}


def commands() -> Figures:
    """Walk through the commands of both parties: exit codes, and the figures they print."""
    figures: Figures = {}

    def step(name: str, *arguments: object) -> str:
        code, out, error = run(*arguments)
        figures[name] = {"exit": code} if not code else {"exit": code, "error": _wording(error)}
        return out

    step("keygen", "keygen", "--out", "key")
    step("publish", "publish", "source.csv", *_BASIS, *_STRATEGIES["jlt"], "--strategy", "jlt", "--out", "seeded")
    step(
        "publish, signed", "publish", "source.csv", "--epsilon", "4", "--delta", "1e-6", "--users", "users.txt",
        *_STRATEGIES["spectral"], "--strategy", "spectral", "--sign", "key", "--out", "signed",
    )  # fmt: skip
    step("publish over a folder", "publish", "source.csv", *_BASIS, "--out", "signed")
    step("publish nothing", "publish", "absent.csv", *_BASIS, "--out", "other")
    step("publish without epsilon", "publish", "source.csv", "--delta", "1e-6", "--out", "other")
    step("verify", "verify", "signed", "--public-key", "key.pub")
    step("verify, not private", "verify", "seeded")
    step("verify nothing", "verify", "absent")
    shutil.copytree("signed", "tampered")
    certificate = Path("tampered/certificate.json")
    certificate.write_text(certificate.read_text().replace('"epsilon": 4', '"epsilon": 3', 1))
    step("verify, tampered", "verify", "tampered")
    shown = json.loads(step("inspect", "inspect", "signed", "--json", "-"))
    figures["inspect"]["keys"] = sorted(shown)
    step(
        "audit", "audit", "--strategy", "jlt", "--epsilon", "2", "--delta", "1e-5", "--dim", "4", "--draws", "2000",
        "--canaries", "2000", "--json", "audit.json",
    )  # fmt: skip
    figures["audit"]["keys"] = sorted(json.loads(Path("audit.json").read_text()))
    step("split", "split", "target.csv", "--out", "split", "--seed", "3", "--cold", "0.2", "--threshold", "3")
    for method in ("popularity", "itemknn", "ease"):
        step(f"train {method}", "train", "split", "--method", method, "--out", method)
    step("train dmf", "train", "split", "--method", "dmf", "--epochs", "2", "--out", "dmf")
    step("train, not private", "train", "split", "--release", "seeded", "--epochs", "2", "--out", "refused")
    step(
        "train hetero", "train", "split", "--release", "seeded", "--allow-not-private", "--epochs", "2",
        "--out", "hetero",
    )  # fmt: skip
    measured = json.loads(step("evaluate", "evaluate", "popularity", "itemknn", "ease", "split", "--json", "-"))
    figures["evaluate"]["figures"] = _numbers(
        {
            name: {ranking: model[ranking] for ranking in ("sampled", "full")}
            for name, model in measured["models"].items()
        }
    )
    step("evaluate on nothing", "evaluate", "absent", "split")
    step("recommend", "recommend", "itemknn", "--out", "top.csv", "-k", "3")
    figures["recommend"]["top"] = hashlib.sha256(Path("top.csv").read_bytes()).hexdigest()[:32]
    step("recommend over a file", "recommend", "itemknn", "--out", "top.csv", "-k", "3")
    step("prepare", "prepare", "source.csv", "target.csv", "--out", "pair", "--core", "2")
    figures["prepare"]["users"] = len(pricdr.read_ids("pair/users.txt"))
    figures["prepare"]["ratings"] = entries_of(pricdr.read_ratings("pair/source.parquet"))
    step("model card", "model", "card", "hetero")
    step("demo over a folder", "demo", "--out", "split")
    return figures


def _wording(error: str) -> str:
    """Return the last line of an error without what differs from run to run."""
    return re.sub(r"/\S+/", "", error.strip().splitlines()[-1])


def entries_of(ratings: pricdr.Ratings) -> str:
    """Return a hash of who rated what, and how."""
    matrix = ratings.matrix.tocoo()
    entries = sorted(
        f"{ratings.users[r]}\t{ratings.items[c]}\t{v!r}"
        for r, c, v in zip(matrix.row.tolist(), matrix.col.tolist(), matrix.data.tolist(), strict=True)
    )
    return f"{len(entries)} {hashlib.sha256(chr(10).join(entries).encode()).hexdigest()[:16]}"


_GOOD = "user,item,rating,time\na,x,5,10\na,y,2,11\nb,x,3,12\na,x,1,9\n"
CORPUS: dict[str, bytes] = {
    "plain.csv": _GOOD.encode(),
    "bom.csv": b"\xef\xbb\xbf" + _GOOD.encode(),
    "crlf.csv": _GOOD.replace("\n", "\r\n").encode(),
    "no-last-line-end.csv": _GOOD.rstrip().encode(),
    "gzipped.csv.gz": gzip.compress(_GOOD.encode(), mtime=0),
    "truncated.csv.gz": gzip.compress(_GOOD.encode() * 50, mtime=0)[:-20],
    "tabs.tsv": _GOOD.replace(",", "\t").encode(),
    "recbole.inter": b"user_id:token\titem_id:token\trating:float\ttimestamp:float\na\tx\t5\t1\nb\ty\t4\t2\n",
    "movielens.dat": b"1::10::5::978300760\n1::11::3::978300761\n2::10::1::978300762\n",
    "lines.jsonl": b'{"user": "a", "item": "x", "rating": 5}\n{"user": "b", "item": "y", "rating": 2}\n',
    "both-kinds-of-ids.jsonl": b'{"user": "a", "item": "x", "rating": 5}\n{"user": 7, "item": "y", "rating": 2}\n',
    "leading-zeros.csv": b"user,item\n007,010\n7,10\n",
    "quoted.csv": b'user,item,title\na,"x,1","say ""hi"""\nb,y,plain\n',
    "spaces-in-ids.csv": b"user,item\n a,x \na,x\n",
    "unicode.csv": "user,item\né,𐍈\nß,x\n".encode(),
    "no-rating.csv": b"user,item\na,x\nb,y\na,x\n",
    "merged-by-largest.csv": b"user,item,rating\na,x,2\na,x,5\na,x,3\n",
    "blank-lines.csv": b"user,item,rating\na,x,5\n\nb,y,4\n",
    "more-columns.csv": b"id,user,item,note,rating\n1,a,x,n,5\n2,b,y,,4\n",
    "header-only.csv": b"user,item,rating\n",
    "empty.csv": b"",
    "no-user.csv": b"person,item,rating\na,x,5\n",
    "short-row.csv": b"user,item,rating\na,x,5\nb,y\nc,z,1\n",
    "long-row.csv": b"user,item,rating\na,x,5\nb,y,4,9\nc,z,1\n",
    "empty-id.csv": b"user,item,rating\na,x,5\n,y,4\n",
    "text-rating.csv": b"user,item,rating\na,x,5\nb,y,good\n",
    "nan-rating.csv": b"user,item,rating\na,x,5\nb,y,nan\n",
    "infinite-rating.csv": b"user,item,rating\na,x,5\nb,y,1e999\n",
    "empty-rating.csv": b"user,item,rating\na,x,5\nb,y,\n",
    "control-in-id.csv": b"user,item,rating\na,x,5\nb\x01,y,4\n",
    "not-utf8.csv": b"user,item,rating\na,x,5\nb\xff,y,4\n",
    "open-quote.csv": b'user,item,rating\na,x,5\nb,"y,4\nc,z,1\n',
    "bad-json.jsonl": b'{"user": "a", "item": "x", "rating": 5}\n{"user": "b", "item":\n',
    "no-object.jsonl": b'{"user": "a", "item": "x", "rating": 5}\n[1, 2]\n',
    "json-null-id.jsonl": b'{"user": "a", "item": "x", "rating": 5}\n{"user": null, "item": "y", "rating": 2}\n',
    "json-float-id.jsonl": b'{"user": "a", "item": "x", "rating": 5}\n{"user": 1.5, "item": "y", "rating": 2}\n',
    "json-object-id.jsonl": b'{"user": "a", "item": "x", "rating": 5}\n{"user": {"id": 1}, "item": "y", "rating": 2}\n',
    "not-parquet.parquet": b"PAR1 this is not a table PAR1",
    "spreadsheet.xlsx": b"PK\x03\x04",
}
"""Files of ratings, good and bad; ``recorded`` says what becomes of each."""


def corpus(read: Callable[..., pricdr.Ratings] = pricdr.read_ratings) -> Figures:
    """Read every file, strictly and with bad rows skipped: the entries, or the line that is named."""
    figures: Figures = {}
    for name, content in CORPUS.items():
        Path(name).write_bytes(content)
        for how, options in {"strict": {}, "skipping": {"skip_bad_rows": True, "most_bad_rows": 0.9}}.items():
            try:
                figures[f"{name}, {how}"] = entries_of(read(name, **options))
            except pricdr.PriCDRError as error:
                text = str(error)
                assert "\n" not in text, name
                place = re.search(r"(?:line|row) \d+", text)
                figures[f"{name}, {how}"] = f"refused{', ' + place.group() if place else ''}"
                assert name in text, f"{name} is not named: {text}"
    return figures


def everything(folder: Path) -> Figures:
    """Compute all figures in an empty folder."""
    with inside(folder):
        lay_out(folder)
        return {
            "releases": releases(),
            "series": series(),
            "ledger": ledgers(),
            "commands": commands(),
            "ratings files": corpus(),
        }
