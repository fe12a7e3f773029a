"""The instruments, held against other ways to measure the same."""
