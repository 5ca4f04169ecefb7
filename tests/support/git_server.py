"""A git server over https on loopback, with a certificate of its own, and with paths that misbehave."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import os
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOON = dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org"), ("DATE", "2020-01-01T12:00:00Z"))
}


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for loopback that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    names = [x509.DNSName("localhost"), x509.DNSName("git.example.org")]
    addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in ("127.0.0.1", "::1")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOON)
        .not_valid_after(NOON + dt.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = folder / "certificate.pem", folder / "key.pem"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate_file, key_file


def git(folder: Path, *arguments: str, input: str = "") -> str:
    """Run git in a folder, apart from this machine's own settings."""
    environment = {**os.environ, **IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "init.defaultBranch=main", *arguments]
    process = subprocess.run(
        command, cwd=folder, env=environment, input=input, text=True, check=True, capture_output=True
    )
    return process.stdout.strip()


def make_repository(root: Path, name: str, files: Mapping[str, str]) -> str:
    """Make a repository with one commit on main; return that commit."""
    folder = root / name
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    return commit_files(folder, files)


def commit_files(folder: Path, files: Mapping[str, str], message: str = "Write") -> str:
    """Commit files to a repository; return the commit."""
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")


class GitServer:
    """A server of the repositories in a folder, and what it was asked."""

    def __init__(self, root: Path, certificate: Path) -> None:
        self.root = root
        self.certificate = certificate
        self.port = 0
        self.redirect = ""
        """Where what is below /moved leads."""
        self.paths: list[str] = []

    @property
    def host(self) -> str:
        """The host as an operator lists it."""
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"https://{self.host}/{path}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        top = request.path.split("/")[1]
        if top == "moved":
            raise web.HTTPMovedPermanently(self.redirect + request.path_qs.removeprefix("/moved"))
        if top == "slow":
            await asyncio.Event().wait()
        if top == "endless":
            return await self._stream_zeros(request)
        if top == "shut":
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": 'Basic realm="git"'})
        return await self._run_backend(request)

    async def _stream_zeros(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-git-upload-pack-advertisement"})
        await response.prepare(request)
        await response.write(b"001e# service=git-upload-pack\n0000")
        while True:
            await response.write(bytes(65536))

    async def _run_backend(self, request: web.Request) -> web.Response:
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "PATH_INFO": request.path,
            "QUERY_STRING": request.query_string,
            "REQUEST_METHOD": request.method,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        }
        process = await asyncio.create_subprocess_exec(
            "git",
            "-c",
            "safe.directory=*",
            "-c",
            "uploadpack.allowAnySHA1InWant=true",
            "http-backend",
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        output, _ = await process.communicate(await request.read())
        head, _, body = output.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        status = int(headers.pop("Status", "200").split()[0])
        return web.Response(body=body, status=status, headers=headers)


@asynccontextmanager
async def git_server(folder: Path) -> AsyncIterator[GitServer]:
    """A server of the repositories below a folder."""
    certificate, key = write_certificate(folder)
    server = GitServer(folder / "repositories", certificate)
    server.root.mkdir(exist_ok=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    app = web.Application(client_max_size=1 << 26, handler_args={"auto_decompress": False})
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()
