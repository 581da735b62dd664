"""What is promised and how it is kept. The derivations are in ``docs/mathematics.md``."""
