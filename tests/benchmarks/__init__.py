"""The claims about speed, timed with pytest-benchmark."""
