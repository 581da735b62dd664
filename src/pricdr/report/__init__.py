"""A results folder as one page: the paper's figures, ours beside them, and what they come to."""
