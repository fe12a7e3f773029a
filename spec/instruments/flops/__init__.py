"""Counts the FLOPs of a program as it runs, operator by operator: products, biases, elementwise work, each apart."""

from spec.instruments.flops.counter import FlopCounter
from spec.instruments.flops.lines import Flops

__all__ = ["FlopCounter", "Flops"]
