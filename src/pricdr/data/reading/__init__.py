"""Files of ratings: every format, column names, and what was wrong in which row."""
