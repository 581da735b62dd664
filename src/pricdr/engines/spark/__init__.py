"""``--engine spark``: ratings stay in a Spark table, and works run on blocks of its users in ``mapInArrow``."""

from pricdr.engines.spark.ratings import open_ratings as open_ratings
