"""``--engine local``: ratings on disk. Memory grows with users and items, not with the number of ratings."""
