"""The durable volume: its tree, its paths and its backup."""
