"""The demo: both parties on a synthetic pair, and the page it ends with."""
