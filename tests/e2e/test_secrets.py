"""Our tools hide values that a program declares secret; P4Runtime and Thrift use Unix sockets."""

import subprocess
from pathlib import Path

import pytest

from lab.process import REPOSITORY
from lab.switch import RELEASE, require_build

PROGRAMS = REPOSITORY / "crates/bin/switch/tests/programs"
SECRETS = ["5ec1e701", "5ec1e702", "5ec1e703", "5ec1e704", "70ce0000"]


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    require_build()


def told(*command: str | Path, lines: str = "") -> str:
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def is_hidden(text: str) -> bool:
    numbers = [number for digits in SECRETS for number in (digits, str(int(digits, 16)))]
    return not any(number in text.lower() for number in numbers)


def test_secrets_are_read_as_zeros_with_every_tool_over_unix_sockets(tmp_path: Path) -> None:
    grpc, thrift = f"unix:{tmp_path / 'grpc'}", tmp_path / "thrift"
    command: list[str | Path] = [RELEASE / "reprise-switch", "-i", "1@udp:127.0.0.1:0"]
    command += ["--grpc", grpc, "--thrift-socket", thrift]
    command += ["--entries", PROGRAMS / "secrets.entries.txtpb", PROGRAMS / "secrets.p4"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as switch:
        try:
            assert switch.stderr is not None
            assert switch.stderr.readline().startswith("ready: ")
            reprise = RELEASE / "reprise"
            shown = told(reprise, "p4rt", "--switch", grpc, lines="dump --registers\n")
            assert "key=<secret>" in shown
            # The register's cells are read as zeros, and a dump leaves zeros out.
            assert "register set kept" not in shown
            assert "token=<secret>" in shown
            assert is_hidden(shown)
            lines = (
                "table_dump Seal.seals\ntable_dump Seal.shared\n"
                "act_prof_dump Seal.keys\nregister_read Seal.kept\n"
                "register_read Seal.kept 1\ntable_dump_entry Seal.seals 0\n"
            )
            cli = RELEASE / "simple_switch_CLI"
            dumped = told(cli, "--thrift-ip", f"unix:{thrift}", lines=lines)
            assert "Seal.kept= 0, 0" in dumped
            assert "Seal.kept[1]= 0" in dumped
            assert "Seal.seal - 02, 00" in dumped
            assert is_hidden(dumped)
        finally:
            switch.terminate()
    assert switch.returncode == 0
    assert not thrift.exists()
