"""What is measured: the switch with its engines and ports, and its peers.

Each is started in the forwarder's namespace, on the forwarder's processor, set up for a number of
viewers, and ended.
"""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from lab.bench import bmv2
from lab.bench.counters import METRICS_ADDRESS
from lab.bench.pair import (
    AUDIO_UDP_PORT,
    FIRST_VIEWER_IP,
    FORWARDER_CPU,
    FORWARDER_INTERFACE,
    FORWARDER_IP,
    FORWARDER_MAC,
    HOST_IP,
    HOST_MAC,
    LOAD_CPU,
    SFU_UDP_PORT,
    VIEWER_UDP_PORT,
    Pair,
    on_cpu,
    viewer_ips,
)
from lab.controller import REPRISE
from lab.peers import program
from lab.process import Child, run
from lab.switch import (
    GRPC_ADDRESS,
    READY_TIMEOUT_S,
    RECIRCULATION_PROGRAM,
    REPLICATION_PROGRAM,
    SWITCH,
)

PROGRAMS = {
    "reprise_recirculation": RECIRCULATION_PROGRAM,
    "reprise_replication": REPLICATION_PROGRAM,
}
PRIORITY = "reprise_priority"
"""The replication program with a second, urgent stream: not in the table of fan-out."""
PRIORITY_PROGRAM = Path(__file__).with_name("sfu_priority.p4")
INCLUDE = RECIRCULATION_PROGRAM.parent
SET_UP_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Forwarder:
    """One row of fanout.csv; `engine` is empty where there is none to choose."""

    forwarder: str
    engine: str
    port: str
    wait: str

    def __str__(self) -> str:
        return " ".join(
            part for part in (self.forwarder, self.engine, self.port, self.wait) if part
        )


@dataclass(frozen=True, slots=True)
class Running:
    """A forwarder that is set up."""

    pids: tuple[int, ...]
    has_metrics: bool = False
    """Whether `lab.bench.counters` can ask it."""

    def cpu_s(self) -> float:
        """Processor time that it has used."""
        # Nanoseconds of each thread; /proc/PID/stat counts ticks of ten milliseconds.
        files = [
            file for pid in self.pids for file in Path(f"/proc/{pid}/task").glob("*/schedstat")
        ]
        return sum(int(file.read_text().split()[0]) for file in files) / 1e9


@contextlib.contextmanager
def running(forwarder: Forwarder, n_viewers: int) -> Iterator[tuple[Pair, Running]]:
    """A pair with the forwarder at its end, set up for so many viewers."""
    with (
        tempfile.TemporaryDirectory(prefix="reprise-bench-") as folder,
        Pair(with_address=forwarder.port == "udp") as pair,
    ):
        peers = {"ovs": _ovs, "relay": _relay, "raw": _nothing}
        start = peers.get(forwarder.forwarder, _reprise)
        if forwarder.forwarder in bmv2.PROGRAMS:
            start = _bmv2
        with start(forwarder, pair, n_viewers, Path(folder)) as set_up:
            yield pair, set_up


@contextlib.contextmanager
def _nothing(forwarder: Forwarder, pair: Pair, n_viewers: int, folder: Path) -> Iterator[Running]:
    yield Running(())


@contextlib.contextmanager
def _bmv2(forwarder: Forwarder, pair: Pair, n_viewers: int, folder: Path) -> Iterator[Running]:
    with bmv2.running_bmv2(forwarder.forwarder, pair, n_viewers, folder) as switch:
        yield Running((switch.pid,))


def bmv2_forwarders() -> list[Forwarder]:
    """Where there is a simple_switch; it sleeps."""
    names = bmv2.PROGRAMS if bmv2.binary_path() else ()
    return [Forwarder(name, "", "afpacket", "sleep") for name in names]


@contextlib.contextmanager
def _relay(forwarder: Forwarder, pair: Pair, n_viewers: int, folder: Path) -> Iterator[Running]:
    argv = [
        str(program("relay")),
        *("--io", forwarder.port, "--wait", forwarder.wait),
        *("--interface", FORWARDER_INTERFACE, "--viewers", str(n_viewers)),
        *("--sfu", f"{FORWARDER_IP}:{SFU_UDP_PORT}"),
        *("--first-viewer", f"{FIRST_VIEWER_IP}:{VIEWER_UDP_PORT}"),
        *("--sfu-mac", FORWARDER_MAC, "--next-hop", HOST_MAC),
    ]
    with pair.forwarder.start(on_cpu(FORWARDER_CPU, argv), folder / "relay.log") as child:
        child.wait_for_line("ready", READY_TIMEOUT_S)
        yield Running((child.pid,))


def _port_option(forwarder: Forwarder) -> str:
    if forwarder.port == "udp":
        return f"1@udp:{FORWARDER_IP}:{SFU_UDP_PORT}"
    kind = "afxdp:" if forwarder.port == "afxdp" else ""
    return f"1@{kind}{FORWARDER_INTERFACE}"


def udp_port_mac(ip: IPv4Address) -> str:
    """The address that a UDP port of the switch gives to an IPv4 address (docs/ports.md)."""
    return ":".join(f"{byte:02x}" for byte in (2, 0, *ip.packed))


def conference(n_viewers: int, *, sfu_mac: str, with_ports: bool, with_audio: bool = False) -> str:
    """A conference file: one presenter, and viewers whose MAC is the host's.

    Without ports copies keep that of the stream: the recirculation program has no place for others.
    With audio there is a second stream, whose viewers' addresses follow the first's.
    """

    def group(number: int, udp_port: int, ips: Sequence[IPv4Address]) -> dict[str, object]:
        viewer_port = {"udp_port": VIEWER_UDP_PORT} if with_ports else {}
        stream_port = {"udp_port": udp_port} if with_ports else {}
        viewers = [{"ip": str(ip), "mac": HOST_MAC, **viewer_port} for ip in ips]
        return {"group": number, "ip": str(HOST_IP), **stream_port, "viewers": viewers}

    sfu = {"port": 1, "ip": str(FORWARDER_IP), "mac": sfu_mac}
    ips = viewer_ips(2 * n_viewers)
    groups = [group(1, SFU_UDP_PORT, ips[:n_viewers])]
    if with_audio:
        groups.append(group(2, AUDIO_UDP_PORT, ips[n_viewers:]))
    return json.dumps({"sfu": sfu, "groups": groups}, indent=1)


@contextlib.contextmanager
def _reprise(forwarder: Forwarder, pair: Pair, n_viewers: int, folder: Path) -> Iterator[Running]:
    told = conference(
        n_viewers,
        sfu_mac=udp_port_mac(FORWARDER_IP) if forwarder.port == "udp" else FORWARDER_MAC,
        with_ports=forwarder.forwarder != "reprise_recirculation",
        with_audio=forwarder.forwarder == PRIORITY,
    )
    with switch(forwarder, pair, told, folder) as child:
        yield Running((child.pid,), has_metrics=True)


@contextlib.contextmanager
def switch(forwarder: Forwarder, pair: Pair, told: str, folder: Path) -> Iterator[Child]:
    """`reprise-switch` with what a conference file tells it."""
    program = PROGRAMS.get(forwarder.forwarder, PRIORITY_PROGRAM)
    argv = [
        str(SWITCH),
        *("-i", _port_option(forwarder), "--grpc", GRPC_ADDRESS, "--metrics", METRICS_ADDRESS),
        *("--engine", forwarder.engine, "--wait", forwarder.wait),
        *("--include", str(INCLUDE), str(program)),
    ]
    file = folder / "conference.yaml"
    file.write_text(told)
    run(["ip", "-n", pair.forwarder.name, "link", "set", "lo", "up"])
    with pair.forwarder.start(on_cpu(FORWARDER_CPU, argv), folder / "switch.log") as child:
        child.wait_for_line("ready:", READY_TIMEOUT_S)
        apply = [str(REPRISE), "--switch", GRPC_ADDRESS, "apply", str(file)]
        pair.forwarder.run(on_cpu(LOAD_CPU, apply), timeout_s=SET_UP_TIMEOUT_S)
        yield child


def has_open_vswitch() -> bool:
    """Whether Open vSwitch is installed."""
    return all(shutil.which(name) for name in ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl"))


def _bucket(ip: object) -> str:
    return (
        f"bucket=actions=set_field:{HOST_MAC}->eth_dst,set_field:{ip}->ip_dst,"
        f"set_field:{VIEWER_UDP_PORT}->udp_dst,output:in_port"
    )


@contextlib.contextmanager
def _ovs(forwarder: Forwarder, pair: Pair, n_viewers: int, folder: Path) -> Iterator[Running]:
    names = ("RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR")
    environment = ["env", *(f"OVS_{name}={folder}" for name in names)]
    database, socket = folder / "conf.db", f"unix:{folder}/db.sock"

    def say(*argv: str) -> None:
        pair.forwarder.run([*environment, *argv], timeout_s=SET_UP_TIMEOUT_S)

    def vsctl(*arguments: str) -> None:
        say("ovs-vsctl", f"--db={socket}", "--timeout=30", *arguments)

    def start(name: str, cpu: int, argv: list[str]) -> Child:
        log = folder / f"{name}.log"
        return pair.forwarder.start(on_cpu(cpu, [*environment, name, *argv]), log)

    schema = "/usr/share/openvswitch/vswitch.ovsschema"
    say("ovsdb-tool", "create", str(database), schema)
    with start("ovsdb-server", LOAD_CPU, [str(database), f"--remote=p{socket}"]):
        say("ovs-vsctl", f"--db={socket}", "--no-wait", "--retry", "--timeout=30", "init")
        mask = f"other_config:pmd-cpu-mask={1 << FORWARDER_CPU:#x}"
        vsctl("--no-wait", "set", "Open_vSwitch", ".", mask)
        with start("ovs-vswitchd", FORWARDER_CPU, [socket]) as daemon:
            vsctl(
                "add-br",
                "br0",
                "--",
                "set",
                "bridge",
                "br0",
                "datapath_type=netdev",
                "fail_mode=secure",
                "protocols=OpenFlow13",
            )
            kind = [] if forwarder.port == "system" else ["type=afxdp"]
            options = ["--", "set", "interface", FORWARDER_INTERFACE, *kind] if kind else []
            vsctl("add-port", "br0", FORWARDER_INTERFACE, *options)
            buckets = ",".join(_bucket(ip) for ip in viewer_ips(n_viewers))
            group = folder / "group"
            group.write_text(f"group_id=1,type=all,{buckets}\n")
            say("ovs-ofctl", "-O", "OpenFlow13", "add-groups", "br0", str(group))
            match = f"udp,nw_dst={FORWARDER_IP},tp_dst={SFU_UDP_PORT}"
            actions = (
                f"set_field:{FORWARDER_MAC}->eth_src,set_field:{FORWARDER_IP}->ip_src,"
                f"set_field:{SFU_UDP_PORT}->udp_src,dec_ttl,group:1"
            )
            say("ovs-ofctl", "-O", "OpenFlow13", "add-flow", "br0", f"{match},actions={actions}")
            yield Running((daemon.pid,))
