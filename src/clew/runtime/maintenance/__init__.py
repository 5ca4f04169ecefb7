"""What is done beside the turns: sweeping, recovery, cancelling, rewinding."""
