"""Rivals that read the source's ratings. NOT PRIVATE: for comparison only."""
