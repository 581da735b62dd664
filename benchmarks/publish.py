"""Stage one side by side: the command against its floor, the SVD form and learnt strategies against jlt, growth.

Every ratio compares two things measured in the same run on the same machine; seconds alone mean little elsewhere.
Run with ``make bench`` (about five minutes), or ``python -m benchmarks.publish --quick``.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import scipy.sparse as sp

from pricdr import Guarantee, Ratings, Release, publish
from pricdr._publish import dry_run
from pricdr.data.synthetic import SyntheticConfig, synthetic_pair
from pricdr.data.tables import write_ratings
from pricdr.errors import PublishWarning
from pricdr.strategies import JLT, SJLT, Guided, Spectral
from tests.attacks.algorithm_one import svd_form

PROMISE = Guarantee(epsilon=4, delta=1e-6)
BARS = {"guided": 2.0, "spectral": 4.0}
"""The most time a strategy may take, in times of jlt at k = 200 on the same ratings."""
MAX_MIB = 2048
"""The most memory that the command may take for ten million ratings."""


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the 10-million-rating releases")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore", PublishWarning)  # of releases that nobody gets
    with tempfile.TemporaryDirectory() as folder:
        the_papers_largest(Path(folder))
        against_the_svd_form()
        growth()
        learnt_against_jlt()
        learnt_growth()
        against_the_estimate()
        if not quick:
            ten_million(Path(folder))


def the_papers_largest(folder: Path) -> None:
    """29,476 users x 24,091 items, 591,258 ratings, k = 400: the command against drawing and multiplying alone."""
    users, items, count, dim = 29_476, 24_091, 591_258, 400
    ratings = random_ratings(users, items, count)
    write_ratings(folder / "ratings.parquet", ratings.positives())
    (folder / "users.txt").write_text("".join(f"{user}\n" for user in ratings.users))
    (folder / "items.txt").write_text("".join(f"{item}\n" for item in ratings.items))
    floor = best_of(5, lambda: draw_and_multiply(ratings, dim))
    print(f"\n{users:,} users x {items:,} items, {len(ratings):,} ratings, k = {dim}")
    print(f"{'':28}{'seconds':>9}{'x floor':>9}{'peak MiB':>10}")
    print(f"{'floor: draw E, N; one A @ E':28}{floor:9.2f}{1.0:9.1f}{'':>10}")
    for strategy in ("jlt", "sjlt"):
        out = folder / f"{strategy}.release"
        command = ["publish", folder / "ratings.parquet", "--users", folder / "users.txt", "--items"]
        command += [folder / "items.txt", "--epsilon", 4, "--delta", 1e-6, "--dim", dim]
        seconds, peak = 1e9, 0.0
        for _ in range(5):
            shutil.rmtree(out, ignore_errors=True)
            once, memory = run_command([*command, "--strategy", strategy, "--out", out])
            seconds, peak = min(seconds, once), max(peak, memory)
        print(f"{'pricdr publish ' + strategy:28}{seconds:9.2f}{seconds / floor:9.1f}{peak:10,.0f}")


def draw_and_multiply(ratings: Ratings, dim: int) -> None:
    """The least any implementation must do, with numpy's float32 normals and scipy's product."""
    rng = np.random.default_rng(0)
    left = ratings.matrix.astype(np.float32)
    rows = rng.standard_normal((len(ratings.items), dim), dtype=np.float32)
    noise = rng.standard_normal((len(ratings.users), dim), dtype=np.float32)
    noise += left @ rows


def against_the_svd_form() -> None:
    """Algorithm 1 as printed (dense SVD, padded so that it is right) and ours, both in memory."""
    print("\nagainst the SVD form of Algorithm 1, k = 200, 20 ratings a user, in memory")
    print(f"{'users x items':>16}{'SVD s':>9}{'ours s':>9}{'SVD / ours':>12}{'SVD grows':>11}{'ours grows':>12}")
    before: tuple[float, float] | None = None
    for users, items in ((1_000, 1_250), (2_000, 2_500), (4_000, 5_000)):
        ratings = random_ratings(users, items, 20 * users)
        dense = ratings.matrix.toarray()
        rng = np.random.default_rng(0)
        theirs = best_of(1, partial(svd_form, dense, w=10.0, dim=200, rng=rng))
        ours = best_of(5, partial(publish, ratings, PROMISE, strategy=JLT(dim=200), users=ratings.users))
        growth = "".join(f"{now / then:10.1f}x" for now, then in zip((theirs, ours), before or (), strict=False))
        print(f"{users:>8,} x {items:>5,}{theirs:9.2f}{ours:9.3f}{theirs / ours:11.0f}x{growth}")
        before = (theirs, ours)


def growth() -> None:
    """Seconds when users, ratings or both double: linear means 2x."""
    print("\ngrowth of publish in memory, k = 64 (linear: 2.0x for each doubling)")
    print(f"{'users':>10}{'ratings':>12}{'jlt s':>9}{'':>8}{'sjlt s':>9}")
    before: list[float] = []
    for doubling in range(4):
        users, count = 50_000 << doubling, 500_000 << doubling
        ratings = random_ratings(users, 20_000, count)
        now = [
            best_of(3, partial(publish, ratings, PROMISE, strategy=s, users=ratings.users))
            for s in (JLT(dim=64), SJLT(dim=64))
        ]
        steps = [f"{a / b:6.2f}x " for a, b in zip(now, before, strict=False)] or [" " * 8] * 2
        print(f"{users:>10,}{len(ratings):>12,}{now[0]:9.3f}{steps[0]:>8}{now[1]:9.3f}{steps[1]:>8}")
        before = now


def learnt_against_jlt() -> None:
    """The strategies that learn against the paper's, on the same ratings in memory, in turns."""
    users, items, count = 100_000, 20_000, 2_000_000
    ratings = random_ratings(users, items, count)
    strategies = {"jlt": JLT(dim=200), **learnt(guide_over(ratings))}
    seconds = side_by_side(5, ratings, strategies)
    print(f"\nlearnt against jlt at k = 200, in memory: {users:,} users, {items:,} items, {count:,} ratings")
    print(f"{'':20}{'seconds':>9}{'x jlt':>9}{'bar':>8}")
    for name, strategy in strategies.items():
        ratio, label = seconds[name] / seconds["jlt"], f"{name}, k = {columns(strategy)}"
        print(f"{label:20}{seconds[name]:9.2f}{ratio:8.2f}x{verdict(ratio, BARS.get(name))}")


def learnt_growth() -> None:
    """Seconds when users and ratings double together: linear means 2x."""
    print("\ngrowth of the learnt strategies in memory (linear: 2.0x for each doubling)")
    print(f"{'users':>10}{'ratings':>12}{'spectral s':>12}{'':>8}{'guided s':>12}")
    before: list[float] = []
    for doubling in range(3):
        users, count = 100_000 << doubling, 1_000_000 << doubling
        ratings = random_ratings(users, 20_000, count)
        now = list(side_by_side(3, ratings, learnt(guide_over(ratings))).values())
        steps = [f"{a / b:6.2f}x " for a, b in zip(now, before, strict=False)] or [" " * 8] * 2
        print(f"{users:>10,}{len(ratings):>12,}{now[0]:12.3f}{steps[0]:>8}{now[1]:12.3f}{steps[1]:>8}")
        before = now


def against_the_estimate() -> None:
    """What ``publish --dry-run`` foretells against what it takes."""
    print("\nwhat a dry run foretells, in memory: seconds of this process, all cores together")
    print(f"{'users':>10}{'ratings':>12}  {'':12}{'foretold':>9}{'taken':>9}{'ratio':>8}")
    for users, items, count in ((20_000, 10_000, 200_000), (20_000, 40_000, 200_000), (100_000, 10_000, 1_000_000)):
        ratings = random_ratings(users, items, count)
        for strategy in (JLT(dim=200), SJLT(dim=200), Spectral(dim=8), Spectral(dim=32)):
            foretold = dry_run(ratings, PROMISE, strategy=strategy, users=ratings.users).work.processor_seconds
            start = time.process_time()
            publish(ratings, PROMISE, strategy=strategy, users=ratings.users)
            taken = time.process_time() - start
            label = f"{strategy.name} {strategy.dim}"
            print(f"{users:>10,}{count:>12,}  {label:12}{foretold:9.2f}{taken:9.2f}{foretold / taken:7.1f}x")


def learnt(guide: Release) -> dict[str, Spectral | Guided]:
    """The strategies that learn, as they are by default."""
    return {"spectral": Spectral(), "guided": Guided(guide=guide)}


def guide_over(ratings: Ratings) -> Release:
    """A release of another party over the same users."""
    others = random_ratings(len(ratings.users), 2_000, 2 * len(ratings.users))
    return publish(others, PROMISE, strategy=JLT(dim=8), users=ratings.users)


def columns(strategy: JLT | Spectral | Guided) -> int:
    """How many numbers per user a strategy publishes under the promise."""
    return strategy.dim or Spectral().resolved(PROMISE, ()).dim or 0


def verdict(found: float, bar: float | None) -> str:
    """A bar, and whether it was kept; nothing where there is none."""
    return "" if bar is None else f"{bar:8,g}  {'kept' if found <= bar else 'MISSED'}"


def ten_million(folder: Path) -> None:
    """10 million ratings of a million users, the whole command: its memory has a bar, the learnt ones' guide too."""
    config = SyntheticConfig(
        users=1_000_000,
        source_items=50_000,
        target_items=1_000,
        source_ratings_per_user=10,
        target_ratings_per_user=1,
    )
    pair = synthetic_pair(config)
    ratings = pair.source
    write_ratings(folder / "many.parquet", ratings)
    # An agreed list is never the source's own order, so the command holds the ratings twice, as it would for anybody.
    (folder / "many.txt").write_text("".join(f"{user}\n" for user in reversed(ratings.users)))
    publish(pair.target, PROMISE, strategy=JLT(dim=8), users=ratings.users).save(folder / "guide.release")
    print(f"\n{len(ratings):,} ratings, {len(ratings.users):,} users, the whole command")
    print(f"{'':20}{'seconds':>9}{'x jlt':>9}{'peak MiB':>10}{'bar':>8}")
    del ratings, pair
    command = ["publish", folder / "many.parquet", "--users", folder / "many.txt", "--epsilon", 4, "--delta", 1e-6]
    kinds: dict[str, list[object]] = {
        "jlt, k = 64": ["--strategy", "jlt", "--dim", 64],
        "spectral, k = 8": ["--strategy", "spectral"],
        "guided, k = 8": ["--strategy", "guided", "--guide", folder / "guide.release"],
    }
    first: float | None = None
    for name, options in kinds.items():
        seconds, peak = run_command([*command, *options, "--out", folder / f"{name}.release"])
        first = first or seconds
        print(f"{name:20}{seconds:9.1f}{seconds / first:8.2f}x{peak:10,.0f}{verdict(peak, MAX_MIB)}")
        shutil.rmtree(folder / f"{name}.release")


def random_ratings(users: int, items: int, count: int) -> Ratings:
    """Ratings without structure: only sizes matter here."""
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, users * items, int(count * 1.01)))
    cells = np.sort(rng.permutation(cells)[:count])
    matrix = sp.csr_array((np.ones(len(cells)), (cells // items, cells % items)), shape=(users, items))
    return Ratings(matrix, tuple(f"u{i:07d}" for i in range(users)), tuple(f"i{i:07d}" for i in range(items)))


def best_of(times: int, work: Callable[[], object]) -> float:
    """The shortest of several timings: the others measured something else as well."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def side_by_side(times: int, ratings: Ratings, strategies: Mapping[str, JLT | Spectral | Guided]) -> dict[str, float]:
    """The shortest time of each strategy, taken in turns: what else the machine does meets all of them."""
    found = dict.fromkeys(strategies, float("inf"))
    for _ in range(times):
        for name, strategy in strategies.items():
            once = best_of(1, partial(publish, ratings, PROMISE, strategy=strategy, users=ratings.users))
            found[name] = min(found[name], once)
    return found


def resident(process: psutil.Process) -> float:
    """MiB that a process holds, or the most it ever held where the system keeps count of that."""
    status = Path(f"/proc/{process.pid}/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    return float(process.memory_info().rss) / 2**20


def run_command(arguments: list[object]) -> tuple[float, float]:
    """Seconds and peak resident MiB of one command, process start included."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "pricdr", *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    peak = 0.0

    def watch() -> None:
        nonlocal peak
        seen = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                peak = max(peak, resident(seen))
            except (psutil.NoSuchProcess, OSError):
                return
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    seconds = time.perf_counter() - start
    watcher.join()
    if code:
        raise SystemExit(f"pricdr {' '.join(map(str, arguments))} ended with {code}")
    return seconds, peak


if __name__ == "__main__":
    main()
