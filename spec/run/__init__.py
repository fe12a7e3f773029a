"""One run of pytest: its options, what it collects, how a test is judged, and what a person is shown."""
