"""A switch of each test's own, whose program has one of everything, and BMv2's command line."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SWITCH = Path(os.environ.get("REPRISE_SWITCH_PROGRAM", ROOT / "target/release/reprise-switch"))
PROGRAM = ROOT / "crates/thrift-server/tests/fixture/entities.p4"
PATIENCE_S = 60


@dataclass
class Switch:
    """A switch that runs."""

    ip: str
    port: int

    def cli(self, commands: str, folder: Path) -> str:
        """What `simple_switch_CLI` prints for commands on its standard input, in this folder."""
        program = Path(sys.executable).with_name("simple_switch_CLI")
        command = [sys.executable, str(program)]
        command += ["--thrift-ip", self.ip, "--thrift-port", str(self.port)]
        ended = subprocess.run(
            command,
            input=commands,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        return ended.stdout


@pytest.fixture
def switch() -> Iterator[Switch]:
    """One that serves Thrift alone, on a free port."""
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
