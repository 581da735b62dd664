"""The page for people; see :func:`router`."""

from fastapi import APIRouter

from pricdr.serving.models import Models
from pricdr.serving.settings import Settings


def router(models: Models, settings: Settings) -> APIRouter:
    """Return the routes of the page."""
    return APIRouter()
