"""What really happened, measured without impl."""
