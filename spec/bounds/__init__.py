"""Every tolerance, derived: one module for each kind of mathematics."""

from spec.bounds import chance, descent, memory, rounding, timing, updates

__all__ = ["chance", "descent", "memory", "rounding", "timing", "updates"]
