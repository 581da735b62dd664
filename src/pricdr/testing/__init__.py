"""The suites that a strategy or a method of your own inherits: they need pytest. The library never imports them."""
