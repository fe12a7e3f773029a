"""The reference implementation: one module per chapter of the notes that implements anything."""
