"""Engines: where ratings are while a release is computed, and what runs works on blocks; all give the same bytes."""
