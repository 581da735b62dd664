"""A link that nobody named is refused: whoever can add one to a folder of ratings could have any file published."""

import pytest

from pricdr.cli import run

ROWS = "user,item,rating\nalice,dune,5\n"


@pytest.fixture
def folder(tmp_path):
    """Ratings in a folder, and other files outside it."""
    for place in ("ratings", "ratings/day=1", "elsewhere"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "1.csv").write_text(ROWS)
    return tmp_path / "ratings"


def _published(folder, ratings):
    options = ("--epsilon", "4", "--delta", "1e-6", "--out", str(folder.parent / "release"))
    return run(["publish", str(ratings), *options])


@pytest.mark.parametrize(
    ("link", "target"),
    [("2.csv", "elsewhere/1.csv"), ("2.csv", "nowhere.csv"), ("day=1/2.csv", "elsewhere/1.csv"), ("more", "elsewhere")],
)
@pytest.mark.parametrize("pattern", ["", "*", "**/*.csv"], ids=["folder", "names", "tree"])
def test_a_link_inside_a_folder_of_ratings_is_refused(folder, capsys, link, target, pattern):
    (folder / link).symlink_to(folder.parent / target)
    assert _published(folder, folder / pattern) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"error: {folder / link}: this is a link, and inside a folder of ratings no link is followed"
    assert not (folder.parent / "release").exists()


def test_links_that_the_user_named_are_followed_and_those_that_are_skipped_matter_to_nobody(folder):
    (folder / "_old.csv").symlink_to(folder.parent / "nowhere.csv")
    (folder.parent / "file.csv").symlink_to(folder / "1.csv")
    (folder.parent / "link").symlink_to(folder)
    for at, named in enumerate(("link", "link/*.csv", "file.csv")):
        assert _published(folder, folder.parent / named) == 0
        (folder.parent / "release").rename(folder.parent / f"release {at}")
