"""Arrays in, numbers out: ranks, metrics and comparisons, for anything that scores items."""
