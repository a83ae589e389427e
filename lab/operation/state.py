"""A conference as an operator thinks of it, and who gets whose packets in it. Pure."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lab.addresses import SFU_UDP_PORT, ip_of, mac_of


class Pair(NamedTuple):
    """A presenter's packets at one viewer's socket."""

    presenter: int
    viewer: int
    udp_port: int


class Viewer(NamedTuple):
    """A viewer: a host and the UDP port of its socket."""

    host: int
    udp_port: int = SFU_UDP_PORT


@dataclass(slots=True)
class Group:
    """A presenter and its viewers, in the order of their copies."""

    presenter: int
    viewers: list[Viewer] = field(default_factory=list)

    def pairs(self) -> set[Pair]:
        """Who gets this presenter's packets."""
        return {Pair(self.presenter, *viewer) for viewer in self.viewers}


@dataclass(slots=True)
class Conference:
    """The whole state. `sfu` is the number from which the SFU's address is derived."""

    sfu: int
    groups: dict[int, Group] = field(default_factory=dict)

    def pairs(self) -> set[Pair]:
        """Who gets whose packets."""
        return set().union(*(group.pairs() for group in self.groups.values()))

    def copy(self) -> "Conference":
        """An independent one."""
        return deepcopy(self)

    def presenters(self) -> set[int]:
        """The hosts that present."""
        return {group.presenter for group in self.groups.values()}

    def document(self, *, port: int) -> dict[str, Any]:
        """As a conference.yaml, which JSON is a part of."""
        return {
            "sfu": {"port": port, "ip": ip_of(self.sfu), "mac": mac_of(self.sfu)},
            "groups": [
                {
                    "group": number,
                    "ip": ip_of(group.presenter),
                    "viewers": [_viewer_document(viewer) for viewer in group.viewers],
                }
                for number, group in sorted(self.groups.items())
            ],
        }


def _viewer_document(viewer: Viewer) -> dict[str, Any]:
    document: dict[str, Any] = {"ip": ip_of(viewer.host), "mac": mac_of(viewer.host)}
    if viewer.udp_port != SFU_UDP_PORT:
        document["udp_port"] = viewer.udp_port
    return document


def host_of(ip: str) -> int:
    """The number of a host by its address."""
    return int(ip.rsplit(".", 1)[1])


def parse_show(shown: Mapping[str, Any]) -> Conference:
    """What `reprise show --json` says; groups and viewers in their order."""
    return Conference(
        host_of(shown["addresses"][0]["ip"]),
        {
            group["group"]: Group(
                host_of(group["ip"]),
                [
                    Viewer(host_of(viewer["ip"]), viewer.get("udp_port") or SFU_UDP_PORT)
                    for viewer in group["viewers"]
                ],
            )
            for group in shown["groups"]
        },
    )


def differences(shown: Conference, possible: Iterable[Conference]) -> list[str]:
    """What of `shown` is in none of the states that each part may be in."""
    states = list(possible)
    found = []
    if shown.sfu not in {state.sfu for state in states}:
        found.append(f"the SFU's address is that of {shown.sfu}")
    numbers = set(shown.groups).union(*(state.groups for state in states))
    for number in sorted(numbers):
        is_group = shown.groups.get(number)
        may_be = [state.groups.get(number) for state in states]
        if not any(_same(is_group, group) for group in may_be):
            found.append(f"group {number} is {is_group}, may be one of {may_be}")
    return found


def _same(one: Group | None, other: Group | None) -> bool:
    """Concurrent commands add viewers in any order, so the order is not compared."""
    if one is None or other is None:
        return one is other
    return one.presenter == other.presenter and sorted(one.viewers) == sorted(other.viewers)
