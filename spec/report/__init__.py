"""From evidence to verdicts, and from verdicts to the terminal and to files."""
