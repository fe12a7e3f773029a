"""Devices, their promises, and ranks."""
