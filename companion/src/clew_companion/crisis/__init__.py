"""Noticing danger and answering it: the floor, the gate, the fixed words, and who can be called."""
