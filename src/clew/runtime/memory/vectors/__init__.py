"""Vectors of memory: embedders, and the jobs that use them."""
