"""The epoch loop and what it needs. It does not know the models: networks, steps and the metric are passed in."""

from pricdr.extras import TRAIN

TRAIN.require()  # here, once for all modules
