"""Learning from a conversation: candidates noticed, extracted and promoted."""
