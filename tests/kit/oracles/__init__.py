"""The oracles, held against other ways to compute the same."""
