"""Documents: kept whole, read in parts."""
