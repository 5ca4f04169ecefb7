"""A local issuer of tokens with real keys: it rotates them, and is slow, down or confused on purpose."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from clew.server.identity.identity import DISCOVERY, IssuerSettings

TENANT = "11111111-2222-3333-4444-555555555555"
AUDIENCE = "api://clew"


@cache
def rsa_key(number: int, bits: int = 2048) -> rsa.RSAPrivateKey:
    """One of several keys. They take long to make, so each is made once in a run."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def public_text(key: rsa.RSAPrivateKey) -> bytes:
    """The public half of a key, as everybody can have it."""
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


class Issuer:
    """Signs tokens and publishes its keys.

    ``answer`` is sent in place of the keys; ``discovery_fields`` replace fields of the discovery document.
    """

    def __init__(self) -> None:
        self.url = ""
        self.keys: dict[str, rsa.RSAPrivateKey] = {"first": rsa_key(1)}
        self.request_count = 0
        self.arrival = asyncio.Event()
        self.status = 200
        self.answer: bytes | None = None
        self.discovery_fields: dict[str, str] = {}
        self.wait: asyncio.Event | None = None

    @property
    def template(self) -> str:
        """The issuer as tokens name it, for any of its tenants."""
        return f"{self.url}/{{tenantid}}/v2.0"

    def settings(self, **fields: Any) -> IssuerSettings:
        """What a server is told about this issuer."""
        options: dict[str, Any] = {
            "issuer": self.template,
            "keys_url": f"{self.url}/keys",
            "audience": (AUDIENCE,),
            "tenants": frozenset({TENANT}),
            "user_claim": "oid",
        }
        return IssuerSettings(**(options | fields))

    def rotate(self, *names: str) -> None:
        """Publish other keys, and no longer those of before."""
        self.keys = {name: rsa_key(number) for number, name in enumerate(names, start=2)}

    def claims(self, **fields: Any) -> dict[str, Any]:
        """What a good token says; a field that is None is left out."""
        now = int(time.time())
        tenant = fields.get("tid", TENANT)
        claims: dict[str, Any] = {
            "iss": self.template.replace("{tenantid}", str(tenant)),
            "aud": AUDIENCE,
            "tid": tenant,
            "oid": "alice",
            "sub": "pairwise",
            "iat": now,
            "nbf": now,
            "exp": now + 600,
        }
        return {name: value for name, value in (claims | fields).items() if value is not None}

    def token(
        self, *, key: str | None = None, headers: Mapping[str, Any] | None = None, **fields: Any
    ) -> str:
        """A token signed by one of the keys, the first if none is named."""
        name = key or next(iter(self.keys))
        head = {"kid": name, **(headers or {})}
        return jwt.encode(self.claims(**fields), self.keys[name], algorithm="RS256", headers=head)

    def forge_token(self, *, alg: str, **fields: Any) -> str:
        """A token that nobody with the private key has made: unsigned, or signed with the public one."""
        name = next(iter(self.keys))
        head, body = _part({"alg": alg, "typ": "JWT", "kid": name}), _part(self.claims(**fields))
        seal = b""
        if alg.startswith("HS"):
            public = public_text(self.keys[name])
            seal = jwt.get_algorithm_by_name(alg).sign(head + b"." + body, public)
        return b".".join([head, body, base64.urlsafe_b64encode(seal).rstrip(b"=")]).decode()

    def key_document(self) -> bytes:
        """The keys, as the issuer sends them."""
        entries = []
        for name, key in self.keys.items():
            entry = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
            entries.append({**entry, "kid": name, "use": "sig", "alg": "RS256"})
        return json.dumps({"keys": entries}).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close the connection."""
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            self.request_count += 1
            self.arrival.set()
            if self.wait is not None:
                await self.wait.wait()
            body = self.answer if self.answer is not None else self.key_document()
            if DISCOVERY.encode() in request.partition(b"\r\n")[0]:
                body = json.dumps(
                    {"issuer": self.url, "jwks_uri": f"{self.url}/keys"} | self.discovery_fields
                ).encode()
            head = f"HTTP/1.1 {self.status} x\r\ncontent-length: {len(body)}\r\nlocation: {self.url}/keys\r\n"
            writer.write(f"{head}connection: close\r\n\r\n".encode() + body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, as some tests want it to
        finally:
            writer.close()


@asynccontextmanager
async def issuing() -> AsyncIterator[Issuer]:
    """An issuer on a port of its own, until the block ends."""
    issuer = Issuer()
    server = await asyncio.start_server(issuer.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    issuer.url = f"http://{host}:{port}"
    try:
        yield issuer
    finally:
        server.close()
        if issuer.wait is not None:
            issuer.wait.set()
        await server.wait_closed()


def _part(value: object) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")
