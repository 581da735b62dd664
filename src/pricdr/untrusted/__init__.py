"""Reading what comes from outside: files are opened once, and Parquet is decoded in a process of its own."""
