"""A star of network namespaces: hosts around one Linux bridge, and the SFU's link.

    h1 ... hN  --veth--  bridge  --veth--  sfu0 (no address; the switch alone speaks there)

The star is made with ip(8) in namespaces of its own, which are removed when the context of `Star`
ends for any reason. The bridge forwards at once (no spanning tree), knows every host from the start
(static entries, so no copy is flooded) and does not snoop on multicast. IPv6 is off, so that only
the lab's own frames are on the links.
"""

import atexit
import ctypes
import itertools
import os
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from lab.addresses import (
    N_HOSTS_MAX,
    SFU_MAC,
    SUBNET_PREFIX_LEN,
    ip_of,
    mac_of,
)
from lab.process import TERMINATION_TIMEOUT_S, Child, ChildError, deaf_to_signals, run

NAMESPACES = Path("/run/netns")
NAME_PREFIX = "reprise"
HOST_INTERFACE = "eth0"
SFU_INTERFACE = "sfu0"
SFU_LINK_AT_BRIDGE = "to-sfu"
MTU_MAX_BYTES = 9000
CLONE_NEWNET = 0x40000000

Result = TypeVar("Result")

_serial_numbers = itertools.count(1)


class NamespaceError(RuntimeError):
    """Network namespaces cannot be made here."""


@dataclass(frozen=True, slots=True)
class Namespace:
    name: str

    @property
    def path(self) -> Path:
        return NAMESPACES / self.name

    def command(self, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` inside. Unlike `ip netns exec`, it changes no mounts."""
        return ["nsenter", f"--net={self.path}", "--", *argv]

    def run(self, argv: Sequence[str], *, timeout_s: float = 120.0) -> str:
        return run(self.command(argv), timeout_s=timeout_s)

    def start(self, argv: Sequence[str], log: Path) -> Child:
        return Child(self.command(argv), log)

    def call(self, function: Callable[[], Result]) -> Result:
        """Calls `function` in the namespace, in a thread of its own."""

        def inside() -> Result:
            enter(str(self.path))
            return function()

        with ThreadPoolExecutor(max_workers=1) as executor:
            return executor.submit(inside).result()

    def set_offload(self, interface: str, *, on: bool) -> None:
        """Turns transmit checksum offload on or off. If off, the kernel writes checksums."""
        self.run(["ethtool", "-K", interface, "tx", "on" if on else "off"])

    def udp_counters(self) -> dict[str, int]:
        """The UDP counters of /proc/net/snmp (RFC 4113 and Linux' own), by name."""
        lines = self.run(["cat", "/proc/net/snmp"]).splitlines()
        names, values = (line.split()[1:] for line in lines if line.startswith("Udp:"))
        return {name: int(value) for name, value in zip(names, values, strict=True)}


class Network(ABC):
    """Namespaces that exist during the context and are removed when it ends for any reason.

    Several networks may exist at once, in one process or in many: their names contain the process
    id and a number.
    """

    def __init__(self) -> None:
        self.name = f"{NAME_PREFIX}-{os.getpid()}-{next(_serial_numbers)}"

    @property
    @abstractmethod
    def namespaces(self) -> tuple[Namespace, ...]:
        """All namespaces of the network."""

    @abstractmethod
    def _make(self) -> None:
        """Makes the namespaces and their content."""

    def __enter__(self) -> Self:
        require_namespaces()
        remove_leftovers()
        # An interrupt between the last line of a `with` block and `__exit__` would skip `__exit__`.
        atexit.register(self.remove)
        try:
            self._make()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Ends processes inside and removes every namespace; harmless when repeated."""
        with deaf_to_signals():
            for namespace in self.namespaces:
                if namespace.path.exists():
                    _end_processes(namespace)
                    run(["ip", "netns", "delete", namespace.name])
            atexit.unregister(self.remove)

    def _make_namespaces(self) -> None:
        for namespace in self.namespaces:
            run(["ip", "netns", "add", namespace.name])
            disable_ipv6(namespace)


class Star(Network):
    def __init__(self, n_hosts: int, *, mtu_bytes: int = 1500) -> None:
        if not 1 <= n_hosts <= N_HOSTS_MAX:
            raise ValueError(f"a star has 1 to {N_HOSTS_MAX} hosts, not {n_hosts}")
        if not 576 <= mtu_bytes <= MTU_MAX_BYTES:
            raise ValueError(f"the MTU is 576 to {MTU_MAX_BYTES} bytes, not {mtu_bytes}")
        super().__init__()
        self.mtu_bytes = mtu_bytes
        self.bridge = Namespace(f"{self.name}-bridge")
        self.sfu = Namespace(f"{self.name}-sfu")
        self._bridges = ["br0"]
        self._hosts = {n: Namespace(f"{self.name}-h{n}") for n in range(1, n_hosts + 1)}

    def host(self, number: int) -> Namespace:
        return self._hosts[number]

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        return (self.bridge, self.sfu, *self._hosts.values())

    def _make(self) -> None:
        self._make_namespaces()
        for bridge in self._bridges:
            self._make_bridge(bridge)
        for number, host in self._hosts.items():
            self._link(f"to-h{number}", host, HOST_INTERFACE, mac_of(number))
            address = f"{ip_of(number)}/{SUBNET_PREFIX_LEN}"
            run(["ip", "-n", host.name, "address", "add", address, "dev", HOST_INTERFACE])
        self._link(SFU_LINK_AT_BRIDGE, self.sfu, SFU_INTERFACE, SFU_MAC)

    def _link(self, port: str, far: Namespace, interface: str, mac: str) -> None:
        run(
            ["ip", "-n", self.bridge.name, "-batch", "-"],
            stdin=f"link add {port} mtu {self.mtu_bytes} type veth peer name {interface} "
            f"address {mac} mtu {self.mtu_bytes} netns {far.name}\n"
            f"link set {port} up\n",
        )
        run(
            ["ip", "-n", far.name, "-batch", "-"],
            stdin=f"link set lo up\nlink set {interface} addrgenmode none up\n",
        )
        self._attach(port, mac)

    def _make_bridge(self, name: str) -> None:
        run(
            ["ip", "-n", self.bridge.name, "-batch", "-"],
            stdin=f"link add {name} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n"
            f"link set {name} mtu {self.mtu_bytes} up\n",
        )

    def _bridge_at(self, port: str) -> str:
        """The bridge to which `port` belongs: in this class always the only one."""
        return self._bridges[0]

    def _attach(self, port: str, mac: str) -> None:
        """Connects `port` to its bridge and enters `mac` as the address behind it."""
        run(["ip", "-n", self.bridge.name, "link", "set", port, "master", self._bridge_at(port)])
        self._know(port, mac)

    def _know(self, port: str, mac: str) -> None:
        """Enters `mac` behind `port` in a bridge's table, so that no copy is flooded."""
        # `replace` instead of `add`, because the bridge may have learnt the address already.
        entry = [mac, "dev", port, "master", "static"]
        run(["bridge", "-n", self.bridge.name, "fdb", "replace", *entry])


# The script writes to /proc, because a minimal system lacks sysctl(8). A kernel without IPv6 lacks
# these files.
_DISABLE_IPV6 = """
for switch in /proc/sys/net/ipv6/conf/all/disable_ipv6 \\
              /proc/sys/net/ipv6/conf/default/disable_ipv6; do
    [ ! -e "$switch" ] || echo 1 > "$switch"
done
"""


def disable_ipv6(namespace: Namespace) -> None:
    """Turns IPv6 off on all present and future interfaces of `namespace`."""
    namespace.run(["sh", "-c", _DISABLE_IPV6])


def enter(namespace_path: str) -> None:
    """Moves the calling thread into the network namespace of a file in /run/netns."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(namespace_path).open() as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), namespace_path)


def require_namespaces() -> None:
    """Raises `NamespaceError`, which says what is missing, if namespaces cannot be made here."""
    if os.geteuid() != 0:
        raise NamespaceError(
            "network namespaces need root: run `make demo` or `make test`, or begin the command "
            "with scripts/in-namespaces"
        )
    probe = f"{NAME_PREFIX}-{os.getpid()}-probe"
    try:
        run(["ip", "netns", "add", probe])
        run(["ip", "netns", "delete", probe])
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except (OSError, ChildError) as error:
        raise NamespaceError(f"network namespaces cannot be had here: {error}") from error


def is_root_of_system() -> bool:
    """Whether this process may load BPF programs: it is root, and not only in a user namespace."""
    map_of_all = ["0", "0", "4294967295"]
    return os.geteuid() == 0 and Path("/proc/self/uid_map").read_text().split() == map_of_all


def remove_leftovers() -> None:
    """Removes the namespaces that lab processes left behind when they were killed."""
    for path in NAMESPACES.glob(f"{NAME_PREFIX}-*-*"):
        pid = path.name.split("-")[1]
        if pid.isdigit() and not Path("/proc", pid).exists():
            with suppress(ChildError):
                run(["ip", "netns", "delete", path.name])


def process_ids(namespace: Namespace) -> list[int]:
    return [int(pid) for pid in run(["ip", "netns", "pids", namespace.name]).split()]


def _end_processes(namespace: Namespace) -> None:
    deadline_s = time.monotonic() + TERMINATION_TIMEOUT_S
    while pids := process_ids(namespace):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, 15 if time.monotonic() < deadline_s else 9)
        time.sleep(0.02)
