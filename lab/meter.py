"""Sends streams through an SFU and times the copies, by running `lab/peers/meter.c`.

A delay begins right before a packet is handed to the hosts' interface, and ends at the kernel's
time stamp of the packet's copy at the same interface. So the delay includes the SFU and two passes
through the veth pair.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.csvs import numbers_of
from lab.frames import HEADERS_LEN_BYTES
from lab.peers import program
from lab.process import run
from lab.sites import LOAD_CPU, SFU_IP, Site, Stream, on_cpu

FRAME_LEN_MAX_BYTES = 9014
"""The length of a jumbo frame, without FCS."""
FRAME_LEN_MIN_BYTES = HEADERS_LEN_BYTES + 2
SHORT_FRAME_BELOW_BYTES = HEADERS_LEN_BYTES + 28
"""Frames shorter than this have only two bytes to identify their packet. That is enough for
`SHORT_STREAMS_MAX` streams."""
SHORT_STREAMS_MAX = 32
QUIET_S = 1.0
"""A run in which copies are missing ends when no copy has come for this long."""
LIMIT_S = 300.0
SPARE_S = 120.0
EMPTY_LOOP_S = 0.05


@dataclass(frozen=True, slots=True)
class Steady:
    """Packets of one size at equal intervals."""

    n_packets: int
    interval_ns: float
    frame_len_bytes: int
    start_ns: int = 0

    @property
    def duration_s(self) -> float:
        """The time from the beginning of all streams to the last packet."""
        return (self.start_ns + (self.n_packets - 1) * self.interval_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Trace:
    """Packets with times and sizes of their own: (ns, bytes of the frame), in order."""

    packets: tuple[tuple[int, int], ...]
    start_ns: int = 0

    @property
    def n_packets(self) -> int:
        return len(self.packets)

    @property
    def duration_s(self) -> float:
        """The time from the beginning of all streams to the last packet."""
        return (self.start_ns + self.packets[-1][0]) / 1e9 if self.packets else 0.0


def least_frame_len(packets: Steady | Trace) -> int:
    """The length of the smallest frame in bytes; `FRAME_LEN_MAX_BYTES` if there are no packets."""
    if isinstance(packets, Steady):
        return packets.frame_len_bytes
    return min((length for _, length in packets.packets), default=FRAME_LEN_MAX_BYTES)


@dataclass(frozen=True, slots=True)
class Sending:
    """A stream, its packets, and the number of viewers that must get each packet."""

    stream: Stream
    packets: Steady | Trace
    n_viewers: int


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums over all packets of a run."""

    sent: int
    bytes_sent: int
    """The bytes of whole frames without FCS."""
    sending_s: float
    """The time from the first packet to the last."""
    copies_due: int
    copies: int
    """The copies that came, without duplicates."""
    copies_while_sending: int
    others: int
    """Frames that are not copies, or were addressed to no participant."""
    refusals: int
    """How often the interface did not accept a packet at once, so that the meter tried again."""
    samples_lost: int
    """Copies that the meter could not store. A run with such copies must be discarded."""
    late_max_ns: int
    """The longest time by which a packet was sent late."""
    stopped: bool
    sent_of_streams: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """A packet all of whose copies were timed. Delays count from its sending."""

    stream: int
    """The stream's index in the run, from 0."""
    sequence: int
    frame_bytes: int
    sent_ns: int
    """Nanoseconds since the first sample."""
    copies: int
    first_copy_ns: int
    last_copy_ns: int
    sum_ns: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A stream's result at a participant.

    `copies`, `duplicates` and `misordered` count all packets. The fields after them count samples
    only.
    """

    stream: int
    participant: int
    copies: int
    duplicates: int
    misordered: int
    timed: int
    sum_ns: int
    min_ns: int
    max_ns: int
    jitter_ns: int
    """Interarrival jitter of RFC 3550, section 6.4.1, at the end."""


@dataclass(frozen=True, slots=True)
class Seen:
    totals: Totals
    samples: tuple[Sample, ...]
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class EmptyLoop:
    """The gaps between two readings of the clock, in a loop that does nothing else."""

    loops: int
    seconds: float
    p50_ns: int
    p999_ns: int
    max_ns: int


class MeterError(RuntimeError):
    """The meter failed, not the SFU: the run must be discarded."""


def measure(
    site: Site,
    sendings: Sequence[Sending],
    folder: Path,
    *,
    sample_every: int = 1,
    quiet_s: float = QUIET_S,
    limit_s: float = LIMIT_S,
) -> Seen:
    """Sends all packets and waits for the copies. Raises `MeterError` or `ChildError`."""
    plan = folder / "plan"
    plan.write_text(_plan(site, sendings, folder))
    samples, slots = folder / "samples.csv", folder / "slots.csv"
    argv = [str(program("meter")), "--plan", str(plan), "--samples", str(samples)]
    argv += ["--slots", str(slots), "--sample-every", str(sample_every)]
    argv += ["--participants", f"{site.participant(1).ip}:{site.n_participants}"]
    argv += ["--quiet", str(quiet_s), "--limit", str(limit_s)]
    duration_s = max(sending.packets.duration_s for sending in sendings)
    said = site.hosts.run(on_cpu(LOAD_CPU, argv), timeout_s=duration_s + limit_s + SPARE_S)
    totals = totals_of(json.loads(said))
    if totals.samples_lost:
        raise MeterError(f"{totals.samples_lost} copies were not timed: sample fewer packets")
    if totals.stopped:
        raise MeterError("the instrument was stopped")
    return Seen(totals, numbers_of(Sample, samples), numbers_of(Slot, slots))


def totals_of(content: dict[str, Any]) -> Totals:
    content["sent_of_streams"] = tuple(content["sent_of_streams"])
    return Totals(**content)


def empty_loop(cpu: int, seconds: float = EMPTY_LOOP_S) -> EmptyLoop:
    """Measures how long and often the machine interrupts the only process on a processor."""
    argv = on_cpu(cpu, [str(program("meter")), "--empty-loop", str(seconds)])
    return EmptyLoop(**json.loads(run(argv, timeout_s=seconds + SPARE_S)))


def _plan(site: Site, sendings: Sequence[Sending], folder: Path) -> str:
    several = len(site.links) > 1
    lines = [
        f"link {link.host_interface} {link.host_mac} {link.sfu_mac} {link.port if several else 0}"
        for link in site.links
    ]
    for idx, sending in enumerate(sendings):
        stream, packets = sending.stream, sending.packets
        source = f"{stream.sender.ip}:{stream.udp_port}"
        sfu = f"{SFU_IP}:{stream.udp_port}"
        head = f"stream {stream.sender.port - 1} {source} {sfu} {sending.n_viewers}"
        if isinstance(packets, Steady):
            what = f"{packets.interval_ns:.6f} {packets.n_packets} {packets.frame_len_bytes}"
            lines.append(f"{head} steady {packets.start_ns} {what}")
        else:
            file = folder / f"trace-{idx}"
            file.write_text("".join(f"{at} {length}\n" for at, length in packets.packets))
            lines.append(f"{head} trace {packets.start_ns} {packets.n_packets} {file}")
    return "\n".join(lines) + "\n"
