"""Methods in closed form: nothing is trained in epochs."""

from pricdr.extras import TRAIN

TRAIN.require()  # here, once for all modules: methods have training options, and those name a torch device
