"""The operator's commands: the arguments of each, its effects, and the state after it. No I/O."""

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from lab.addresses import ip_of, mac_of
from lab.operation.state import Card, Conference, Group, Pair, Viewer

VIEWERS_MAX = 6
OTHER_UDP_PORT = 6000


class Change(ABC):
    runs_alone: ClassVar[bool] = False
    """Whether no other command may run at the same time, because the outcome depends on the whole
    state."""

    @abstractmethod
    def arguments(self, folder: Path) -> list[str]:
        """The arguments of `reprise`; files go to `folder`."""

    @abstractmethod
    def apply(self, conference: Conference) -> None:
        """Makes the change in a model of the state."""

    def groups(self, before: Conference) -> set[int]:
        """The groups that the change touches. No two commands may touch one group at once."""
        after = self.after(before)
        numbers = set(before.groups) | set(after.groups)
        return {n for n in numbers if before.groups.get(n) != after.groups.get(n)}

    def after(self, before: Conference) -> Conference:
        after = before.copy()
        self.apply(after)
        return after

    def affected(self, before: Conference, ports: Mapping[int, int]) -> set[Pair]:
        """The pairs (presenter, viewer) whose service may begin, end, pause or be redirected."""
        after = self.after(before)
        was, is_now = before.services(ports), after.services(ports)
        changed = {pair for pair in was.keys() | is_now.keys() if was.get(pair) != is_now.get(pair)}
        # The command may set an address before it changes groups, or delete an address after it has
        # changed them. In between, every member of a group may be served, whether the group is in
        # the state before or in the state after.
        moved = {port for port in ports.values() if before.own.get(port) != after.own.get(port)}
        members = before.members() | after.members()
        return changed | {pair for pair in members if ports[pair.presenter] in moved}


@dataclass(frozen=True, slots=True)
class AddViewer(Change):
    """`viewer add`; the viewer's MAC is given, or the switch looks it up."""

    group: int
    viewer: Viewer
    card: Card
    """Where the copies go. If the command looks the viewer up, the look-up must find exactly this
    card."""
    has_ports: bool

    def arguments(self, folder: Path) -> list[str]:
        by_hand = [] if self.card.looked_up else ["--mac", self.card.mac]
        # A look-up finds the port at which the viewer answers.
        port = ["--port", str(self.card.port)] if by_hand and self.has_ports else []
        return ["viewer", "add", *_viewer(self), *by_hand, *port]

    def apply(self, conference: Conference) -> None:
        conference.groups[self.group].viewers[self.viewer] = self.card


@dataclass(frozen=True, slots=True)
class RemoveViewer(Change):
    group: int
    viewer: Viewer
    has_ports: bool

    def arguments(self, folder: Path) -> list[str]:
        return ["viewer", "remove", *_viewer(self)]

    def apply(self, conference: Conference) -> None:
        del conference.groups[self.group].viewers[self.viewer]


def _viewer(change: AddViewer | RemoveViewer) -> list[str]:
    viewer = change.viewer
    udp_port = ["--udp-port", str(viewer.udp_port)] if change.has_ports else []
    return ["--group", str(change.group), "--ip", ip_of(viewer.host), *udp_port]


@dataclass(frozen=True, slots=True)
class AddGroup(Change):
    group: int
    presenter: int

    def arguments(self, folder: Path) -> list[str]:
        return ["group", "add", "--group", str(self.group), "--ip", ip_of(self.presenter)]

    def apply(self, conference: Conference) -> None:
        conference.groups[self.group] = Group(self.presenter)


@dataclass(frozen=True, slots=True)
class DeleteGroup(Change):
    group: int

    def arguments(self, folder: Path) -> list[str]:
        return ["group", "delete", "--group", str(self.group)]

    def apply(self, conference: Conference) -> None:
        del conference.groups[self.group]


@dataclass(frozen=True, slots=True)
class Refresh(Change):
    """`viewer refresh`: looks up viewers again. `macs` has each host's current MAC."""

    macs: Mapping[int, str]

    def arguments(self, folder: Path) -> list[str]:
        return ["viewer", "refresh"]

    def apply(self, conference: Conference) -> None:
        for group in conference.groups.values():
            for viewer, card in group.viewers.items():
                if card.looked_up:
                    group.viewers[viewer] = card._replace(mac=self.macs[viewer.host])


@dataclass(frozen=True, slots=True)
class Apply(Change):
    """`apply` with a new state of the whole conference: groups, viewers and the SFU's addresses."""

    runs_alone: ClassVar[bool] = True
    target: Conference
    has_ports: bool
    unsaid: frozenset[tuple[int, Viewer]] = frozenset()
    """The viewers whose MAC is not in the file; `target` has the MAC that must be found."""

    def arguments(self, folder: Path) -> list[str]:
        file = folder / "apply.yaml"
        document = self.target.document(has_ports=self.has_ports, unsaid=self.unsaid)
        file.write_text(json.dumps(document))
        return ["apply", str(file)]

    def apply(self, conference: Conference) -> None:
        target = self.target.copy()
        conference.own = target.own
        conference.groups = target.groups


@dataclass(frozen=True, slots=True)
class MoveAddress(Change):
    """`address set`: gives the SFU another address on a port.

    Presenters on this port then send to the new address.
    """

    runs_alone: ClassVar[bool] = True
    port: int
    number: int

    def arguments(self, folder: Path) -> list[str]:
        address = ["--ip", ip_of(self.number), "--mac", mac_of(self.number)]
        return ["address", "set", "--port", str(self.port), *address]

    def apply(self, conference: Conference) -> None:
        conference.own[self.port] = self.number


@dataclass(frozen=True, slots=True)
class DeleteAddress(Change):
    """`address delete` on a port without viewers: presenters on it are no longer served."""

    runs_alone: ClassVar[bool] = True
    port: int

    def arguments(self, folder: Path) -> list[str]:
        return ["address", "delete", "--port", str(self.port)]

    def apply(self, conference: Conference) -> None:
        del conference.own[self.port]


@dataclass(slots=True)
class Busy:
    """Groups and presenters that running commands use, and that no further command may touch."""

    groups: set[int] = field(default_factory=set)
    presenters: set[int] = field(default_factory=set)

    def add(self, change: Change, before: Conference) -> None:
        self.groups |= change.groups(before)
        self.presenters |= change.after(before).presenters() - before.presenters()


Maker = Callable[[Conference, random.Random, Busy], Change | None]


@dataclass(frozen=True, slots=True)
class Choices:
    groups: Sequence[int]
    presenters: Sequence[int]
    viewers: Sequence[Viewer]
    ports: Mapping[int, int]
    """For each host: the switch's port on which it is."""
    macs: Mapping[int, str]
    """For each host: its current MAC. Faults change this mapping between commands."""
    addresses: Mapping[int, Sequence[int]]
    """For each port: the last bytes of the addresses that the SFU can have on it."""
    has_ports: bool = True
    """Whether a viewer has a UDP port and a switch port in the program. Without them, copies keep
    the presenter's source address."""

    def _may_view(self, presenter: int, viewer: Viewer) -> bool:
        """Whether a host can view this presenter. A host drops packets from its own address."""
        return self.has_ports or viewer.host != presenter

    def change(
        self, conference: Conference, choose: random.Random, busy: Busy, *, alone: bool
    ) -> Change | None:
        """A random change that is possible in this state and touches nothing busy, or None."""
        makers: list[Maker] = [
            *[self._add_viewer] * 5,
            *[self._remove_viewer] * 3,
            *[self._add_group] * 2,
            self._delete_group,
        ]
        if alone:
            makers += [self._apply, self._apply, self._move_address, self._delete_address]
        for _ in range(8):
            if (change := choose.choice(makers)(conference, choose, busy)) is not None:
                return change
        return None

    def _group(self, conference: Conference, choose: random.Random, busy: Busy) -> int | None:
        free = sorted(set(conference.groups) - busy.groups)
        return choose.choice(free) if free else None

    def _card(self, host: int, *, looked_up: bool) -> Card:
        return Card(self.macs[host], looked_up, self.ports[host])

    def _add_viewer(
        self, conference: Conference, choose: random.Random, busy: Busy
    ) -> Change | None:
        if (number := self._group(conference, choose, busy)) is None:
            return None
        group = conference.groups[number]
        absent = [
            viewer
            for viewer in self.viewers
            if viewer not in group.viewers
            and self._may_view(group.presenter, viewer)
            and self.ports[viewer.host] in conference.own
        ]
        if not absent or len(group.viewers) >= VIEWERS_MAX:
            return None
        viewer = choose.choice(absent)
        card = self._card(viewer.host, looked_up=choose.random() < 0.5)
        return AddViewer(number, viewer, card, self.has_ports)

    def _remove_viewer(
        self, conference: Conference, choose: random.Random, busy: Busy
    ) -> Change | None:
        number = self._group(conference, choose, busy)
        if number is None or not (viewers := conference.groups[number].viewers):
            return None
        return RemoveViewer(number, choose.choice(list(viewers)), self.has_ports)

    def _add_group(
        self, conference: Conference, choose: random.Random, busy: Busy
    ) -> Change | None:
        numbers = [n for n in self.groups if n not in conference.groups and n not in busy.groups]
        taken = conference.presenters() | busy.presenters
        idle = [n for n in self.presenters if n not in taken]
        return AddGroup(choose.choice(numbers), choose.choice(idle)) if numbers and idle else None

    def _delete_group(
        self, conference: Conference, choose: random.Random, busy: Busy
    ) -> Change | None:
        number = self._group(conference, choose, busy)
        return None if number is None else DeleteGroup(number)

    def _move_address(
        self, conference: Conference, choose: random.Random, busy: Busy
    ) -> Change | None:
        port = choose.choice(sorted(self.addresses))
        others = [n for n in self.addresses[port] if n != conference.own.get(port)]
        return MoveAddress(port, choose.choice(others)) if others else None

    def _delete_address(
        self, conference: Conference, choose: random.Random, busy: Busy
    ) -> Change | None:
        cards = [card for group in conference.groups.values() for card in group.viewers.values()]
        idle = sorted(set(conference.own) - {card.port for card in cards})
        # At least one address always stays, because without an address the SFU serves nobody.
        return DeleteAddress(choose.choice(idle)) if idle and len(conference.own) > 1 else None

    def _apply(self, conference: Conference, choose: random.Random, busy: Busy) -> Change | None:
        target = self.conference(choose)
        if choose.random() < 0.8:
            target.own = dict(conference.own)
        # Some groups stay unchanged, some get only another presenter or only other viewers.
        for number, group in conference.groups.items():
            kept = choose.random()
            if kept < 0.4 and group.presenter not in target.presenters():
                target.groups[number] = group
            elif kept < 0.7 and number in target.groups:
                target.groups[number].viewers = group.viewers
        target = target.copy()
        unsaid = []
        for number, group in target.groups.items():
            group.viewers = {
                viewer: card
                for viewer, card in group.viewers.items()
                if self._may_view(group.presenter, viewer) and card.port in target.own
            }
            for viewer in group.viewers:
                # The switch can look viewers up only on a port that has an address now.
                if self.ports[viewer.host] in conference.own and choose.random() < 0.3:
                    unsaid.append((number, viewer))
                    group.viewers[viewer] = self._known(conference, number, viewer)
        return Apply(target, self.has_ports, frozenset(unsaid))

    def _known(self, conference: Conference, number: int, viewer: Viewer) -> Card:
        """The card (where the copies go) of a viewer whose MAC is not in the file.

        The switch keeps the card that it has of this viewer. Without such a card, it takes a card
        that it looked up for the same host. Without that, too, it looks the viewer up.
        """
        group = conference.groups.get(number)
        if group is not None and viewer in group.viewers:
            return group.viewers[viewer]
        found = [card for card in conference.cards_of(viewer.host) if card.looked_up]
        return found[0] if found else self._card(viewer.host, looked_up=True)

    def conference(self, choose: random.Random) -> Conference:
        own = {port: choose.choice(numbers) for port, numbers in self.addresses.items()}
        numbers = choose.sample(self.groups, choose.randint(1, len(self.groups)))
        presenters = choose.sample(self.presenters, min(len(numbers), len(self.presenters)))
        groups = {
            number: Group(presenter, self._viewers(choose))
            for number, presenter in zip(numbers, presenters, strict=False)
        }
        return Conference(own, groups)

    def _viewers(self, choose: random.Random) -> dict[Viewer, Card]:
        chosen = choose.sample(self.viewers, choose.randint(0, VIEWERS_MAX))
        return {
            viewer: self._card(viewer.host, looked_up=choose.random() < 0.5) for viewer in chosen
        }
