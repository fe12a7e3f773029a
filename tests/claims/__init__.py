"""How each claim is checked: one module per chapter."""
