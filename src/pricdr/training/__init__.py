"""The only place with an epoch loop. It knows no model: networks, steps and the validation metric are passed in."""

from pricdr.extras import TRAIN

TRAIN.require()  # here, once for all modules
