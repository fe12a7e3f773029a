"""How values, records and likely mistakes are written for a person."""
