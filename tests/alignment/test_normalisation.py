"""The normalisation rules: what they return, what they refuse, and that applying one twice changes nothing."""

import pytest
from hypothesis import given, strategies as st

from pricdr.alignment.normalisation import RULES, NormalisedIds
from pricdr.errors import InputError

EXACT, EMAIL, PHONE = RULES


def test_rules():
    for rule, user_id, expected in (
        (EXACT, " Ann ", " Ann "),
        (EMAIL, " Ann.B+c@Example.COM  ", "ann.b+c@example.com"),
        (EMAIL, "ÄNN@x.de", "Änn@x.de"),  # ASCII letters only: Unicode case tables differ between Python versions
        (EMAIL, "İ@x.tr", "İ@x.tr"),
        (PHONE, "+49 (30) 1234-567", "+49301234567"),
        (PHONE, "0049.30/1234567", "+49301234567"),
    ):
        assert RULES[rule][1](user_id) == expected


@pytest.mark.parametrize(
    ("rule", "user_id"),
    [
        *((EMAIL, text) for text in ("ann", "@x.org", "ann@", "a@b@c", "a b@c.d", "a@b c", " @ ", "a\u00a0@b")),
        *((PHONE, text) for text in ("030 1234567", "+0301234567", "+49", "+" + "1" * 16, "+49x1234567", "+٤٩١٢٣٤٥٦٧")),
        *(
            (PHONE, text)
            for text in ("+49 (0)30 1234567", "0049 ( 0 ) 30 1234567", "+４９３０１２３", "+49\u00a03012345")
        ),
    ],
)
def test_ids_that_a_rule_refuses(rule, user_id):
    with pytest.raises(InputError, match=r"ids\.txt: line 2: .* is not an "):
        NormalisedIds.of(["ok@x.org" if rule == EMAIL else "+4912345678", user_id], rule, name="ids.txt")


@given(st.sampled_from([EMAIL, PHONE]), st.text(alphabet="aZ@.+ 0049-()é", min_size=1, max_size=20))
def test_applying_a_rule_twice_changes_nothing(rule, user_id):
    try:
        once = RULES[rule][1](user_id)
    except ValueError:
        return
    assert RULES[rule][1](once) == once


def test_the_text_of_the_rules_is_part_of_the_format():
    """Changing a text makes messages of earlier versions unreadable, and needs a new version of the message format."""
    texts = {
        EXACT: "Ids are compared byte for byte.",
        EMAIL: "is kept; what is left must have one @, text on both sides of it, and no white space.",
        PHONE: "what is left must be + and 7 to 15 digits, not 0 first; a number with (0) in it is refused.",
    }
    assert all(RULES[rule][0].endswith(text) for rule, text in texts.items())
