"""Serves recommendations over HTTP from a model folder: ``pricdr serve``.

``snapshot`` is one loaded model, ``models`` holds the one being served, ``worker`` scores, ``gate`` checks every
request before it reaches ``app``, and ``server`` runs the process.
"""

from pricdr.extras import SERVE

SERVE.require()
