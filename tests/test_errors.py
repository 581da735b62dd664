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


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_positive_means_finite_and_above_zero(value):
    with pytest.raises(errors.ParameterError, match="x must be a finite number above 0"):
        errors.require_positive(x=value)


@pytest.mark.parametrize("value", [0, 1, -0.5, float("nan")])
def test_a_probability_lies_strictly_inside(value):
    with pytest.raises(errors.ParameterError, match="x must lie strictly between 0 and 1"):
        errors.require_probability(x=value)


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "3"])
def test_a_count_is_a_whole_number_from_one(value):
    with pytest.raises(errors.ParameterError, match="x must be a whole number of at least 1"):
        errors.require_count(x=value)


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "../a", "/etc/x", "a\\b", "a b", "a\n", "ä", "x" * 101, "a\0", "~"]
)
def test_a_file_name_leads_nowhere_else(name):
    with pytest.raises(errors.ParameterError, match=r"x becomes a file name.*got"):
        errors.require_file_name(x=name)


def test_an_ordinary_file_name_will_do():
    errors.require_file_name(x="a", y="movie_music-1.v2.csv.gz", z="_" + "x" * 99)
