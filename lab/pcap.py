"""The classic pcap file format with nanosecond timestamps, Ethernet link type. No I/O."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC_NANOSECONDS = 0xA1B23C4D
LINKTYPE_ETHERNET = 1
_UNITS_NS = {MAGIC_NANOSECONDS: 1, 0xA1B2C3D4: 1_000}
"""Maps a file's magic number to the unit, in ns, of the sub-second part of a record's time."""
FILE_HEADER_LEN_BYTES = 24
RECORD_HEADER_LEN_BYTES = 16
NS_PER_S = 1_000_000_000


class PcapError(ValueError):
    """The bytes are not a pcap file that this module can read."""


@dataclass(frozen=True, slots=True)
class Record:
    time_ns: int
    frame: bytes


def times_and_lengths(data: bytes) -> list[tuple[int, int]]:
    """For each frame: the nanoseconds since the first frame, and its length without FCS.

    Also reads files of other programs, which may have microseconds, either byte order, or truncated
    frames.
    """
    orders = {"<": _magic(data, "<"), ">": _magic(data, ">")}
    order = next((one for one, magic in orders.items() if magic in _UNITS_NS), None)
    if len(data) < FILE_HEADER_LEN_BYTES or order is None:
        raise PcapError("expected a pcap file (not pcapng), found none")
    (link_type,) = struct.unpack_from(f"{order}I", data, 20)
    if link_type & 0xFFFF != LINKTYPE_ETHERNET:
        raise PcapError(f"expected link type {LINKTYPE_ETHERNET}, found {link_type & 0xFFFF}")
    unit_ns = _UNITS_NS[orders[order]]
    found = [
        (time_s * NS_PER_S + below_s * unit_ns, length)
        for _, time_s, below_s, _, length in _record_headers(data, order)
    ]
    if not found:
        raise PcapError("expected frames, found none")
    found.sort(key=lambda one: one[0])
    return [(time_ns - found[0][0], length) for time_ns, length in found]


def _magic(data: bytes, order: str) -> int:
    return int(struct.unpack_from(f"{order}I", data)[0]) if len(data) >= 4 else 0


def _record_headers(data: bytes, order: str) -> Iterator[tuple[int, int, int, int, int]]:
    """Yields for each record the byte at which its frame begins, and the fields of its header."""
    at = FILE_HEADER_LEN_BYTES
    while at < len(data):
        if at + RECORD_HEADER_LEN_BYTES > len(data):
            raise PcapError(f"record header at byte {at} is cut")
        time_s, below_s, captured, length = struct.unpack_from(f"{order}IIII", data, at)
        at += RECORD_HEADER_LEN_BYTES
        yield at, time_s, below_s, captured, length
        at += captured


def file_header(snap_len_bytes: int) -> bytes:
    """The header of a file, little endian."""
    return struct.pack("<IHHiIII", MAGIC_NANOSECONDS, 2, 4, 0, 0, snap_len_bytes, LINKTYPE_ETHERNET)


def record_header(time_s: int, time_ns: int, captured_len_bytes: int, len_bytes: int) -> bytes:
    """The header before one frame; `time_ns` is the part below one second."""
    return struct.pack("<IIII", time_s, time_ns, captured_len_bytes, len_bytes)


def records(data: bytes) -> Iterator[Record]:
    """The frames of a file; raises `PcapError` for another format or a truncated file."""
    if len(data) < FILE_HEADER_LEN_BYTES:
        raise PcapError(f"pcap header has {FILE_HEADER_LEN_BYTES} bytes, the file {len(data)}")
    magic, *_, link_type = struct.unpack_from("<IHHiIII", data)
    if magic != MAGIC_NANOSECONDS or link_type != LINKTYPE_ETHERNET:
        raise PcapError(
            f"expected magic {MAGIC_NANOSECONDS:#x} and link type {LINKTYPE_ETHERNET}, "
            f"found {magic:#x} and {link_type}"
        )
    for at, time_s, below_s_ns, captured, length in _record_headers(data, "<"):
        if captured != length or at + captured > len(data):
            raise PcapError(f"frame at byte {at} has {length} bytes, {captured} were captured")
        yield Record(time_s * NS_PER_S + below_s_ns, data[at : at + captured])
