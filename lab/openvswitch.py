"""A star with Open vSwitch in the middle, its datapath in user space: no kernel module is needed.

Its daemons live in the bridge's namespace and keep their files in a folder of their own, so an
Open vSwitch of the system is neither used nor disturbed.
"""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab.netns import NAME_PREFIX, Star
from lab.process import Child, deaf_to_signals, real_time_prefix

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
TIMEOUT_S = 20.0


class OpenVSwitchStar(Star):
    """The star of `lab.netns`; only the middle differs.

    A flow leads to each station, as the bridge has a permanent entry: no copy is flooded.
    """

    def __init__(self, n_hosts: int, *, mtu_bytes: int = 1500) -> None:
        super().__init__(n_hosts, mtu_bytes=mtu_bytes)
        self._files: Path | None = None
        self._daemons: list[Child] = []

    def _make_centre(self) -> None:
        files = self._files = Path(tempfile.mkdtemp(prefix=f"{NAME_PREFIX}-ovs-"))
        database = str(files / "conf.db")
        self._run("ovsdb-tool", "create", database, str(SCHEMA))
        self._start(files, "ovsdb-server", database, f"--remote=p{self._socket}")
        self._vsctl("--retry", "--no-wait", "init")
        # It lies between the sender and the capture; unlike the bridge it may wait for a processor.
        self._start(files, "ovs-vswitchd", self._socket, prefix=real_time_prefix())
        # Without --no-wait a command returns when the daemon has done it.
        in_user_space = ("datapath_type=netdev", "fail_mode=secure")
        self._vsctl("add-br", "br0", "--", "set", "bridge", "br0", *in_user_space)
        self._add_flow("priority=1,dl_dst=ff:ff:ff:ff:ff:ff,actions=flood")

    def _attach(self, port: str, mac: str) -> None:
        # Open vSwitch takes the port down and up when it claims it.
        self._vsctl("add-port", "br0", port)
        number = self._vsctl("get", "interface", port, "ofport").strip()
        self._add_flow(f"priority=2,dl_dst={mac},actions=output:{number}")

    def remove(self) -> None:
        """Ends the daemons and removes their files, then what every star removes."""
        with deaf_to_signals():
            for daemon in reversed(self._daemons):
                daemon.stop()
            super().remove()
            if self._files is not None:
                shutil.rmtree(self._files, ignore_errors=True)

    @property
    def _socket(self) -> str:
        return f"unix:{self._files}/db.sock"

    def _command(self, argv: tuple[str, ...]) -> list[str]:
        names = ("RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR")
        return ["env", *(f"OVS_{name}={self._files}" for name in names), *argv]

    def _run(self, *argv: str) -> str:
        return self.bridge.run(self._command(argv), timeout_s=TIMEOUT_S)

    def _vsctl(self, *arguments: str) -> str:
        return self._run("ovs-vsctl", f"--db={self._socket}", *arguments)

    def _add_flow(self, flow: str) -> None:
        self._run("ovs-ofctl", "add-flow", "br0", flow)

    def _start(self, files: Path, *argv: str, prefix: Sequence[str] = ()) -> None:
        log = files / f"{argv[0]}.log"
        self._daemons.append(self.bridge.start([*prefix, *self._command(argv)], log))
