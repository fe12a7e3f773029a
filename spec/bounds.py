"""Every tolerance, derived: rounding bounds by dtype and length, concentration bounds with their false-alarm rate."""
