"""One file per method. A fitted model is arrays and a ``score``; how it was trained is thrown away."""
