"""The log of a thread: its rows, and the pure functions that plan a commit and read it back."""
