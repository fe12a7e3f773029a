"""What a test expects, computed without the implementation under test."""
