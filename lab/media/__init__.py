"""Packet traces of real media: departure times and sizes of a camera's or microphone's packets.

A trace is a file in this folder: gzip of one line of JSON about its origin (`Facts`), then CSV with
a line for each packet. `python -m lab.media make` made them with ffmpeg (`lab.media.make` says
how). All packets of a video or audio frame leave at once, when the frame is captured, because
neither the encoder nor its RTP muxer paces them. A trace begins with a key frame and lasts a whole
number of groups of pictures, so it can be repeated without a gap.
"""

import gzip
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

FOLDER = Path(__file__).parent
SUFFIX = ".csv.gz"
COLUMNS = "time_ns,rtp_payload_bytes,marker,key_frame"
RTP_HEADER_BYTES = 12
HEADERS_BYTES = 14 + 20 + 8 + RTP_HEADER_BYTES
"""The headers of Ethernet, IPv4, UDP and RTP."""
FRAME_LEN_BYTES_MAX = 1514
"""An Ethernet frame without its FCS, at the usual MTU."""


class MediaError(ValueError):
    """A file is not a trace, or there is no trace of this name."""


@dataclass(frozen=True, slots=True)
class Packet:
    time_ns: int
    """Nanoseconds since the first packet."""
    frame_len_bytes: int
    """The length of the Ethernet frame, without FCS."""
    is_keyframe: bool
    """Whether the packet has a part of a key frame. For audio this is true of every packet."""
    is_last_of_frame: bool
    """Whether the packet is the last of its frame: RTP's marker in video, always true in audio."""


@dataclass(frozen=True, slots=True)
class Facts:
    codec: str
    payload_format: str
    """The specification of the codec's RTP payload format."""
    bitrate_bps: int
    """The bitrate for which the encoder was set."""
    frames_per_s: float
    duration_ns: int
    """The time from the trace's first frame to the first frame of its repetition."""
    made: str
    """The programs' versions, and the encoder's options."""


@dataclass(frozen=True, slots=True)
class MediaTrace:
    facts: Facts
    packets: tuple[Packet, ...]

    def lasting(self, duration_s: float, begin_ns: int = 0) -> tuple[Packet, ...]:
        """The packets that are sent in `duration_s`: the trace, repeated as often as needed.

        The result begins at the moment `begin_ns` of the trace, and its times count from that
        moment.
        """
        if not (math.isfinite(duration_s) and duration_s > 0):
            raise ValueError(f"expected a duration in seconds above 0, found {duration_s}")
        if not 0 <= begin_ns < self.facts.duration_ns:
            raise ValueError(f"expected to begin within the trace, found {begin_ns} ns")
        end_ns = round(duration_s * 1e9)
        sent = itertools.takewhile(lambda one: one.time_ns < end_ns, self._endless(begin_ns))
        return tuple(one for one in sent if one.time_ns >= 0)

    def _endless(self, begin_ns: int) -> Iterator[Packet]:
        for round_begins_ns in itertools.count(-begin_ns, self.facts.duration_ns):
            for one in self.packets:
                yield replace(one, time_ns=round_begins_ns + one.time_ns)


def names() -> list[str]:
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


def read(name: str) -> MediaTrace:
    """Reads a trace by its name, such as `h264`."""
    if name not in names():
        raise MediaError(f"media: expected one of {', '.join(names())}, found {name!r}")
    return read_file(FOLDER / f"{name}{SUFFIX}")


def read_file(path: Path) -> MediaTrace:
    """Reads a trace from a file; raises a `MediaError` that names the wrong line."""
    try:
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise MediaError(f"{path}: expected gzip with text in it: {error}") from error
    if len(lines) < 3:
        raise MediaError(f"{path}: expected facts, columns and packets, found {len(lines)} lines")
    facts = _facts(path, lines[0])
    if lines[1] != COLUMNS:
        raise MediaError(f"{path}, line 2: expected {COLUMNS!r}, found {lines[1]!r}")
    packets = tuple(
        _packet(f"{path}, line {number}", line) for number, line in enumerate(lines[2:], 3)
    )
    _check_times(path, facts, packets)
    return MediaTrace(facts, packets)


def write_file(path: Path, trace: MediaTrace) -> None:
    """Writes a trace. Equal traces give files that are equal byte by byte."""
    facts = {name: getattr(trace.facts, name) for name in Facts.__slots__}
    lines = [json.dumps(facts), COLUMNS]
    for one in trace.packets:
        payload_bytes = one.frame_len_bytes - HEADERS_BYTES
        flags = f"{one.is_last_of_frame:d},{one.is_keyframe:d}"
        lines.append(f"{one.time_ns},{payload_bytes},{flags}")
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))


def _facts(path: Path, line: str) -> Facts:
    try:
        facts = Facts(**json.loads(line))
    except (TypeError, ValueError) as error:
        raise MediaError(
            f"{path}, line 1: expected JSON with {', '.join(Facts.__slots__)}: {error}"
        ) from error
    if not (isinstance(facts.duration_ns, int) and facts.duration_ns > 0):
        raise MediaError(f"{path}, line 1: expected duration_ns above 0, found {facts.duration_ns}")
    return facts


def _packet(where: str, line: str) -> Packet:
    try:
        time_ns, payload_bytes, marker, key_frame = (int(value) for value in line.split(","))
    except ValueError:
        raise MediaError(f"{where}: expected four numbers, found {line!r}") from None
    most = FRAME_LEN_BYTES_MAX - HEADERS_BYTES
    if not 1 <= payload_bytes <= most:
        raise MediaError(f"{where}: expected a payload of 1 to {most} bytes, found {payload_bytes}")
    if marker not in (0, 1) or key_frame not in (0, 1):
        raise MediaError(f"{where}: expected flags that are 0 or 1, found {line!r}")
    return Packet(time_ns, payload_bytes + HEADERS_BYTES, key_frame == 1, marker == 1)


def _check_times(path: Path, facts: Facts, packets: tuple[Packet, ...]) -> None:
    if packets[0].time_ns != 0:
        raise MediaError(f"{path}: expected the first packet at 0, found {packets[0].time_ns} ns")
    for number, (one, following) in enumerate(itertools.pairwise(packets), 4):
        if following.time_ns < one.time_ns:
            raise MediaError(f"{path}, line {number}: expected a time not before the line above")
    if packets[-1].time_ns >= facts.duration_ns:
        raise MediaError(f"{path}: expected packets before {facts.duration_ns} ns, its duration")
