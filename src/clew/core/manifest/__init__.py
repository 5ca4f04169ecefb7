"""The session manifest: one document, its files and its stamps."""
