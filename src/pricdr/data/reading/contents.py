"""The name that ``models`` imports :func:`shorten` by."""

from pricdr.data.reading.text_files import shorten as shorten
