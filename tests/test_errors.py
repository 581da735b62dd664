import pytest

from pricdr import errors


@pytest.mark.parametrize(
    "kind", [errors.InputError, errors.ParameterError, errors.OutputError, errors.BudgetError, errors.VerificationError]
)
def test_a_message_is_one_printable_line_whatever_is_in_it(kind):
    error = kind("a\nvalue\x1b[31m with  \u202e tricks and a \ud800 surrogate")
    assert str(error) == r"a value\u001b[31m with  \u202e tricks and a \ud800 surrogate"
    assert isinstance(error, errors.PriCDRError)


def test_errors_are_also_what_a_caller_would_expect():
    assert issubclass(errors.InputError, ValueError)
    assert issubclass(errors.ParameterError, ValueError)
    assert issubclass(errors.OutputError, OSError)
    assert [errors.BudgetError.exit_code, errors.VerificationError.exit_code, errors.InputError.exit_code] == [1, 1, 2]


def test_logs_show_no_message_that_may_quote_ratings_or_count_them():
    shown = {
        kind: kind("alice rated 5").disclosed for kind in (errors.InputError, errors.LedgerError, errors.BudgetError)
    }
    assert shown == {errors.InputError: None, errors.LedgerError: "alice rated 5", errors.BudgetError: "alice rated 5"}
    for kind in (errors.MemoryLimitError, errors.DiskSpaceError):
        assert kind("7 ratings").disclosed
        assert "7" not in kind("7 ratings").disclosed
    failed = errors.EngineError("nothing is spent", "'alice' cannot be cast")
    assert (failed.disclosed, "'alice' cannot be cast" in str(failed)) == ("nothing is spent", True)
    named = errors.InputFileError("alice.csv", "no column in ['alice']", logged="no column")
    named.log_as("the ratings")
    assert named.disclosed == "the ratings: no column"


@pytest.mark.parametrize(
    ("rule", "says", "refused"),
    [
        (errors.require_positive, "a finite number above 0", [0, -1, float("inf"), float("nan")]),
        (errors.require_probability, "lie strictly between 0 and 1", [0, 1, -0.5, float("nan")]),
        (errors.require_share, "lie in [0, 1)", [1, -0.5, float("nan")]),
        (errors.require_not_negative, "be zero or more", [-1, float("inf"), float("nan")]),
        (errors.require_count, "be a whole number of at least 1", [0, -1, 1.0, True, "3"]),
        (errors.require_seed, "be a whole number from 0 to 9223372036854775807", [-1, 2**63, 1.0, True]),
        (errors.require_at_most_scale, "be at most 1e+15", [1e16]),
        (errors.require_scale, "be a number from 1e-15 to 1e+15", [0.0, 1e-16, 1e16, float("nan"), float("inf")]),
        (errors.require_file_name, "becomes a file name: 1 to 100 letters", ["", ".", "..", ".hidden", "a/b", "../a"]),
        (errors.require_file_name, "becomes a file name", ["a\\b", "a b", "a\n", "ä", "x" * 101, "a\0", "~", "/etc/x"]),
    ],
)
def test_a_rule_names_the_argument_the_rule_and_the_value(rule, says, refused):
    for value in refused:
        with pytest.raises(errors.ParameterError) as caught:
            rule(x=value)
        assert str(caught.value).startswith("x ")
        assert says in str(caught.value)
        assert "got" in str(caught.value)


def test_what_obeys_its_rule_passes():
    errors.require_file_name(x="a", y="movie_music-1.v2.csv.gz", z="_" + "x" * 99)
    errors.require_seed(x=0, y=2**63 - 1)
    errors.require_share(x=0, y=0.999)
    errors.require_scale(x=1e-15, y=1e15)
