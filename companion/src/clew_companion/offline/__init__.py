"""The companion without a model."""
