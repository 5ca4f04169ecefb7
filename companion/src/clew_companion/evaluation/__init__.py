"""Scripted conversations that the companion is held against, without a network."""
