"""The HTTP server: threads, turns, memory and jobs of many tenants over one store."""
