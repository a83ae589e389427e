"""Judges a changing group: exactly one version of it must forward each packet. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.delays import Packet


@dataclass(frozen=True, slots=True)
class Version:
    """One state of a group: its viewers in order, and when the command ran that made it.

    The version came into force at some moment between `begun_ns` and `done_ns`.
    """

    begun_ns: int
    done_ns: int
    viewer_ips: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mixture:
    """A packet whose copies match none of the versions that may have been in force."""

    packet_idx: int
    destinations: tuple[str, ...]
    possible: tuple[int, ...]


def possible_versions(versions: Sequence[Version], arrived_ns: int, last_ns: int) -> range:
    """Indices of the versions that may have been in force from `arrived_ns` to `last_ns`.

    Version k is certainly not in force before its own command began, nor after the command of
    version k + 1 was done.
    """
    first = 0
    while first + 1 < len(versions) and versions[first + 1].done_ns < arrived_ns:
        first += 1
    end = first + 1
    while end < len(versions) and versions[end].begun_ns <= last_ns:
        end += 1
    return range(first, end)


def find_mixtures(packets: Sequence[Packet], versions: Sequence[Version]) -> list[Mixture]:
    """The packets whose copies, as an ordered list, match no version possible at that time.

    Versions only advance, so no packet may match an older version than an earlier packet matched.
    `versions` must be in the order of the commands. A packet without copies is judged at its
    arrival.
    """
    mixtures: list[Mixture] = []
    oldest = 0
    for idx, packet in enumerate(packets):
        arrived_ns = packet.arrived.time_ns
        last_ns = packet.copies[-1].time_ns if packet.copies else arrived_ns
        possible = possible_versions(versions, arrived_ns, last_ns)
        met = [k for k in possible if k >= oldest and versions[k].viewer_ips == packet.destinations]
        if met:
            oldest = met[0]
        else:
            mixtures.append(Mixture(idx, packet.destinations, tuple(possible)))
    return mixtures
