"""The agent that works with code and documents."""
