"""Tools: what they are, how they are called, and the ledger of their effects."""
