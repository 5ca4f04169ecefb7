"""The HTTP API: its routes, and the types that go over the wire."""
