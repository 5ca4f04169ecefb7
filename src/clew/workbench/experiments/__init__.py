"""Data sets, experiments and their results."""
