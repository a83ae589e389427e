"""The SFUs that are P4 programs, run by `reprise-switch` and set up by `reprise`.

The lab calls an SFU that it measures a row.
"""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import ClassVar

from lab.colours import BLUE, GREEN
from lab.controller import REPRISE
from lab.counters import METRICS_ADDRESS
from lab.rows import in_kernel
from lab.rows.row import ProcessRow, Variant
from lab.sites import LOAD_CPU, SFU_IP, SFU_UDP_PORT, Link, Participant, Stream, on_cpu
from lab.switch import (
    GRPC_ADDRESS,
    RECIRCULATION_PROGRAM,
    REPLICATION_PROGRAM,
    SWITCH,
    require_build,
)

APPLY_TIMEOUT_S = 120.0
KERNEL_VARIANTS = tuple(
    Variant("kernel", variant.port, variant.wait) for variant in in_kernel.VARIANTS
)
SWITCH_VARIANTS = (
    *(
        Variant(engine, port, wait)
        for engine, port, wait in product(
            ("native", "interpreter"), ("afpacket", "afxdp", "udp"), ("sleep", "spin")
        )
    ),
    *KERNEL_VARIANTS,
)


class SwitchRow(ProcessRow):
    """`reprise-switch` with a program and with a port on every link of the site (`lab.sites`)."""

    program: ClassVar[Path | None] = None
    """The program that the switch starts with; None if a controller sets it."""
    variants = SWITCH_VARIANTS
    is_p4 = True
    options: tuple[str, ...] = ()
    """Further options of the switch."""
    _threads: tuple[int, ...] = ()

    def start(self) -> None:
        """Starts the switch with the program, if there is one, and what else the row needs."""
        require_build(SWITCH, REPRISE)
        if self.variant.port == "udp":
            self.site.give_address()
        is_in_kernel = self.variant.engine == "kernel"
        if is_in_kernel:
            in_kernel.take_redirected(self.site)
        argv = [str(SWITCH), "--grpc", GRPC_ADDRESS, "--metrics", METRICS_ADDRESS, *self.options]
        for link in self.site.links:
            argv += ["-i", f"{link.port}@{self._port(link)}"]
        wait = "sleep" if is_in_kernel else self.variant.wait
        argv += ["--engine", self.variant.engine, "--wait", wait]
        self.launch([*argv, str(self.program)] if self.program else argv, "switch.log", "ready:")
        self.set_up()
        if is_in_kernel:
            self._threads = in_kernel.threads(self.site, self.variant.wait)

    def set_up(self) -> None:
        """Starts what the row needs besides the switch. Called when the switch runs."""

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of the switch and of the kernel's threads that forward for it."""
        return (*super().pids, *self._threads)

    @property
    def is_on_load_cpu(self) -> bool:
        return self.variant.wait == in_kernel.SHARED

    def reprise(self, *arguments: str) -> str:
        """Runs a command of `reprise` in the switch's namespace; returns its output."""
        argv = [str(REPRISE), "--switch", GRPC_ADDRESS, *arguments]
        return self.site.sfu.run(on_cpu(LOAD_CPU, argv), timeout_s=APPLY_TIMEOUT_S)

    def sfu_mac(self, link: Link) -> str:
        """The SFU's Ethernet address on a link.

        A port of the switch on a UDP socket has an Ethernet address of its own (docs/ports.md).
        """
        if self.variant.port == "udp":
            return ":".join(f"{byte:02x}" for byte in (2, 0, *SFU_IP.packed))
        return link.sfu_mac

    def _port(self, link: Link) -> str:
        if self.variant.port == "udp":
            return f"udp:{SFU_IP}:{SFU_UDP_PORT}"
        kind = "afxdp:" if self.variant.port in ("afxdp", in_kernel.PORT) else ""
        return f"{kind}{link.sfu_interface}"


class ConferenceRow(SwitchRow):
    """One of the project's SFU programs; `reprise apply` sets up a group for each stream."""

    fanout = (
        Variant("interpreter", "afpacket", "spin"),
        *(
            Variant("native", port, wait)
            for port, wait in product(("afpacket", "afxdp"), ("spin", "sleep"))
        ),
        Variant("native", "udp", "spin"),
    )
    overload: ClassVar[tuple[Variant, ...]] = (
        Variant("interpreter", "afpacket", "spin"),
        Variant("native", "afpacket", "spin"),
        Variant("native", "afxdp", "spin"),
    )
    has_stream_ports: ClassVar[bool]
    """Whether the program distinguishes UDP ports: a sender may have several streams, and each
    viewer has its own port."""

    def start(self) -> None:
        self._groups: dict[int, dict[str, object]] = {}
        super().start()

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        self.subscribe_all([(stream, viewers)])

    def subscribe_all(self, subscriptions: Sequence[tuple[Stream, Sequence[Participant]]]) -> None:
        """Sets up all groups at once, by a file with the whole conference."""
        for stream, viewers in subscriptions:
            self._groups[stream.number] = self._group(stream, viewers)
        sfu = [
            {"port": link.port, "ip": str(SFU_IP), "mac": self.sfu_mac(link)}
            for link in self.site.links
        ]
        file = self.folder / "conference.json"
        groups = list(self._groups.values())
        file.write_text(json.dumps({"sfu": sfu, "groups": groups}, indent=1) + "\n")
        self.reprise("apply", str(file))

    def _group(self, stream: Stream, viewers: Sequence[Participant]) -> dict[str, object]:
        of_stream = {"udp_port": stream.udp_port} if self.has_stream_ports else {}
        of_viewer = {"udp_port": stream.viewer_udp_port} if self.has_stream_ports else {}
        several = len(self.site.links) > 1
        return {
            "group": stream.number,
            "ip": str(stream.sender.ip),
            **of_stream,
            "viewers": [
                {
                    "ip": str(viewer.ip),
                    "mac": viewer.mac,
                    **of_viewer,
                    **({"port": viewer.port} if several else {}),
                }
                for viewer in viewers
            ],
        }


class P4Replication(ConferenceRow):
    name = "p4_replication"
    label = "P4, replication"
    source = "Reprise"
    look = (GREEN, "s")
    rank = 1
    overload = (*ConferenceRow.overload, *reversed(KERNEL_VARIANTS))
    program = REPLICATION_PROGRAM
    topologies = ("one_port", "port_per_host")
    has_stream_ports = True


class P4Recirculation(ConferenceRow):
    name = "p4_recirculation"
    label = "P4, recirculation"
    source = "thesis"
    look = (BLUE, "o")
    rank = 2
    program = RECIRCULATION_PROGRAM
    has_stream_ports = False
