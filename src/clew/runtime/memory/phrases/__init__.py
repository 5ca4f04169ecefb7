"""The phrases of people that memory understands without a model."""
