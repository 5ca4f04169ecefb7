"""HTTP as the server speaks it: callers, idempotency, limits, cursors, streams."""
