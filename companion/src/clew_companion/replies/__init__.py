"""Wording of replies: prompt sources, their composition, and the filter."""
