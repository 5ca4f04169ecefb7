"""MCP, the Model Context Protocol: threads as tools and resources, runs as tasks."""
