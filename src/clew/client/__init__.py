"""A typed client of the HTTP server, async and blocking. It raises the errors that the server means."""

from clew.client.clients import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
