"""``--engine spark``: ratings in a Spark table, and works on blocks of its users inside ``mapInArrow``."""

from pricdr.engines.spark.ratings import SparkRatings as SparkRatings
from pricdr.engines.spark.reading import SparkReading as SparkReading
from pricdr.engines.spark.reading import open_ratings as open_ratings
