"""Engines: where ratings are kept while a release is computed, and what runs the work on blocks of users.

Every engine calls the same pure functions of ``pricdr.privacy``, so all of them give the same bytes.
"""
