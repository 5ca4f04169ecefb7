"""The companion's part of the HTTP API."""
