"""Methods in closed form: nothing is trained in epochs."""
