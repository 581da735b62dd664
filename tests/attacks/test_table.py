"""The table of the documentation: every attack succeeds on its flawed variant and stays within the bound on ours."""

import pytest

from pricdr.testing.attacks import as_markdown, attack_table


@pytest.mark.statistical
def test_every_row_of_the_attack_table_holds(any_seed, record_property):
    rows = attack_table(any_seed)
    record_property("attack table", as_markdown(rows))
    assert [row.attack for row in rows if not row.holds] == []
    assert len(rows) == 21
    for row in rows:
        assert row.flawed_success > row.ours_success or row.attack == "two releases together", row
