"""Offers frames to a switch at a rate, and counts the frames that leave at the other port."""

import json
from dataclasses import dataclass
from pathlib import Path

from lab.bench.load import SPARE_S, Run
from lab.peers import program
from lab.pisces import traffic
from lab.pisces.switches import Running
from lab.sites import LOAD_CPU, on_cpu

ANY_UDP_PORT = 1
"""The sink looks at addresses only."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Frames in a file, one a line: a frame of each flow, in turn."""

    file: Path
    program: str
    frame_bytes: int
    n_flows: int = traffic.N_FLOWS

    def write(self) -> None:
        """Writes the file."""
        frames = traffic.frames(self.program, self.n_flows, self.frame_bytes)
        self.file.write_text("".join(f"{frame.hex()}\n" for frame in frames))


def offer(running: Running, offered: Traffic, packets_per_s: float, seconds: float) -> Run:
    """One run of the load through the switch; its copies are the packets that came."""
    links = running.site.links
    argv = [
        *(str(program("load")), "--frames", str(offered.file)),
        *("--interface", links[traffic.IN_PORT - 1].host_interface),
        *("--sink", links[traffic.OUT_PORT - 1].host_interface),
        *("--viewers", str(traffic.N_RECEIVERS)),
        *("--first-viewer", f"{traffic.FIRST_RECEIVER}:{ANY_UDP_PORT}"),
        *("--rate", f"{packets_per_s:.3f}", "--seconds", f"{seconds:.3f}"),
    ]
    # One sink for all, before the kernel makes a packet of its own of what comes.
    argv.append("--xdp-sink")
    said = running.site.hosts.run(on_cpu(LOAD_CPU, argv), timeout_s=seconds + SPARE_S)
    return Run(n_viewers=1, **json.loads(said))
