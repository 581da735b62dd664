"""Factorisations of the target's ratings alone."""
