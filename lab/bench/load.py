"""Runs the load, which offers packets, counts the copies that come back, samples their delays."""

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
"""How long a run may take besides sending: for its start and its wait for the last copy."""
SAMPLES_PER_S = 300.0
SINK_BEGINS_S = 0.2
"""How long a load takes to start its sink."""
LATE_SHARE, LATE_S, LATE_PACKETS = 0.005, 0.001, 4
"""A forwarder keeps up if few copies are still under way when sending ends: at most `LATE_SHARE` of
all copies, plus the larger of two numbers: the copies due in `LATE_S`, and the copies of
`LATE_PACKETS` packets."""
XDP_SINK, TCX_SINK = "xdp", "tcx"
"""Where copies are counted and dropped: by XDP, as they come out of the device, or by tcx, after
the kernel has made a packet (an skb) of each copy and taken it through its receive path."""


@dataclass(frozen=True, slots=True)
class Run:
    n_viewers: int
    sent: int
    seconds: float
    copies: int
    copies_while_sending: int
    """The copies of both streams, if there are two."""
    copies_of_viewer_min: int
    copies_of_viewer_max: int
    audio_sent: int
    """The number of packets of the second stream. The addresses of its viewers follow those of the
    first stream's viewers. `sent`, `copies` and the fields about viewers count the first stream
    alone."""
    audio_copies: int
    refusals: int
    """How often the interface did not accept a packet at once. The load then tried again, or with
    `--refused-are-lost` dropped the packet."""
    others: int
    """Frames that were addressed to no viewer."""

    @property
    def copies_per_s(self) -> float:
        return self.copies_while_sending / self.seconds

    @property
    def sent_copies_per_s(self) -> float:
        return self.sent * self.n_viewers / self.seconds

    @property
    def is_lost(self) -> bool:
        """Whether nothing was sent, a copy never arrived, or a copy arrived twice."""
        return self.sent == 0 or self.copies != self.sent * self.n_viewers

    @property
    def late_share(self) -> float:
        """The share of the copies that arrived after the last packet was sent."""
        return 1.0 - self.copies_while_sending / self.copies if self.copies else 0.0

    @property
    def is_late(self) -> bool:
        """Whether the forwarder fell behind: too many copies were under way when sending ended."""
        due = self.sent * self.n_viewers
        under_way = max(LATE_S / self.seconds * due, LATE_PACKETS * self.n_viewers)
        return self.copies_while_sending < self.copies - due * LATE_SHARE - under_way

    @property
    def loss(self) -> float:
        return 1.0 - self.copies / (self.sent * self.n_viewers)

    @property
    def audio_loss(self) -> float:
        """The share of the second stream's copies that never arrived; 0 without a second stream."""
        return 1.0 - self.audio_copies / max(1, self.audio_sent * self.n_viewers)

    @property
    def viewers_spread_pct(self) -> float:
        """How many fewer copies the worst viewer got than the best one, in percent."""
        most = self.copies_of_viewer_max
        return 100.0 * (most - self.copies_of_viewer_min) / most if most else 0.0

    @property
    def is_lossless(self) -> bool:
        """Whether every copy arrived once and the forwarder kept up."""
        return not self.is_lost and not self.is_late


@dataclass(frozen=True, slots=True)
class Sample:
    copies: int
    first_copy_ns: int
    last_copy_ns: int
    sum_ns: int
    """The sum of the delays of all copies."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What one run of the command from `watching` counted at one address.

    The first viewer's `address` is 0.
    """

    address: int
    copies: int
    first_sequence: int
    last_sequence: int
    first_sent_ns: int
    """Nanoseconds since 1970."""
    last_sent_ns: int
    misordered: int


def arguments(link: Link, stream: Stream, first_viewer: IPv4Address) -> list[str]:
    """The command that starts the load with a stream to addresses from `first_viewer` on."""
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
    """The command that offers `n_packets` packets and writes a `Watched` for each address.

    The command prints its progress every second, and at the end the fields of a `Run`.
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
    """Offers packets at a rate and counts their copies.

    Each `sample_every`-th packet gets a line in `samples`. Each `audio_every`-th packet is audio,
    which has a UDP port and viewers of its own. With `is_in_kernel`, packets that the interface
    refuses because the forwarder is behind are lost; otherwise they are offered again.
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
    """Sends a few packets, so that no measured packet is the first one that the forwarder sees."""
    offer(site, n_viewers, SETTLE_RATE_PPS, SETTLE_S)


def sampled(
    site: OnePort, n_viewers: int, rate_pps: float, seconds: float, *, is_in_kernel: bool
) -> tuple[Run, tuple[Sample, ...]]:
    """Offers packets as `offer` does, and samples so few of them that sampling costs little."""
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
    """Pushes frames straight to the sink from one processor. Returns the median frames a second."""
    from_sfu = replace(site.links[0], host_interface=site.links[0].sfu_interface)
    argv = [*arguments(from_sfu, stream_of(site), _first(site)), "--push", io]
    argv += ["--seconds", f"{seconds:.3f}"]
    # Only the sink of a load counts copies. So a load that sends almost nothing runs here, and ends
    # after the pushes.
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
