"""The store contract, by concern."""
