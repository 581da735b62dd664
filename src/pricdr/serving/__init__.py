"""Answers recommendations over HTTP from a model folder: ``pricdr serve``.

``snapshot`` is one loaded model, ``models`` what is served now, ``worker`` the thread that scores, ``gate`` what every
request passes before it reaches ``app``, and ``server`` the process.
"""

from pricdr.extras import SERVE

SERVE.require()
