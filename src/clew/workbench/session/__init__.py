"""A working session: its manifest, its checkpoints, and what it is attached to."""
