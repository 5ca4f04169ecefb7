"""Erasure and retention, decided purely: what is blanked, and the receipt that says so."""
