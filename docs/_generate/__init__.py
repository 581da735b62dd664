"""Pages that are generated: the command line, the Python API and the results."""
