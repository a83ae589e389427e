"""Computes the load of a run: the streams of all senders, their viewers and packets. No I/O."""

import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence

from lab import media
from lab.experiment import Cell, Part, StreamOf
from lab.meter import SHORT_FRAME_BELOW_BYTES, Sending, Slot, Steady, Trace
from lab.pcap import times_and_lengths
from lab.sites import VIEWER_UDP_PORT, Participant, Site, Stream


def streams_of(part: Part, site: Site, cell: Cell) -> list[tuple[StreamOf, Stream]]:
    senders = [site.participant(number) for number in range(1, cell.senders + 1)]
    streams: list[tuple[StreamOf, Stream]] = []
    for sender, of in itertools.product(senders, part.streams):
        port = VIEWER_UDP_PORT + part.streams.index(of)
        streams.append((of, Stream(len(streams) + 1, sender, of.udp_port, port)))
    return streams


def viewers_of(of: StreamOf, stream: Stream, site: Site, cell: Cell) -> list[Participant]:
    numbers = viewer_numbers(of, stream.sender.number, cell.participants)
    return [site.participant(number) for number in numbers]


def viewer_numbers(of: StreamOf, sender: int, participants: int) -> list[int]:
    """A stream's viewers, by number: all participants or the even numbers, without the sender."""
    everybody = range(1, participants + 1)
    chosen = everybody[1::2] if of.viewers == "half" else everybody
    return [number for number in chosen if number != sender]


def copies_due(
    part: Part, participants: int, sent_of_streams: Sequence[int]
) -> dict[tuple[int, int], int]:
    """How many copies of each stream must reach each participant, by (stream, participant)."""
    n_of = len(part.streams)
    return {
        (stream, viewer): n_sent
        for stream, n_sent in enumerate(sent_of_streams)
        for viewer in viewer_numbers(part.streams[stream % n_of], stream // n_of + 1, participants)
    }


def copies_missing(due: Mapping[tuple[int, int], int], slots: Iterable[Slot]) -> int:
    """Counts the copies that viewers should have got but never got.

    A surplus of copies of another stream or at another viewer does not make up for missing copies.
    """
    came = {(slot.stream, slot.participant): slot.copies - slot.duplicates for slot in slots}
    return sum(max(0, n - came.get(where, 0)) for where, n in due.items())


def sendings_of(part: Part, site: Site, cell: Cell) -> list[Sending]:
    """The streams and packets of a run. They are the same for every SFU that is measured."""
    sendings = []
    for of, stream in streams_of(part, site, cell):
        # With `split`, a sender's streams draw the same packets, of which each stream then takes
        # its share.
        number = stream.sender.number if part.split else stream.number
        chance = random.Random(f"{part.seed} {cell.run} {number}")
        packets = packets_of(of, part, chance, cell)
        if part.split and isinstance(packets, Trace):
            place = part.streams.index(of)
            packets = Trace(packets.packets[place :: len(part.streams)])
        sendings.append(Sending(stream, packets, len(viewers_of(of, stream, site, cell))))
    return sendings


def packets_of(of: StreamOf, part: Part, chance: random.Random, cell: Cell) -> Steady | Trace:
    """The packets of a stream. With several senders each stream begins at a random moment."""
    n_packets, n_senders = of.packets_at(cell.participants), cell.senders
    if of.interval_ms is not None:
        return _at_random(of, part, chance, n_packets)
    if of.pcap is not None:
        return _of_pcap(of, n_packets, part)
    if of.media is not None:
        begin = chance if n_senders > 1 else None
        return _of_media(of.media, n_packets, part, begin)
    if not isinstance(of.frame_len_bytes, int):
        raise ValueError("a steady stream has one frame_len_bytes")
    interval_ns = (
        1e9 / of.packets_per_s
        if of.packets_per_s
        else of.frame_len_bytes * 8e3 / (of.bitrate_mbps or math.nan)
    )
    n_packets = n_packets or max(1, round(part.duration_s * 1e9 / interval_ns))
    if of.bitrate_mbps:
        # The true bitrate is that of all packets, divided by the time from the first packet to the
        # last. This time has one interval less than there are packets, so the interval is made
        # longer accordingly.
        interval_ns *= n_packets / max(1, n_packets - 1)
    start_ns = int(chance.random() * interval_ns) if n_senders > 1 else 0
    return Steady(n_packets, interval_ns, of.frame_len_bytes, start_ns)


def _at_random(of: StreamOf, part: Part, chance: random.Random, n_packets: int | None) -> Trace:
    """Makes `n_packets` random packets, or as many as fit into the part's duration."""
    least_ms, most_ms = of.interval_ms or (math.nan, math.nan)
    sizes = (
        of.frame_len_bytes if isinstance(of.frame_len_bytes, tuple) else (of.frame_len_bytes,) * 2
    )
    packets: list[tuple[int, int]] = []
    at_ms = chance.uniform(0, most_ms)
    while len(packets) < n_packets if n_packets else at_ms < part.duration_s * 1e3:
        packets.append((round(at_ms * 1e6), chance.randint(*sizes)))
        at_ms += chance.uniform(least_ms, most_ms)
    return Trace(tuple(packets))


def _of_media(name: str, n_packets: int | None, part: Part, chance: random.Random | None) -> Trace:
    """Returns a trace's packets; with several senders (`chance`), from a random moment on."""
    trace = media.read(name)
    begin_ns = chance.randrange(trace.facts.duration_ns) if chance is not None else 0
    packets = trace.lasting(part.duration_s, begin_ns)[:n_packets]
    return _marked((one.time_ns, one.frame_len_bytes) for one in packets)


def _of_pcap(of: StreamOf, n_packets: int | None, part: Part) -> Trace:
    """Returns the packets of a capture up to the part's duration; the capture is not repeated."""
    found = times_and_lengths(of.pcap_file.read_bytes())
    return _marked([one for one in found if one[0] < part.duration_s * 1e9][:n_packets])


def _marked(packets: Iterable[tuple[int, int]]) -> Trace:
    """Lengthens frames that have no room for the meter's 16-byte mark, such as a last fragment."""
    return Trace(tuple((at, max(SHORT_FRAME_BELOW_BYTES, length)) for at, length in packets))


def duration_s(sendings: Sequence[Sending]) -> float:
    """How long it takes to send all packets."""
    return max(sending.packets.duration_s for sending in sendings)
