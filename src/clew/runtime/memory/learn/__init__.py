"""What is learnt from a conversation: noticed, extracted, promoted."""
