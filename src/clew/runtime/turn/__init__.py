"""One turn while it works: its draft, its checkpoints, its lease and its result."""
