"""Models: the protocol, the messages they read, one call, and every provider."""
