"""Rivals that read the source's ratings. NOT PRIVATE: for comparison only."""

from pricdr.extras import TRAIN

TRAIN.require()  # here, once for all modules
