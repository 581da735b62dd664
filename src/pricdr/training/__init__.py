"""The only place with an epoch loop. It knows no model: networks, steps and the validation metric are passed in."""
