"""What ``recommend`` writes names users and their tastes: it is for its owner alone, whatever the umask."""

import os
import stat

import numpy as np
import pytest
import scipy.sparse as sp

from pricdr.models import recommend as recommending
from pricdr.models.fitted import FittedModel, Origin


@pytest.fixture(autouse=True)
def open_to_all():
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.parametrize("name", ["list.parquet", "list.csv"])
@pytest.mark.parametrize("rows_in_a_part", [10, 1000], ids=["in parts", "at once"])
def test_recommendations_and_exports_are_for_their_owner_alone(here, pricdr, monkeypatch, name, rows_in_a_part):
    monkeypatch.setattr(recommending, "ROWS_IN_A_PART", rows_in_a_part)
    users, items = tuple(f"u{at}" for at in range(9)), tuple(f"i{at}" for at in range(9))
    vectors, none = np.eye(9, dtype=np.float32), np.zeros(9, dtype=np.float32)
    seen = sp.csr_array(np.eye(9))
    FittedModel("bpr", users, items, vectors, vectors, none, seen, none > 0, origin=Origin({}, None)).save(
        here / "model"
    )
    assert pricdr("recommend", "model", "--out", name).code == 0
    assert pricdr("recommend", "model", "--export", "export").code == 0
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (here / name, *(here / "export").iterdir())}
    assert modes == {0o600}
    assert stat.S_IMODE((here / "export").stat().st_mode) == 0o700
