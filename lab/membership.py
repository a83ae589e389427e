"""Judges a run in which the group changed: each packet must meet exactly one version. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.delays import Packet


@dataclass(frozen=True, slots=True)
class Version:
    """One state of a group: its viewers in order, and when the command that made it ran.

    The command made the version at some moment from `begun_ns` to `done_ns`.
    """

    begun_ns: int
    done_ns: int
    viewer_ips: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mixture:
    """A packet whose copies equal no version that it can have met."""

    packet_idx: int
    destinations: tuple[str, ...]
    possible: tuple[int, ...]


def possible_versions(versions: Sequence[Version], arrived_ns: int, last_ns: int) -> range:
    """Indices of the versions that may have been in force from `arrived_ns` to `last_ns`.

    Version k is over when the command of k + 1 is done, and not yet there before its own began.
    """
    first = 0
    while first + 1 < len(versions) and versions[first + 1].done_ns < arrived_ns:
        first += 1
    end = first + 1
    while end < len(versions) and versions[end].begun_ns <= last_ns:
        end += 1
    return range(first, end)


def find_mixtures(packets: Sequence[Packet], versions: Sequence[Version]) -> list[Mixture]:
    """The packets whose copies, as an ordered list, equal no version possible at their time.

    Versions only move on: a packet also may not meet an older version than an earlier packet did.
    `versions` must be in the order of the commands; the last copies of a packet without any copies
    are taken to have left when it arrived.
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
