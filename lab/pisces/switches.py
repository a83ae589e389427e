"""Starts the switches that are compared, on a site with a link for each port of a network.

A site is a set of network namespaces and links. All switches run in the SFU's namespace on
`SFU_CPU`; commands that write the switches' entries run on `LOAD_CPU`. The kernel engine and Linux
forward on the processor that sends.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.controller import REPRISE
from lab.pisces import linux, openflow, p4_entries
from lab.pisces.network import Network
from lab.process import REPOSITORY, Child, ChildError, InTurn, run
from lab.rows import in_kernel
from lab.rows.open_vswitch import BRIDGE, PROTOCOL, Daemons, OvsGroup
from lab.sites import LOAD_CPU, SFU_CPU, PortPerHost, on_cpu
from lab.switch import LOSE_NOTHING, READY_TIMEOUT_S, SWITCH, require_build

FLOW_IDLE_MS = 3_600_000
"""Open vSwitch forgets a flow without packets after this time, which is longer than any study."""
REPRISE_NAME, OVS_NAME = "reprise", "ovs"
KERNEL_NAME, LINUX_NAME = "kernel", "linux"
"""The kernel engine and Linux' own forwarding, which only `lab.pisces.switching` compares."""
NAIVE, OPTIMISED = "naive", "optimised"
OFF, ON = "off", "on"
CACHES = ("microflow-cache", "megaflow-cache")
"""The optimisations of `reprise-switch --optimise` that are flow caches and depend on no others."""
PREFETCH = "flow-prefetch"
"""Fills the flow cache ahead of time; useless without a cache and other optimisations."""
OTHERS = (
    "action-specialisation",
    "parser-specialisation",
    "inline-editing",
    "incremental-checksum",
    "fanout-fusion",
)
EMC = {OFF: "0", ON: "1"}
"""The values of Open vSwitch's `emc-insert-inv-prob`. With the value n, one of n packets that miss
the exact-match cache enters its flow into the cache; with 0 no packet does."""
PORTS = {"afxdp": "spin", "afpacket": "sleep"}
"""The ports that both switches have, and how both wait on them: Open vSwitch spins on AF_XDP and
sleeps on AF_PACKET."""


@dataclass(frozen=True, slots=True)
class Contestant:
    switch: str
    variant: str
    """`naive` or `optimised`; empty for switches that have only one variant."""
    flow_caches: str
    """`off` or `on`; empty for switches without flow caches."""

    def __str__(self) -> str:
        caches = f"caches {self.flow_caches}" if self.flow_caches else ""
        return " ".join(part for part in (self.switch, self.variant, caches) if part)

    @property
    def is_in_kernel(self) -> bool:
        """Whether the kernel alone forwards, so that no process sees the packets."""
        return self.switch in (KERNEL_NAME, LINUX_NAME)


CONTESTANTS = (
    *(Contestant(REPRISE_NAME, variant, on) for variant in (NAIVE, OPTIMISED) for on in (OFF, ON)),
    *(Contestant(OVS_NAME, "", on) for on in (OFF, ON)),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A contestant's set-up: the kind of its ports, its program, its network."""

    contestant: Contestant
    port: str
    """One of `PORTS`."""
    program: str
    """One of `network.PROGRAMS`."""
    network: Network


Started = contextlib.AbstractContextManager[Child | None]
"""The process of a contestant, or None if the contestant has none."""
Start = Callable[[Setting, PortPerHost, Path], Started]
"""A function that starts a contestant on a site and puts its files into a folder."""


@dataclass(frozen=True, slots=True)
class Running(InTurn):
    setting: Setting
    site: PortPerHost
    pids: tuple[int, ...]
    """Empty for Linux' own forwarding."""


def optimise_option(variant: str, flow_caches: str) -> str:
    names = [*(CACHES if flow_caches == ON else ()), *(OTHERS if variant == OPTIMISED else ())]
    if flow_caches == ON and variant == OPTIMISED:
        names.append(PREFETCH)
    return ",".join(names) or "none"


@contextlib.contextmanager
def running(setting: Setting, folder: Path) -> Iterator[Running]:
    """Makes a site and runs the contestant on it, set up for the network. Files go to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    starts: dict[str, Start] = {
        OVS_NAME: _ovs,
        KERNEL_NAME: _kernel,
        LINUX_NAME: _linux,
        REPRISE_NAME: _reprise,
    }
    start = starts[setting.contestant.switch]
    with PortPerHost(len(setting.network.ports)) as site, contextlib.ExitStack() as stack:
        for link in site.links:
            # Without GRO, a port that has no XDP program accepts no frames from the load's XDP
            # program.
            site.sfu.run(["ethtool", "-K", link.sfu_interface, "gro", "on"])
        child = stack.enter_context(start(setting, site, folder))
        up = Running(setting, site, (child.pid,) if child else ())
        try:
            yield up
        finally:
            # A process that SIGSTOP has stopped cannot end, so the contestant gets SIGCONT before
            # it is ended.
            up.go_on()


@functools.cache
def p4info_of(program: str, folder: Path) -> p4_entries.P4Info:
    """Compiles a program of p4/bench and returns its P4Info, which has the ids."""
    argv = [str(REPRISE), "compile", str(source_of(program)), "-o", str(folder)]
    run(on_cpu(LOAD_CPU, argv))
    return p4_entries.p4info_of((folder / f"{program}.p4info.txtpb").read_text())


def source_of(program: str) -> Path:
    return REPOSITORY / "p4" / "bench" / f"{program}.p4"


def _reprise(setting: Setting, site: PortPerHost, folder: Path) -> Started:
    contestant = setting.contestant
    optimise = optimise_option(contestant.variant, contestant.flow_caches)
    options = ["--wait", PORTS[setting.port], "--optimise", optimise]
    return _switch(setting, site, folder, options)


def _kernel(setting: Setting, site: PortPerHost, folder: Path) -> Started:
    in_kernel.take_redirected(site)
    return _switch(setting, site, folder, ["--engine", "kernel", "--wait", "sleep"])


def _linux(setting: Setting, site: PortPerHost, folder: Path) -> Started:
    interfaces, program = [link.sfu_interface for link in site.links], setting.program
    name, network = site.sfu.name, setting.network
    if program == "l2":
        commands = linux.bridge_of(network, interfaces)
        run(["ip", "-n", name, "-batch", "-"], stdin="\n".join(commands))
        stations = "\n".join(linux.stations_of(network, interfaces))
        run(["bridge", "-n", name, "-batch", "-"], stdin=stations)
    elif program == "l2l3":
        site.sfu.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
        commands = linux.routes_of(network, interfaces)
        run(["ip", "-n", name, "-batch", "-"], stdin="\n".join(commands))
    else:
        raise ChildError(f"Linux has nothing of its own for {program}")
    return contextlib.nullcontext()


@contextlib.contextmanager
def _switch(
    setting: Setting, site: PortPerHost, folder: Path, options: Sequence[str]
) -> Iterator[Child]:
    require_build(SWITCH, REPRISE)
    port, program = setting.port, setting.program
    p4info = p4info_of(program, folder)
    entries = folder / "entries.txtpb"
    entries.write_text(p4_entries.write_request(program, setting.network, p4info))
    kind = "afxdp:" if port == "afxdp" else ""
    # For a fair comparison: Open vSwitch never drops a frame because it is old.
    options = [*LOSE_NOTHING, *options]
    argv = [str(SWITCH), "--grpc", "off", "--entries", str(entries), *options]
    for link in site.links:
        argv += ["-i", f"{link.port}@{kind}{link.sfu_interface}"]
    argv.append(str(source_of(program)))
    with site.sfu.start(on_cpu(SFU_CPU, argv), folder / "reprise-switch.log") as child:
        child.wait_for_line("ready:", READY_TIMEOUT_S)
        yield child


@contextlib.contextmanager
def _ovs(setting: Setting, site: PortPerHost, folder: Path) -> Iterator[Child]:
    if what := OvsGroup.lacks():
        raise ChildError(f"this machine lacks {what}")
    daemons = Daemons(site, folder)
    settings = {
        "pmd-cpu-mask": f"{1 << SFU_CPU:#x}",
        "max-idle": str(FLOW_IDLE_MS),
        "emc-insert-inv-prob": EMC[setting.contestant.flow_caches],
        "smc-enable": "false",
    }
    try:
        daemons.start(*(f"other_config:{name}={value}" for name, value in settings.items()))
        daemons.add_ports("afxdp" if setting.port == "afxdp" else "system")
        # With this setting, rules match the UDP and TCP ports in a first fragment, as the P4
        # programs do. By default they match no fragment's ports.
        daemons.say("ovs-ofctl", "-O", PROTOCOL, "set-frags", BRIDGE, "nx-match")
        program, network = setting.program, setting.network
        groups = (f"group add {line}" for line in openflow.groups_of(program, network))
        flows = (f"flow add {line}" for line in openflow.flows_of(program, network))
        daemons.bundle([*groups, *flows])
        assert daemons.switch is not None
        yield daemons.switch
    finally:
        daemons.stop()
