"""One file per family of methods. All of them have training options, and those name a torch device."""

from pricdr.extras import TRAIN

TRAIN.require()  # here, once for all modules
