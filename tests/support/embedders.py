"""The embedder of tests, by the name that options and settings take."""

from __future__ import annotations

SPELLING = "clew.testing.embedder:SpellingEmbedder"
