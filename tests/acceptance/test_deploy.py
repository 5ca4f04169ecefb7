"""What is in ``deploy`` fits together and starts, as far as that shows without a container engine."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.api.health import HEALTH, READY
from clew.api.route import API_PREFIX
from clew.cli.app import build_app
from tests.acceptance.deployment import (
    DEPLOY,
    HEALTH_PORT,
    ROOT,
    copied_paths,
    final_stage,
    health_command,
    image_command,
    image_variables,
    instructions,
    manifest,
    services,
    unit_settings,
)
from tests.architecture.test_installs import pins
from tests.cli.commands.test_serve import free_port
from tests.support.postgres import PostgresServer, find_binaries

CLEW = str(Path(sys.executable).with_name("clew"))
SECRET = "5e1f0c7b9a2d48363bd1907fe4c2a8615e1f0c7b9a2d48363bd1907fe4c2a861"
VARIABLE = re.compile(r"\bCLEW_[A-Z_]+")
ANALYZE = shutil.which("systemd-analyze")
SAFEST_EXPOSURE = 20
"""Tenths of what systemd calls the exposure of a service, from 0 to 100; below it is called OK."""


def variables_of(**more: str) -> dict[str, str]:
    """The environment of a container: the image's, what is given, and no setting of this process."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "TMPDIR") if name in os.environ}
    return {**kept, **image_variables(), **more}


def is_healthy(port: int) -> bool:
    """Whether the image's own check of its health passes."""
    program, *arguments = health_command()
    command = [sys.executable, *(argument.replace(HEALTH_PORT, str(port)) for argument in arguments)]
    assert program == "python"
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def container(url: str, port: int, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The image's command as a process of this machine, on loopback, with what the compose file sets."""
    settings = {"CLEW_SERVER_URL": url, "CLEW_SERVER_SECRET": SECRET, "CLEW_TLS_ELSEWHERE": "true"}
    assert settings.keys() <= services()["server"]["environment"].keys()
    environment = variables_of(**settings, CLEW_SERVER_HOST="127.0.0.1", CLEW_SERVER_PORT=str(port))
    command = [CLEW, *image_command()[1:]]
    child = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate()


def wait_until_healthy(child: subprocess.Popen[str], port: int) -> None:
    """Wait until a container is well, or fail with what it said."""
    deadline = time.monotonic() + 20
    while not is_healthy(port):
        if child.poll() is not None or time.monotonic() > deadline:
            child.kill()
            pytest.fail(f"The server is not there: {child.communicate()[1]}")


def prepare_database(server: PostgresServer, folder: Path) -> None:
    """Do what the services ``migrate`` and ``role`` do, as the owner."""
    owner = server.url("clew")
    migrate = [CLEW, *services()["migrate"]["command"]]
    subprocess.run(migrate, env=variables_of(CLEW_DB=owner), cwd=folder, check=True, capture_output=True)
    _, *options, _ = services()["role"]["command"]
    options = [option.replace("/role.sql", str(DEPLOY / "role.sql")) for option in options]
    for _ in range(2):  # it can be repeated
        command = [str(find_binaries() / "psql"), *options, owner]
        environment = {**os.environ, "SERVER_PASSWORD": SECRET}
        subprocess.run(command, env=environment, check=True, capture_output=True)


def test_what_the_image_takes_is_there_and_is_not_ignored() -> None:
    ignored = (DEPLOY / "Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()

    assert [path for path in copied_paths() if not (ROOT / path).exists()] == []
    assert [path for path in copied_paths() if f"!{path}" not in ignored] == []
    assert ignored[0] == "*"


def test_what_the_image_runs_is_valid_for_a_shell() -> None:
    scripts = [each.argument for each in instructions() if each.name == "RUN"]
    runs = [subprocess.run(["sh", "-n", "-c", script], check=False) for script in scripts]

    assert [run.returncode for run in runs] == [0] * 3


def test_what_the_image_removes_is_what_the_lock_brought() -> None:
    text = " ".join(each.argument for each in instructions() if each.name == "RUN")
    names = set(" ".join(re.findall(r"uninstall --yes ([\w -]+?) &&", text)).split())
    locked = {name for name, _ in pins(ROOT / "requirements-serve.lock")}

    assert names
    assert names <= locked


def test_the_image_has_a_user_without_rights_and_is_ready_for_production() -> None:
    user = final_stage()["USER"]

    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)
    assert image_variables()["CLEW_ENV"] == "production"
    assert image_variables()["AUTH_MODE"] == "keys"
    assert final_stage()["EXPOSE"] == HEALTH_PORT


def test_every_variable_that_is_set_is_a_setting() -> None:
    texts = [path.read_text(encoding="utf-8") for path in DEPLOY.iterdir()]
    table = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    variables = {name for text in texts for name in VARIABLE.findall(text)}

    assert len(variables) > 5
    assert [name for name in variables if f"`{name}`" not in table] == []


def test_the_services_use_what_is_there() -> None:
    all_services = services()
    builds = [service["build"] for service in all_services.values() if "build" in service]
    mounts = [each for service in all_services.values() for each in service.get("volumes", ())]
    files = [each.partition(":")[0] for each in mounts if each.startswith(".")]
    needs = {name for service in all_services.values() for name in service.get("depends_on", ())}

    assert [build["dockerfile"] for build in builds] == ["deploy/Containerfile"] * 2
    assert [file for file in files if not (DEPLOY / file).is_file()] == []
    assert needs <= all_services.keys()


def test_the_services_need_no_more_than_the_example_of_an_environment_names() -> None:
    compose = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    example = (DEPLOY / "example.env").read_text(encoding="utf-8")
    names = set(re.findall(r"\$\{(\w+)", compose))

    assert names == set(re.findall(r"^(\w+)=", example, re.MULTILINE))
    assert re.findall(r"^\w*(?:PASSWORD|SECRET)=(.+)$", example, re.MULTILINE) == []


def test_only_this_machine_reaches_the_services() -> None:
    ports = [port for service in services().values() for port in service.get("ports", ())]

    assert ports == [f"127.0.0.1:{HEALTH_PORT}:{HEALTH_PORT}"]


def test_every_command_is_one_of_clew() -> None:
    (pod,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    start = dict(unit_settings())["ExecStart"].split()
    named = {
        command.name or command.callback.__name__
        for command in build_app().registered_commands
        if command.callback
    }
    used = [image_command()[1], services()["migrate"]["command"][0], pod["args"][0], start[1]]

    assert used == ["serve", "migrate", "serve", "serve"]
    assert set(used) <= named


def test_the_manifest_holds_together() -> None:
    deployment, service = manifest("Deployment")["spec"], manifest("Service")["spec"]
    (pod,) = deployment["template"]["spec"]["containers"]
    mounts = {mount["name"] for mount in pod["volumeMounts"]}

    assert deployment["selector"]["matchLabels"] == deployment["template"]["metadata"]["labels"]
    assert service["selector"] == deployment["selector"]["matchLabels"]
    assert [port["targetPort"] for port in service["ports"]] == [port["name"] for port in pod["ports"]]
    assert [port["containerPort"] for port in pod["ports"]] == [int(HEALTH_PORT)]
    assert mounts == {volume["name"] for volume in deployment["template"]["spec"]["volumes"]}


def test_the_manifest_runs_the_image_s_user_and_probes_routes_that_exist() -> None:
    template = manifest("Deployment")["spec"]["template"]["spec"]
    (pod,) = template["containers"]
    user = template["securityContext"]
    paths = {pod[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    routes = {f"{API_PREFIX}{route.path}" for route in (HEALTH, READY) if route.open_to_all}

    assert f"{user['runAsUser']}:{user['runAsGroup']}" == final_stage()["USER"]
    assert paths == routes


def test_no_secret_is_written_down_in_the_manifest() -> None:
    (pod,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    secret = {
        each["name"]: each["valueFrom"]["secretKeyRef"]["name"] for each in pod["env"] if "valueFrom" in each
    }

    assert secret == {"CLEW_SERVER_URL": "clew", "CLEW_SERVER_SECRET": "clew"}


@pytest.mark.skipif(ANALYZE is None, reason="systemd is not on this machine")
def test_systemd_accepts_the_unit_and_calls_it_safe(tmp_path: Path) -> None:
    unit = tmp_path / "clew.service"
    text = (DEPLOY / "clew.service").read_text(encoding="utf-8").replace("/opt/clew/bin/clew", CLEW)
    unit.write_text(text, encoding="utf-8")
    options = ["--offline=true", f"--threshold={SAFEST_EXPOSURE}", "--no-pager"]
    commands = [["verify"], ["security", *options]]

    runs = [
        subprocess.run([str(ANALYZE), *each, str(unit)], capture_output=True, text=True, check=False)
        for each in commands
    ]

    assert [run.returncode for run in runs] == [0, 0], runs
    assert runs[0].stderr == ""


def test_the_image_refuses_to_start_without_a_database_and_a_secret(tmp_path: Path) -> None:
    command = [CLEW, *image_command()[1:], "--check"]
    run = subprocess.run(
        command, cwd=tmp_path, env=variables_of(), capture_output=True, text=True, check=False
    )

    assert run.returncode == 1
    assert re.findall(r"\((\w+)\)", run.stdout) == ["no_tls", "database_required", "secret_missing"]


@pytest.mark.slow
@pytest.mark.postgres
def test_the_services_start_are_well_and_stop(private_postgres: PostgresServer, tmp_path: Path) -> None:
    private_postgres.start()
    private_postgres.create_database("clew")
    prepare_database(private_postgres, tmp_path)
    port = free_port()
    with container(private_postgres.url("clew", "clew_server"), port, tmp_path) as child:
        wait_until_healthy(child, port)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/ready", timeout=5) as response:
            ready = response.status
        child.send_signal(signal.SIGTERM)
        code = child.wait(timeout=30)

    assert ready == 200
    assert code in (0, -signal.SIGTERM)  # it has stopped well, and then ends as it was told
    assert not is_healthy(port)
