"""One module per command word."""
