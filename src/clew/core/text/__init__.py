"""Words, excerpts and ranks: what search does with text."""
