"""Runs a switch with one group in a star, and measures a burst through the switch.

A star is a network of hosts and the SFU around one bridge (`lab.netns`).
"""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.addresses import PRESENTER, SFU_IP, SFU_UDP_PORT, ip_of
from lab.capture import read_capture, start_capture
from lab.controller import Controller
from lab.delays import Matched, Summary, datagrams, match, summarise
from lab.netns import Star
from lab.pcap import Record
from lab.process import Child
from lab.switch import start_switch
from lab.traffic import Burst, Received, digest, read_received, start_receivers, start_sender

GROUP = 1
FIRST_VIEWER = PRESENTER + 1
SPARE_S = 120.0
"""The time that a step may take on a loaded machine, in addition to the time that it must take."""


class LabError(RuntimeError):
    """The lab itself failed, not the switch: for example, a viewer's socket overflowed."""


@dataclass(slots=True)
class Conference:
    """A star whose switch runs `program`; the presenter is host 1, viewers are hosts from 2 on."""

    star: Star
    program: Path
    switch: Child
    controller: Controller
    folder: Path
    viewers: list[int]

    def grow(self, n_viewers: int) -> None:
        """Adds viewers until there are `n_viewers`; the switch looks up their MACs."""
        for viewer in range(FIRST_VIEWER + len(self.viewers), FIRST_VIEWER + n_viewers):
            self.controller.add_viewer(GROUP, viewer)
            self.viewers.append(viewer)


@dataclass(frozen=True, slots=True)
class Observation:
    """The results of one burst: from the SFU's link and from the viewers' sockets."""

    records: list[Record]
    matched: Matched
    received: list[Received]


@contextlib.contextmanager
def conference(
    program: Path, folder: Path, n_hosts: int, *, is_in_kernel: bool = False
) -> Iterator[Conference]:
    """Starts a star and a switch with an address and a group, whose presenter is host 1.

    The group has no viewers yet. The switch starts empty: the controller sets the program, too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "switch.log"
    with (
        Star(n_hosts) as star,
        switch_with_group(star, program, log, is_in_kernel=is_in_kernel) as (switch, controller),
    ):
        yield Conference(star, program, switch, controller, folder, [])


@contextlib.contextmanager
def switch_with_group(
    star: Star, program: Path, log: Path, *, is_in_kernel: bool = False
) -> Iterator[tuple[Child, Controller]]:
    """Starts a switch and sets `program`, an address and a group with host 1 as presenter."""
    with start_switch(star, log, is_in_kernel=is_in_kernel) as switch:
        controller = Controller(star)
        controller.set_pipeline(program)
        controller.set_address()
        controller.add_group(GROUP, PRESENTER)
        yield switch, controller


def at_stream_port(hosts: Sequence[int], udp_port: int = SFU_UDP_PORT) -> list[tuple[int, int]]:
    """Pairs each host with the stream's UDP port, at which a viewer receives by default."""
    return [(host, udp_port) for host in hosts]


@contextlib.contextmanager
def observed(star: Star, folder: Path, receivers: Sequence[tuple[int, int]]) -> Iterator[None]:
    """Captures the SFU's link and lets sockets receive during the `with` block.

    After the block all files are complete. `receivers` are pairs of host and UDP port.
    """
    folder.mkdir(parents=True, exist_ok=True)
    hosts = sorted({host for host, _ in receivers})
    sockets = [(host, star.host(host), udp_port) for host, udp_port in receivers]
    before = {host: star.host(host).udp_counters() for host in hosts}
    with (
        start_capture(
            star.bridge, folder / "sfu.pcap", folder / "capture.log", mtu_bytes=star.mtu_bytes
        ) as capturing,
        start_receivers(sockets, folder / "received.csv", folder / "receivers.log") as receiving,
    ):
        yield
        receiving.finish(SPARE_S)
        capturing.finish(SPARE_S)
    for host in hosts:
        after = star.host(host).udp_counters()
        if n_lost := after["RcvbufErrors"] - before[host]["RcvbufErrors"]:
            raise LabError(f"the socket of h{host} overflowed: {n_lost} datagrams, run refused")


def read_observation(folder: Path) -> Observation:
    records = read_capture(folder / "sfu.pcap")
    matched = match(datagrams(records), SFU_IP)
    return Observation(records, matched, read_received(folder / "received.csv"))


def send_burst(star: Star, burst: Burst, folder: Path) -> None:
    with start_sender(star.host(burst.host), burst, folder / "sender.log") as sender:
        sender.expect_success(burst.duration_s + SPARE_S)


def measure(running: Conference, burst: Burst, folder: Path) -> tuple[Observation, Summary]:
    """Sends `burst` to the current viewers. Raw files and the summary go to `folder`."""
    with observed(running.star, folder, at_stream_port(running.viewers, burst.udp_port)):
        send_burst(running.star, burst, folder)
    observation = read_observation(folder)
    summary = summarise(observation.matched, [ip_of(viewer) for viewer in running.viewers])
    description = {
        "program": running.program.name,
        "burst": asdict(burst),
        "summary": asdict(summary),
        "received_by_viewer": {
            f"h{viewer}": sum(one.host == viewer for one in observation.received)
            for viewer in running.viewers
        },
    }
    (folder / "summary.json").write_text(json.dumps(description, indent=2) + "\n")
    return observation, summary


def undelivered(observation: Observation, burst: Burst, viewers: Sequence[int]) -> int:
    """How many (viewer, payload) pairs did not arrive exactly once at the viewer's socket."""
    arrived = Counter((one.host, one.payload_digest) for one in observation.received)
    due = Counter((viewer, digest(data)) for viewer in viewers for data in burst.payloads())
    return sum(((arrived - due) + (due - arrived)).values())
