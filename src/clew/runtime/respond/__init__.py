"""The model loop: what the model sees, and what becomes of its reply."""
