"""Guided exercises: a catalogue as data, and what leads through it."""
