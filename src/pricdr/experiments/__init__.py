"""Tables and figures: specs in, results out."""
