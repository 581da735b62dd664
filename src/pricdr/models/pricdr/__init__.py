"""The paper's method, its ablation and its target network: a stage for the target, then one for the source."""

from pricdr.extras import TRAIN

TRAIN.require()  # here, once for all modules
