"""What ``publish`` accepts and says on screen, and what its options do to the release folder."""

import gzip
import json

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

import pricdr as library
from pricdr.privacy.accounting import epsilon_for, paper_sigma
from tests.settings import config

STRANGE = [
    "007",
    "7",
    "0",
    'com,ma "quoted"',
    "'; drop",
    "böb",
    "🙂",
    "e\u0301",
    "\u00e9",
    " spaced ",
    "=1+1",
]


def rows_of(folder) -> tuple[list[str], np.ndarray]:
    users = (folder / "users.txt").read_text(encoding="utf-8").split("\n")
    return users[:-1], load_file(folder / "release.safetensors")["matrix"]


def certificate_of(folder) -> dict:
    return json.loads((folder / "certificate.json").read_text())


def test_a_release_folder_is_complete_and_verifies(here, ratings, publish, pricdr):
    outcome = publish(ratings)
    assert outcome.code == 0
    assert "published Release(3 users x 8, spectral, epsilon=4, delta=1e-06 per rating)" in outcome.out
    assert "pricdr verify release" in outcome.out
    files = ["README.md", "certificate.json", "release.safetensors", "users.txt"]
    assert sorted(p.name for p in (here / "release").iterdir()) == files
    assert sorted(p.name for p in here.iterdir()) == ["ratings.csv", "release"]
    assert pricdr("verify", "release").code == 0


def test_the_defaults_are_the_designs(here, ratings, pricdr):
    assert pricdr("publish", ratings, "--epsilon", 4, "--delta", 1e-6, "--out", "release").code == 0
    certificate = certificate_of(here / "release")
    assert (certificate["strategy"]["name"], certificate["dim"], certificate["unit"]) == ("spectral", 8, "rating")
    assert (certificate["calibration"], certificate["private"]) == ("exact", True)
    assert "learn_from_all" not in certificate["strategy"]["parameters"]
    assert pricdr("publish", ratings, "--epsilon", 3.9, "--delta", 1e-6, "--out", "few").code == 0
    assert certificate_of(here / "few")["dim"] == 4
    for strategy, parameters in (("jlt", {}), ("sjlt", {"density": 0.5})):
        fixed = ("--epsilon", 4, "--delta", 1e-6, "--out", strategy, "--strategy", strategy)
        assert pricdr("publish", ratings, *fixed).code == 0
        certificate = certificate_of(here / strategy)
        assert (certificate["dim"], certificate["strategy"]["parameters"]) == (200, parameters)


def test_duplicate_rows_are_counted_and_the_largest_value_counts(here, publish):
    (here / "r.csv").write_text("user,item,rating\na,x,2\na,x,5\nb,x,1\na,x,3\n")
    bound = ("--values", "--rating-bound", 5, "--rating-step", 1, *config(insecure_no_noise=True), "--insecure-seed", 1)
    outcome = publish("r.csv", *bound, "--strategy", "jlt")
    assert outcome.code == 0
    assert "duplicates: 2 rows repeat a (user, item) pair; the largest value counts" in outcome.out
    _, rows = rows_of(here / "release")
    assert np.linalg.norm(rows, axis=1) == pytest.approx([5, 1], rel=1e-3)


def test_duplicates_without_ratings_count_once(here, publish):
    (here / "r.csv").write_text("user,item\na,x\na,x\nb,x\n")
    outcome = publish("r.csv", *config(insecure_no_noise=True), "--insecure-seed", 1, "--strategy", "jlt")
    assert "duplicates: 1 rows" in outcome.out
    assert "each row counts as 1" in outcome.out
    assert np.linalg.norm(rows_of(here / "release")[1], axis=1) == pytest.approx([1, 1], rel=1e-3)


def test_strange_ids_are_kept_as_text_byte_for_byte(here, publish):
    quoted = ['"' + name.replace('"', '""') + '"' for name in STRANGE]
    (here / "r.csv").write_text("user,item\n" + "".join(f"{name},{name}\n" for name in quoted))
    (here / "users.txt").write_text("".join(f"{name}\n" for name in STRANGE))
    outcome = publish("r.csv", "--users", "users.txt")
    assert outcome.code == 0
    assert f"listed users: {len(STRANGE)}, of them 0 without ratings" in outcome.out
    assert rows_of(here / "release")[0] == STRANGE


def test_listed_users_without_ratings_get_a_row_of_noise(here, ratings, publish):
    (here / "users.txt").write_text("zoe\ncarol\nalice\nyan\n")
    outcome = publish(ratings, "--users", "users.txt", *config(insecure_no_noise=True))
    assert "listed users: 4, of them 2 without ratings; 1 users of the ratings are not listed" in outcome.out
    users, rows = rows_of(here / "release")
    assert users == ["zoe", "carol", "alice", "yan"]
    assert (np.abs(rows).max(axis=1) > 0).tolist() == [False, True, True, False]
    assert publish(ratings, "--users", "users.txt", out="noisy").code == 0
    assert np.abs(rows_of(here / "noisy")[1]).max(axis=1).min() > 0


def test_nothing_about_who_is_unrated_or_left_out_enters_the_folder(here, ratings, publish):
    (here / "users.txt").write_text("zoe\ncarol\nalice\nyan\n")
    publish(ratings, "--users", "users.txt")
    (here / "all.txt").write_text("alice\nbob\ncarol\nzoe\n")
    publish(ratings, "--users", "all.txt", out="other")
    first, second = certificate_of(here / "release"), certificate_of(here / "other")
    for certificate in (first, second):
        for drawn_or_listed in ("release.safetensors", "users.txt"):
            del certificate["files"][drawn_or_listed]
        del certificate["digest"]
    assert first == second


def test_without_a_user_list_a_warning_says_so(here, ratings, publish):
    outcome = publish(ratings)
    assert "warning: no user list" in outcome.err
    assert certificate_of(here / "release")["input"]["user_list"] == "read off the ratings"


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        (1e-5, ["delta = 1e-05 is large"]),
        (0.4, ["delta = 0.4 is large", "delta = 0.4 is at least 1/3, one over the number of listed users"]),
        (9e-6, []),
    ],
)
def test_a_large_delta_is_accepted_with_a_loud_warning(here, ratings, publish, pricdr, delta, expected):
    outcome = publish(ratings, "--delta", delta)
    assert outcome.code == 0
    warnings = certificate_of(here / "release")["warnings"]
    assert len(warnings) == len(expected)
    for stated, start in zip(warnings, expected, strict=True):
        assert stated.startswith(start)
        assert f"warning: {stated}\n" in outcome.err
        assert start in " ".join(pricdr("inspect", "release").out.split())


def test_one_over_the_listed_users_is_what_counts(here, publish):
    (here / "r.csv").write_text("user,item\na,x\n")
    (here / "users.txt").write_text("".join(f"{name}\n" for name in ["a", *range(200_000)]))
    outcome = publish("r.csv", "--users", "users.txt", "--delta", 6e-6, "--dim", 1)
    assert "at least 1/200001" in outcome.err


def test_listed_items_bound_the_universe(here, ratings, publish):
    (here / "items.txt").write_text("emma\nnever rated\n")
    outcome = publish(ratings, "--items", "items.txt", *config(insecure_no_noise=True), "--strategy", "jlt")
    assert "listed items: 2; 2 others are left out" in outcome.out
    users, rows = rows_of(here / "release")
    assert dict(zip(users, np.abs(rows).max(axis=1) > 0, strict=True)) == {"alice": True, "bob": False, "carol": True}
    assert certificate_of(here / "release")["input"]["item_universe"] == "declared"


def test_sjlt_without_items_works_and_is_disclosed(here, ratings, publish):
    outcome = publish(ratings, "--strategy", "sjlt", *config(density=1))
    assert outcome.code == 0
    assert "warning: sjlt without an item list" in outcome.err
    certificate = certificate_of(here / "release")
    assert certificate["input"]["item_universe"] == "read off the ratings"
    assert certificate["strategy"] == {"name": "sjlt", "parameters": {"density": 1.0}}


def test_a_threshold_drops_rows_and_says_how_many(here, ratings, publish):
    outcome = publish(ratings, "--threshold", 3, *config(insecure_no_noise=True))
    assert "dropped: 2 rated below 3" in outcome.out
    users, vectors = rows_of(here / "release")
    assert users[:2] == ["alice", "bob"]
    assert len(users) > 2, "nobody is filtered away"
    assert not vectors[2:].any()
    assert "every item rated at least 3 counts as 1" in (here / "release" / "README.md").read_text()
    assert certificate_of(here / "release")["input"]["threshold"] == 3


def test_a_listed_user_below_the_threshold_gets_a_row(here, publish):
    (here / "r.csv").write_text("user,item,rating\na,x,1\nb,x,5\n")
    (here / "only.txt").write_text("a\n")
    assert publish("r.csv", "--threshold", 3, "--users", "only.txt").code == 0
    assert rows_of(here / "release")[0] == ["a"]


def test_values_are_rounded_to_the_step_and_forced_into_the_bound(here, publish):
    (here / "r.csv").write_text("user,item,rating\na,x,99\nb,x,-3\nc,x,2.2\nd,x,0.5\n")
    bound = ("--values", "--rating-bound", 5, "--rating-step", 0.5)
    assert publish("r.csv", *bound, *config(insecure_no_noise=True), "--strategy", "jlt").code == 0
    assert np.linalg.norm(rows_of(here / "release")[1], axis=1) == pytest.approx([5, 0, 2, 0.5], rel=1e-3)
    assert publish("r.csv", *bound, out="noisy").code == 0
    certificate = certificate_of(here / "noisy")
    assert certificate["sensitivity"] == 5
    assert (certificate["bounds"]["rating_bound"], certificate["bounds"]["rating_step"]) == (5, 0.5)


def test_the_user_unit_states_its_clip(here, ratings, publish, pricdr):
    assert publish(ratings, "--unit", "user", "--clip", 1.5).code == 0
    certificate = certificate_of(here / "release")
    assert (certificate["unit"], certificate["sensitivity"], certificate["bounds"]["clip"]) == ("user", 3, 1.5)
    assert pricdr("verify", "release").code == 0


def test_a_dim_above_the_number_of_items_is_said(ratings, publish):
    assert "dim 8 is above the number of items" in publish(ratings).out
    assert "above the number of items" not in publish(ratings, "--dim", 3, out="small").out


def test_paper_calibration_states_the_nominal_and_the_exact_epsilon(here, ratings, publish, pricdr):
    outcome = publish(ratings, *config(calibration="paper"), "--strategy", "jlt")
    certificate = certificate_of(here / "release")
    exact = epsilon_for(paper_sigma(4, 1e-6, dim=8), 1e-6, sensitivity=1, dim=8)
    assert certificate["nominal_epsilon"] == 4
    assert certificate["epsilon"] == pytest.approx(exact)
    assert exact < 4
    assert f"nominal epsilon 4, exact {exact:.4g}" in outcome.out
    assert f"nominal epsilon 4, exact epsilon {exact:.4g}" in " ".join(pricdr("inspect", "release").out.split())


def test_exact_calibration_states_no_nominal_epsilon(here, ratings, publish):
    publish(ratings)
    assert "nominal_epsilon" not in certificate_of(here / "release")


@pytest.mark.parametrize("strategy", ["spectral", "jlt", "sjlt"])
def test_a_seed_gives_the_same_bytes_twice_and_no_privacy(here, ratings, publish, strategy):
    for out in ("one", "two"):
        outcome = publish(ratings, "--insecure-seed", 42, "--strategy", strategy, out=out)
        assert outcome.code == 0
        assert "NOT PRIVATE and must not leave the source" in outcome.err
        assert "NOT PRIVATE" in outcome.out
    assert certificate_of(here / "one")["private"] is False
    for name in ("README.md", "certificate.json", "release.safetensors", "users.txt"):
        assert (here / "one" / name).read_bytes() == (here / "two" / name).read_bytes()


def test_without_a_seed_no_two_releases_agree(here, ratings, publish):
    publish(ratings, out="one")
    publish(ratings, out="two")
    publish(ratings, "--insecure-seed", 1, out="three")
    publish(ratings, "--insecure-seed", 2, out="four")
    matrices = [rows_of(here / name)[1] for name in ("one", "two", "three", "four")]
    for at, left in enumerate(matrices):
        for right in matrices[at + 1 :]:
            assert (left != right).mean() > 0.9


def test_no_noise_promises_nothing(here, ratings, publish, pricdr):
    outcome = publish(ratings, *config(insecure_no_noise=True))
    certificate = certificate_of(here / "release")
    assert (certificate["epsilon"], certificate["mu"], certificate["sigma"]) == (None, None, 0)
    assert certificate["private"] is False
    assert "NOT PRIVATE" in outcome.err
    assert pricdr("verify", "release").code == 0
    assert "Nothing: no noise was added." in pricdr("inspect", "release").out


@pytest.mark.parametrize(
    "name",
    ["a b", "sub/deeper/x", "ünï🙂", "-dash", "trailing.", "a'b\"c", "100%", "$HOME", "*", "{x}", "~", "[1]"],
)
def test_outputs_with_strange_names_are_written_and_verify(here, ratings, publish, pricdr, name):
    folder = here / name
    outcome = publish(ratings, out=folder)
    assert outcome.code == 0
    assert pricdr("verify", folder).code == 0
    assert not [p for p in folder.parent.iterdir() if ".partial-" in p.name]


@pytest.mark.parametrize(
    "name", ["a b.csv", "[1].csv", "ünï🙂.csv", "-dash.csv", "*.csv", "a?b.parquet", "[ab].parquet"]
)
def test_inputs_with_strange_names_are_read(here, publish, name):
    frame = pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"]})
    with (here / name).open("wb") as file:
        frame.write_parquet(file) if name.endswith("parquet") else frame.write_csv(file)
    outcome = publish(here / name)
    assert outcome.code == 0
    assert f"{name}: 2 rows" in outcome.out


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("r.tsv", b"user\titem\na\tx\nb\ty\n", ()),
        ("r.csv.gz", gzip.compress(b"user,item\na,x\nb,y\n", mtime=0), ()),
        ("r.tsv.gz", gzip.compress(b"user\titem\na\tx\nb\ty\n", mtime=0), ()),
        ("r.inter", b"user_id:token\titem_id:token\trating:float\na\tx\t1\nb\ty\t2\n", ()),
        ("r.jsonl", b'{"user": "a", "item": "x"}\n{"user": "b", "item": "y"}\n', ("--columns", "user=user,item=item")),
        ("r.dat", b"a::x::5::978300760\nb::y::3::978302109\n", ()),
        ("r.csv", b"a,x,5.0,1400000000\nb,y,3.0,1400000001\n", ("--columns", "amazon-2014")),
        ("r.csv", b"x,a,5.0,1400000000\ny,b,3.0,1400000001\n", ("--columns", "amazon-2018")),
        ("r.csv", b"who,what\na,x\nb,y\n", ("--columns", "user=who,item=what")),
        ("r.csv", b"x,a\ny,b\n", ("--columns", "user=2,item=1")),
    ],
)
def test_every_accepted_format_gives_the_same_release(here, publish, name, content, options):
    (here / name).write_bytes(content)
    (here / "plain.csv").write_bytes(b"user,item\na,x\nb,y\n")
    assert publish(name, *options, "--insecure-seed", 3, out="one").code == 0
    assert publish("plain.csv", "--insecure-seed", 3, out="two").code == 0
    assert (here / "one" / "release.safetensors").read_bytes() == (here / "two" / "release.safetensors").read_bytes()


def test_the_library_loads_what_the_command_published(release):
    loaded = library.Release.load(release)
    assert loaded.users == ("alice", "bob", "carol")
    assert loaded.certificate.private
