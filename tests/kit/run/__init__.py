"""One run of pytest: its options, its collection, its verdicts."""
