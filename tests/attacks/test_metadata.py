"""Everything in the folder but the matrix: identical for neighbouring inputs, or it is a leak."""

import pytest

from pricdr.signing import create_keys
from tests.attacks import flawed
from tests.attacks.metadata import folder_contents, metadata, metadata_difference
from tests.attacks.target import neighbouring_ratings, private_release, settings
from tests.attacks.trials import metadata_flawed, metadata_ours, random_worlds

EVERY = settings(8)


@pytest.mark.statistical
@pytest.mark.parametrize("leak", ["counts", "hash"])
def test_a_certificate_that_describes_its_input_tells_neighbours_apart(leak, rng):
    assert metadata_flawed(leak, trials=40, rng=rng).right == 40


@pytest.mark.parametrize("leak", ["counts", "hash"])
def test_that_folder_differs_in_its_readme_too(leak, rng):
    absent, present = (flawed.leaky_folder(world, leak=leak) for world in random_worlds((9, 7), rng))
    assert absent["README.md"] != present["README.md"]
    assert absent["certificate.json"] != present["certificate.json"]
    assert metadata_difference(absent, present)(present) == 1


@pytest.mark.statistical
@pytest.mark.parametrize("setting", EVERY, ids=str)
def test_our_metadata_tells_nothing(setting, rng):
    tally = metadata_ours(setting, trials=12, rng=rng)
    assert not tally.refutes(0.01), tally


@pytest.mark.parametrize("setting", EVERY, ids=str)
def test_our_folders_are_identical_for_neighbours_but_for_the_matrix(setting, rng, tmp_path):
    """Names, sizes and bytes; for neighbours as the unit defines them, and for empty ratings against full ones."""
    absent, present = neighbouring_ratings(setting, 20, rng)
    empty = absent * 0
    empty[0, 0] = 1
    release = private_release(setting, (absent, present)), private_release(setting, (empty, 1 - empty))
    seen = set()
    for number, (publish, world) in enumerate((publish, world) for publish in release for world in (0, 1)):
        seen.add(metadata(folder_contents(publish(world).save(tmp_path / str(number)))))
    assert len(seen) == 1


def test_a_signature_adds_nothing_of_the_ratings(rng, tmp_path):
    private, _ = create_keys(tmp_path / "key")
    release = private_release(EVERY[0], neighbouring_ratings(EVERY[0], 20, rng))
    folders = [folder_contents(release(world).save(tmp_path / str(world), signing_key=private)) for world in (0, 1)]
    assert "certificate.json.sig" in folders[0]
    assert metadata(folders[0]) == metadata(folders[1])
