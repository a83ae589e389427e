"""The state of a conference as an operator sees it, and who gets whose packets in it. No I/O."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lab.addresses import SFU_UDP_PORT, ip_of, mac_of

FIRST_HOST_OF_PORT_2 = 7
"""Hosts with smaller numbers are on the switch's port 1. Without a port 2, all hosts are on port
1."""


class Pair(NamedTuple):
    """A presenter, and one viewer's socket that may get the presenter's packets."""

    presenter: int
    viewer: int
    udp_port: int


class Viewer(NamedTuple):
    """A viewer: a host and the UDP port of its socket."""

    host: int
    udp_port: int = SFU_UDP_PORT


class Card(NamedTuple):
    """Where a viewer's copies go: MAC address, whether it was looked up, the switch's port."""

    mac: str
    looked_up: bool
    port: int


@dataclass(slots=True)
class Group:
    """A presenter and its viewers, unordered, since commands that run at once have no order."""

    presenter: int
    viewers: dict[Viewer, Card] = field(default_factory=dict)


@dataclass(slots=True)
class Conference:
    """The whole state. `own` has for each port the last byte of the SFU's address on it."""

    own: dict[int, int]
    groups: dict[int, Group] = field(default_factory=dict)

    def services(self, ports: Mapping[int, int]) -> dict[Pair, str]:
        """Maps each served pair to its copies' destination MAC. `ports` has each host's port."""
        return {
            Pair(group.presenter, *viewer): card.mac
            for group in self.groups.values()
            if ports[group.presenter] in self.own
            for viewer, card in group.viewers.items()
        }

    def members(self) -> set[Pair]:
        """All pairs of the conference, even if the SFU has no address on the presenter's port."""
        return {
            Pair(group.presenter, *viewer)
            for group in self.groups.values()
            for viewer in group.viewers
        }

    def cards_of(self, host: int) -> list[Card]:
        """The cards of a host's viewers, ordered by group."""
        return [
            card
            for _, group in sorted(self.groups.items())
            for viewer, card in group.viewers.items()
            if viewer.host == host
        ]

    def copy(self) -> "Conference":
        return deepcopy(self)

    def presenters(self) -> set[int]:
        return {group.presenter for group in self.groups.values()}

    def document(
        self, *, has_ports: bool, unsaid: Iterable[tuple[int, Viewer]] = ()
    ) -> dict[str, Any]:
        """The state as JSON for a conference.yaml; viewers in `unsaid` have no MAC."""
        silent = set(unsaid)
        return {
            "sfu": [
                {"port": port, "ip": ip_of(number), "mac": mac_of(number)}
                for port, number in sorted(self.own.items())
            ],
            "groups": [
                {
                    "group": number,
                    "ip": ip_of(group.presenter),
                    "viewers": [
                        _viewer_document(viewer, card, (number, viewer) in silent, has_ports)
                        for viewer, card in group.viewers.items()
                    ],
                }
                for number, group in sorted(self.groups.items())
            ],
        }


def _viewer_document(viewer: Viewer, card: Card, silent: bool, has_ports: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"ip": ip_of(viewer.host)}
    if not silent:
        document["mac"] = card.mac
        if card.looked_up:
            document["looked_up"] = True
    if has_ports:
        document["udp_port"] = viewer.udp_port
        if not silent:
            document["port"] = card.port
    return document


def host_of(ip: str) -> int:
    return int(ip.rsplit(".", 1)[1])


def parse_show(shown: Mapping[str, Any]) -> Conference:
    """Parses the output of `reprise show --json`."""
    if foreign := shown["foreign"]:
        raise ValueError(f"foreign: {foreign}")
    return Conference(
        {one["port"]: host_of(one["ip"]) for one in shown["addresses"]},
        {
            group["group"]: Group(
                host_of(group["ip"]),
                {
                    Viewer(host_of(viewer["ip"]), viewer["udp_port"] or SFU_UDP_PORT): Card(
                        viewer["mac"], viewer["looked_up"], viewer["port"] or 1
                    )
                    for viewer in group["viewers"]
                },
            )
            for group in shown["groups"]
        },
    )


def differences(shown: Conference, possible: Iterable[Conference]) -> list[str]:
    """Describes the addresses and groups of `shown` that are in none of the possible states."""
    states = list(possible)
    found = []
    for port in sorted(set(shown.own).union(*(state.own for state in states))):
        if shown.own.get(port) not in {state.own.get(port) for state in states}:
            found.append(f"the SFU's address on port {port} is that of {shown.own.get(port)}")
    for number in sorted(set(shown.groups).union(*(state.groups for state in states))):
        is_group = shown.groups.get(number)
        may_be = [state.groups.get(number) for state in states]
        if is_group not in may_be:
            found.append(f"group {number} is {is_group}, may be one of {may_be}")
    return found
