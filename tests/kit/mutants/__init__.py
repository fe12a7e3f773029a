"""Wrong implementations, each caught by the claim it names, and unusual right ones."""
