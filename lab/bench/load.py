"""One run of the load: offered packets, the copies that came back, samples of their delays."""

import json
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path

from lab.bench.forwarders import AUDIO_UDP_PORT, stream_of
from lab.csvs import numbers_of
from lab.peers import program
from lab.sites import LOAD_CPU, SFU_IP, Link, OnePort, Stream, on_cpu

FRAME_LEN_BYTES = 1400
SETTLE_RATE_PPS, SETTLE_S = 200.0, 0.1
SPARE_S = 120.0
"""What a run may take longer than it sends: starting, waiting for the last copy."""
SAMPLES_PER_S = 300.0
SINK_BEGINS_S = 0.2
"""What a load takes until its sink is there."""
LATE_SHARE, LATE_S, LATE_PACKETS = 0.005, 0.001, 4
"""What may still be under way when sending ends, of a run that is in time: that share of the
copies, and those of a millisecond or of a few packets."""
XDP_SINK, TCX_SINK = "xdp", "tcx"
"""Where copies are counted and dropped: as they come out of the device, or behind a packet that
the kernel has made of each, its receive path included."""


@dataclass(frozen=True, slots=True)
class Run:
    n_viewers: int
    sent: int
    seconds: float
    copies: int
    copies_while_sending: int
    """Of both streams, where there are two."""
    copies_of_viewer_min: int
    copies_of_viewer_max: int
    audio_sent: int
    """Packets of the second stream, whose viewers follow the first's; not in the numbers above."""
    audio_copies: int
    refusals: int
    """How often the interface took no packet at once; the load tried again, or it was lost."""
    others: int
    """Frames that came for nobody."""

    @property
    def copies_per_s(self) -> float:
        return self.copies_while_sending / self.seconds

    @property
    def sent_copies_per_s(self) -> float:
        return self.sent * self.n_viewers / self.seconds

    @property
    def is_lost(self) -> bool:
        """A copy never came, or one came twice."""
        return self.sent == 0 or self.copies != self.sent * self.n_viewers

    @property
    def late_share(self) -> float:
        """The share of the copies that came after the last packet was sent."""
        return 1.0 - self.copies_while_sending / self.copies if self.copies else 0.0

    @property
    def is_late(self) -> bool:
        """More copies were under way when sending ended than a forwarder has that keeps up."""
        due = self.sent * self.n_viewers
        under_way = max(LATE_S / self.seconds * due, LATE_PACKETS * self.n_viewers)
        return self.copies_while_sending < self.copies - due * LATE_SHARE - under_way

    @property
    def loss(self) -> float:
        return 1.0 - self.copies / (self.sent * self.n_viewers)

    @property
    def audio_loss(self) -> float:
        """The share of the second stream's copies that never came; 0 without one."""
        return 1.0 - self.audio_copies / max(1, self.audio_sent * self.n_viewers)

    @property
    def viewers_spread_pct(self) -> float:
        """By how much the viewer with the fewest copies has less than the one with the most."""
        most = self.copies_of_viewer_max
        return 100.0 * (most - self.copies_of_viewer_min) / most if most else 0.0

    @property
    def is_lossless(self) -> bool:
        """Every copy came, and the forwarder kept up: nearly none was late."""
        return not self.is_lost and not self.is_late


@dataclass(frozen=True, slots=True)
class Sample:
    copies: int
    first_copy_ns: int
    last_copy_ns: int
    sum_ns: int
    """Of all copies."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The sink's record of one address with `watching`; addresses count from the first viewer."""

    address: int
    copies: int
    first_sequence: int
    last_sequence: int
    first_sent_ns: int
    """Since 1970."""
    last_sent_ns: int
    misordered: int


def arguments(link: Link, stream: Stream, first_viewer: IPv4Address) -> list[str]:
    """The load's command: a stream on a link, and its viewers, whose addresses are in a row."""
    return [
        *(str(program("load")), "--interface", link.host_interface),
        *("--frame-len", str(FRAME_LEN_BYTES)),
        *("--sfu", f"{SFU_IP}:{stream.udp_port}", "--sfu-mac", link.sfu_mac),
        *("--host", f"{stream.sender.ip}:{stream.udp_port}", "--host-mac", link.host_mac),
        *("--first-viewer", f"{first_viewer}:{stream.viewer_udp_port}"),
    ]


def _first(site: OnePort) -> IPv4Address:
    return site.participant(min(2, site.n_participants)).ip


def _argv(site: OnePort, n_viewers: int, rate_pps: float, seconds: float) -> list[str]:
    argv = [*arguments(site.links[0], stream_of(site), _first(site)), "--viewers", str(n_viewers)]
    return [*argv, "--rate", f"{rate_pps:.3f}", "--seconds", f"{seconds:.3f}"]


def watching(
    site: OnePort, *, n_viewers: int, rate_pps: float, n_packets: int, seconds_max: float, to: Path
) -> list[str]:
    """The command that offers so many packets and writes a `Watched` for each address.

    Every second it says how far it is, in the end what `Run` is made of.
    """
    argv = _argv(site, n_viewers, rate_pps, seconds_max)
    return on_cpu(LOAD_CPU, [*argv, "--packets", str(n_packets), "--watch", str(to)])


def offer(
    site: OnePort,
    n_viewers: int,
    rate_pps: float,
    seconds: float,
    *,
    sample_every: int = 0,
    samples: Path | None = None,
    audio_every: int = 0,
    is_in_kernel: bool = False,
    sink: str = XDP_SINK,
) -> Run:
    """Offers packets at a rate and counts their copies; every so many packets one is a sample.

    With `audio_every` one of so many is audio, to a port and viewers of its own. A
    forwarder that `is_in_kernel` refuses packets when it is behind, which are lost then.
    """
    argv = _argv(site, n_viewers, rate_pps, seconds)
    if samples is not None:
        argv += ["--sample-every", str(sample_every), "--samples", str(samples)]
    if audio_every:
        argv += ["--audio-every", str(audio_every), "--audio-port", str(AUDIO_UDP_PORT)]
    if is_in_kernel:
        argv.append("--refused-are-lost")
    if sink == XDP_SINK:
        argv.append("--xdp-sink")
    said = site.hosts.run(on_cpu(LOAD_CPU, argv), timeout_s=seconds + SPARE_S)
    return Run(n_viewers=n_viewers, **json.loads(said))


def settle(site: OnePort, n_viewers: int) -> None:
    """A few packets, so that the first that is measured is not the first."""
    offer(site, n_viewers, SETTLE_RATE_PPS, SETTLE_S)


def sampled(
    site: OnePort, n_viewers: int, rate_pps: float, seconds: float, *, is_in_kernel: bool
) -> tuple[Run, tuple[Sample, ...]]:
    """The same with so many samples that they cost little."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        run = offer(
            site,
            n_viewers,
            rate_pps,
            seconds,
            sample_every=max(1, round(rate_pps / SAMPLES_PER_S)),
            samples=Path(file.name),
            is_in_kernel=is_in_kernel,
        )
        return run, numbers_of(Sample, Path(file.name))


def push(site: OnePort, io: str, cpu: int, n_pushes: int, seconds: float) -> float:
    """Frames a second that one processor pushes to the sink, forwarding nothing: the median."""
    from_sfu = replace(site.links[0], host_interface=site.links[0].sfu_interface)
    argv = [*arguments(from_sfu, stream_of(site), _first(site)), "--push", io]
    argv += ["--seconds", f"{seconds:.3f}"]
    # The sink is part of a load, which offers next to nothing here and is ended.
    sink = [*_argv(site, 1, 1, n_pushes * (seconds + SPARE_S)), "--xdp-sink"]
    with (
        tempfile.TemporaryDirectory(prefix="reprise-bench-") as folder,
        site.hosts.start(on_cpu(LOAD_CPU, sink), Path(folder) / "sink.log"),
    ):
        time.sleep(SINK_BEGINS_S)
        said = [
            json.loads(site.sfu.run(on_cpu(cpu, argv), timeout_s=seconds + SPARE_S))
            for _ in range(n_pushes)
        ]
    return float(statistics.median(one["sent"] / one["seconds"] for one in said))
