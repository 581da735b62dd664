import pytest

from pricdr.data.reading.read import AMAZON_2014, AMAZON_2018, Columns
from pricdr.data.reading.read import read_ratings_file as read
from pricdr.errors import InputError, ParameterError


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("user=reviewerID,item=asin,rating=overall", Columns("reviewerID", "asin", "overall")),
        (" item = b , user = a ", Columns("a", "b")),
        ("user=1,item=2,rating=3", Columns(1, 2, 3)),
        ("amazon-2014", AMAZON_2014),
        ("Amazon-2018", AMAZON_2018),
    ],
)
def test_parse(text, columns):
    assert Columns.parse(text) == columns


@pytest.mark.parametrize(
    "text",
    [
        *("", "user", "user=a", "item=b", "user=a,item=a", "user=1,item=b", "user=0,item=1", "user=a,item="),
        *("user=a,item=b,stars=c", "user=a,user=b,item=c", "user=a;item=b", "amazon-2015", "user=a,item=b,"),
    ],
)
def test_parse_refuses(text, refused):
    refused(lambda: Columns.parse(text), ParameterError)


@pytest.mark.parametrize("bad", [(True, 2), (1.0, 2), ("", "b"), (-1, 2), ("a", 2)])
def test_columns_refuse_what_is_no_column(bad, refused):
    refused(lambda: Columns(*bad), ParameterError)


@pytest.mark.parametrize(
    "header",
    [
        *("user,item,rating", "USER_ID,Item-ID,Score", "userId,movieId,rating", "reviewerID,asin,overall"),
        *("uid,iid,ratings", "user_id,business_id,stars", "user_id,parent_asin,rating", " user , item , rate"),
        *("customer_id,product_id,star_rating", "User-ID,ISBN,Book-Rating"),
    ],
)
def test_known_header_names(header, write):
    reading = read(write("r.csv", f"{header}\na,b,4\n"))
    assert reading.ratings.users == ("a",)
    assert reading.ratings.items == ("b",)
    assert reading.has_values


def test_columns_in_any_order_among_others(write):
    reading = read(write("r.csv", "time,rating,item,text,user\n1,2,i,hm,u\n"))
    assert (reading.ratings.users, reading.ratings.items) == (("u",), ("i",))
    assert reading.rating_range == (2, 2)


def test_given_names_win_and_rating_is_then_optional(write):
    path = write("r.csv", "user,buyer,thing,rating\nx,u,i,terrible\n")
    reading = read(path, columns=Columns("Buyer", "thing"))
    assert reading.ratings.users == ("u",)
    assert not reading.has_values


def test_a_threshold_finds_the_rating_column_that_columns_left_out(write):
    path = write("r.csv", "buyer,thing,stars\nu,i,2\nv,i,4\n")
    assert read(path, columns=Columns("buyer", "thing"), threshold=3).ratings.rated().users == ("v",)


@pytest.mark.parametrize(("columns", "users", "items"), [(AMAZON_2014, ("A",), ("B",)), (AMAZON_2018, ("B",), ("A",))])
def test_both_amazon_orders(columns, users, items, write):
    ratings = read(write("r.csv", "A,B,5.0,1400000000\n"), columns=columns).ratings
    assert (ratings.users, ratings.items) == (users, items)
    assert ratings.matrix.data.tolist() == [5.0]


def test_an_exact_name_wins_over_another_spelling(write):
    path = write("r.csv", "Buyer,buyer,item\nx,y,i\n")
    assert read(path, columns=Columns("buyer", "item")).ratings.users == ("y",)
    with pytest.raises(InputError, match="more than one column 'BUYER'"):
        read(path, columns=Columns("BUYER", "item"))
