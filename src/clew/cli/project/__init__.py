"""The project that ``clew new`` writes: its files as they are, but for the name."""
