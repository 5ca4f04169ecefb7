"""Repositories of sessions: what a session says about its own, and how it is checked out behind walls."""
