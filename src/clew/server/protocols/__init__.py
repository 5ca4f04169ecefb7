"""Protocols of front ends that exist: projections of the runtime's events, with no state of their own."""
