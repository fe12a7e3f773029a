"""What impl's docstrings promise beyond the claims."""
