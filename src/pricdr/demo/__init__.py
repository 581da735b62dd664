"""The demo: both parties on a synthetic pair, and the page it ends with."""

from pricdr.extras import TRAIN

TRAIN.require()  # before anything is played: the target trains
