"""Memory that a person controls: learned by stated rules, seen, corrected, undone, forgotten."""
