"""Recall: what memory tells a turn, and how it reads."""
