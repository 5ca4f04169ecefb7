"""Interpreters that run an agent's code: the port, one on this machine, and one at a provider's."""
