"""Text from files: PDF, HTML, Markdown and plain text, in sections, within limits."""
