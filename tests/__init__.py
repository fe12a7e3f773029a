"""The specification's tests: of the claims, of speed, and of the kit itself."""
