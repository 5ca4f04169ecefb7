"""The archive: the format of an export file, and how it is restored."""
