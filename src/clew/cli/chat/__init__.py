"""The chat in a terminal: who talks, what they can ask for, and how it looks."""
