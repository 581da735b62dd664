"""The sections of the report: each turns what was computed into blocks of a page."""
