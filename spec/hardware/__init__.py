"""Which device this is, and what the run was measured on."""
