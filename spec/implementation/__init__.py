"""The package under test: how it is loaded, what it is held to, what it must leave alone, and a skeleton of it."""
