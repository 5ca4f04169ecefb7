"""Phrases of the companion, by language."""
