"""Factorisations of the target's ratings alone."""

from pricdr.extras import TRAIN

TRAIN.require()  # here, once for all modules
