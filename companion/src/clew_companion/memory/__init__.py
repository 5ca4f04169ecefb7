"""The companion's use of memory."""
