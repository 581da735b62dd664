"""The page for people: look up a user, see what recommendations are based on, compare models, read the model card.

Everything is rendered on the server, from the blocks and the style sheet that all pages of this project share; there
are no scripts. An id is never part of an address: it is sent in the body of a form, so no browser history, bookmark or
proxy log keeps it.
"""

from pricdr.serving.pages.layout import error_page
from pricdr.serving.pages.routes import router

__all__ = ["error_page", "router"]
