"""Noticing danger and answering it: the floor, the gate, the fixed words and the places where people answer."""
