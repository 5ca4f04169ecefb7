"""The public claims about speed, one file each."""
