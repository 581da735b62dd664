"""Serves recommendations over HTTP from a model folder: ``pricdr serve``."""

from pricdr.extras import SERVE

SERVE.require()
