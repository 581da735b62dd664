"""``--engine local``: ratings are kept on disk. Memory grows with users and items, not with ratings."""
