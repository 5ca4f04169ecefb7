"""Sessions: their end, their status, and voice."""
