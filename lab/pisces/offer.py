"""Offers frames to one port of a switch at a rate, and counts the frames that leave at another."""

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.bench.forwarders import ticks_of
from lab.bench.load import SPARE_S, Run
from lab.bench.noise import Listener
from lab.bench.search import Trial
from lab.bench.trials import REPEATS_OF_ALL_S, Probe, Runner
from lab.peers import program
from lab.pisces import traffic
from lab.pisces.network import published
from lab.pisces.switches import Contestant, Running, Setting, running
from lab.sites import LOAD_CPU, on_cpu

ANY_UDP_PORT = 1
"""The load generator needs a UDP port for viewers, but its sink looks only at their addresses."""
SETTLE_PER_S, SETTLE_S = 20_000.0, 0.1
"""Before the first trial, each flow's frame is sent several times, so that caches have the flow."""
UP_S = 2.0
"""About how long it takes to start a switch."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The frames to offer: a file with a line for each flow's frame."""

    file: Path
    program: str
    frame_bytes: int
    n_flows: int = traffic.N_FLOWS

    def write(self) -> None:
        frames = traffic.frames(self.program, self.n_flows, self.frame_bytes)
        self.file.write_text("".join(f"{frame.hex()}\n" for frame in frames))


def offer(running: Running, offered: Traffic, packets_per_s: float, seconds: float) -> Run:
    """Sends the load through the switch once. `copies` of the result counts the arrived packets."""
    links = running.site.links
    argv = [
        *(str(program("load")), "--frames", str(offered.file)),
        *("--interface", links[traffic.IN_PORT - 1].host_interface),
        *("--sink", links[traffic.OUT_PORT - 1].host_interface),
        *("--viewers", str(traffic.N_RECEIVERS)),
        *("--first-viewer", f"{traffic.FIRST_RECEIVER}:{ANY_UDP_PORT}"),
        *("--rate", f"{packets_per_s:.3f}", "--seconds", f"{seconds:.3f}"),
    ]
    # For every switch, frames are counted at the XDP sink, before the kernel makes an skb of a
    # frame.
    argv.append("--xdp-sink")
    said = running.site.hosts.run(on_cpu(LOAD_CPU, argv), timeout_s=seconds + SPARE_S)
    return Run(n_viewers=1, **json.loads(said))


@dataclass(slots=True)
class Turns(Runner):
    """A contestant (a switch in one variant) whose processes run only while it is measured."""

    what: Mapping[str, object]
    up: Running
    traffic: Traffic
    probes: list[Probe]
    repeats_of_all_s: float = REPEATS_OF_ALL_S
    at_peak: list[float] = field(default_factory=list)

    @property
    def contestant(self) -> Contestant:
        return self.up.setting.contestant

    def _once(self, trial: Trial) -> Probe:
        with self.up.turn():
            listener, before = Listener(), ticks_of(self.up.pids)
            run = offer(self.up, self.traffic, trial.per_s, trial.seconds)
            share = ticks_of(self.up.pids).since(before).kernel_share
            noise = listener.noise()
        return Probe({**self.what, **asdict(self.contestant)}, trial, run, noise, share)


@contextlib.contextmanager
def in_turn(
    contestants: Sequence[Contestant],
    where: tuple[str, str, int],
    what: Mapping[str, object],
    probes: list[Probe],
    repeats_of_all_s: float = REPEATS_OF_ALL_S,
) -> Iterator[list[Turns]]:
    """Starts contestants with a port, a program, a frame size; stops each until it is measured."""
    port, program, frame_bytes = where
    network = published()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reprise-pisces-")))
        offered = Traffic(folder / "frames", program, frame_bytes)
        offered.write()
        found = []
        for contestant in contestants:
            setting = Setting(contestant, port, program, network)
            here = folder / str(contestant).replace(" ", "-")
            up = stack.enter_context(running(setting, here))
            offer(up, offered, SETTLE_PER_S, SETTLE_S)
            up.stand()
            found.append(Turns(what, up, offered, probes, repeats_of_all_s))
        yield found
