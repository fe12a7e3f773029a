"""What a run leaves behind: verdicts, files, comparisons."""
