"""Engines: where ratings are kept while a release is computed, and who runs the work on blocks of users.

Every engine drives the same pure functions of ``pricdr.privacy``, so that all of them give the same bytes.
"""
