"""A switch for each test, whose program has one object of every kind, and two command lines."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get("REPRISE_PROGRAMS", ROOT / "target/release"))
SWITCH = PROGRAMS / "reprise-switch"
OURS = PROGRAMS / "simple_switch_CLI"
PROGRAM = ROOT / "crates/control/thrift-server/tests/fixture/entities.p4"
PATIENCE_S = 120

CLIENTS = {
    "bmv2": [sys.executable, str(Path(sys.executable).with_name("simple_switch_CLI"))],
    "ours": [str(OURS)],
}


@dataclass
class Switch:
    ip: str
    port: int

    def cli(self, client: str, commands: str, folder: Path) -> "subprocess.CompletedProcess[str]":
        """Runs a command line in this folder, with these commands on its standard input."""
        command = [*CLIENTS[client], "--thrift-ip", self.ip, "--thrift-port", str(self.port)]
        return subprocess.run(
            command,
            input=commands,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )


@contextmanager
def running() -> Iterator[Switch]:
    """Runs a switch that serves Thrift alone, on a free port."""
    command = [str(SWITCH), "--grpc", "off", "--thrift-port", "0"]
    command += ["--device-id", "0", "-i", "1@udp:127.0.0.1:0", str(PROGRAM)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        ready = next((line for line in process.stderr if line.startswith("ready: ")), "")
        found = re.search(r"Thrift on ([0-9.]+):([0-9]+)", ready)
        assert found, f"expected where Thrift is served, found {ready!r}"
        yield Switch(found[1], int(found[2]))
        process.terminate()
        assert process.wait(timeout=PATIENCE_S) == 0


@pytest.fixture
def switch() -> Iterator[Switch]:
    with running() as switch:
        yield switch
