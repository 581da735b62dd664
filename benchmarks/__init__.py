"""Side-by-side timings, printed as ratios measured in one run."""
