"""The companion's commands."""
