"""Tests p4runtime-shell, which uses gRPC's Python library, over the switch's Unix socket."""

import subprocess
from pathlib import Path

import p4runtime_sh.shell as sh
import pytest
from conftest import pipeline
from switch import BRIDGE, DEVICE_ID, SWITCH


@pytest.mark.parametrize("name", ["unix:{}", "unix://{}"])
def test_the_shell_sets_a_pipeline_over_a_unix_socket(name: str, tmp_path: Path) -> None:
    socket = tmp_path / "s1.sock"
    command = [SWITCH, "-i", "2@udp:127.0.0.1:0", "--grpc", f"unix:{socket}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            ready = process.stderr.readline()
            assert f"P4Runtime on unix:{socket}, " in ready
            assert socket.stat().st_mode & 0o777 == 0o600
            address = name.format(socket)
            sh.setup(device_id=DEVICE_ID, grpc_addr=address, config=pipeline(BRIDGE))
            try:
                assert sh.client.get_p4info() == sh.context.p4info
            finally:
                sh.teardown()
        finally:
            process.terminate()
    assert process.returncode == 0
    assert not socket.exists()
