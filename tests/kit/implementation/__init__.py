"""How a package is loaded, and what it is held to."""
