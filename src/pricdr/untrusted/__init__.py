"""What comes from outside, until it is checked: files opened once, Parquet decoded in a process of its own."""
