"""The page for people: find a user, see what recommendations rest on, compare models, read the card and the promise.

Everything is rendered here, from the blocks and the style sheet that all pages of this project share; there is no
script. An id is never part of an address: it is sent in the body of a form, so that no history, bookmark or log of a
proxy keeps it.
"""

from pricdr.serving.pages.layout import error_page
from pricdr.serving.pages.routes import router

__all__ = ["error_page", "router"]
