"""The table of the documentation: every attack succeeds on its flawed variant and stays within the bound on ours."""

import pytest

from tests.attacks.table import GROUPS, as_markdown, attack_rows

ROWS = {"projections": 4, "reconstruction": 2, "releases": 4, "membership": 2, "learnt rows": 6, "rounds": 3}


@pytest.mark.statistical
@pytest.mark.parametrize("group", GROUPS)
def test_every_row_of_the_attack_table_holds(group, any_seed, record_property):
    rows = attack_rows(group, any_seed)
    record_property("attack table", as_markdown(rows))
    assert [row.attack for row in rows if not row.holds] == []
    assert len(rows) == ROWS[group]
    for row in rows:
        assert row.flawed_success > row.ours_success or row.attack == "two releases together", row
