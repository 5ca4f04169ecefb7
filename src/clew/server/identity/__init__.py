"""Identities: tenants, users and keys, and the authentication of requests."""
