"""The derived bounds, held against what really happens."""
