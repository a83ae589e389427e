"""What an operator types: each change with what it affects and what holds after it. Pure."""

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from lab.addresses import SFU_PORT, ip_of, mac_of
from lab.operation.state import Conference, Group, Pair, Viewer

VIEWERS_MAX = 6
OTHER_UDP_PORT = 6000


class Change(ABC):
    """One command that changes the conference."""

    runs_alone: ClassVar[bool] = False
    """Its outcome depends on the whole state, so no other command may run at once with it."""

    @abstractmethod
    def arguments(self, folder: Path) -> list[str]:
        """What stands behind `reprise`; files go to `folder`."""

    @abstractmethod
    def apply(self, conference: Conference) -> None:
        """Makes the change in a model of the state."""

    def groups(self, before: Conference) -> set[int]:
        """The groups that it touches: two commands that touch the same must not run at once."""
        after = self.after(before)
        numbers = set(before.groups) | set(after.groups)
        return {n for n in numbers if before.groups.get(n) != after.groups.get(n)}

    def after(self, before: Conference) -> Conference:
        """The state after it."""
        after = before.copy()
        self.apply(after)
        return after

    def affected(self, before: Conference) -> set[Pair]:
        """The pairs whose service it may begin, end or interrupt."""
        return before.pairs() ^ self.after(before).pairs()


@dataclass(frozen=True, slots=True)
class AddViewer(Change):
    """`viewer add`, with the viewer's MAC given by hand or asked for."""

    group: int
    viewer: Viewer
    by_hand: bool
    has_ports: bool

    def arguments(self, folder: Path) -> list[str]:
        """See `Change`."""
        mac = ["--mac", mac_of(self.viewer.host)] if self.by_hand else []
        return ["viewer", "add", *_viewer(self), *mac]

    def apply(self, conference: Conference) -> None:
        """See `Change`."""
        conference.groups[self.group].viewers.append(self.viewer)


@dataclass(frozen=True, slots=True)
class RemoveViewer(Change):
    """`viewer remove`."""

    group: int
    viewer: Viewer
    has_ports: bool

    def arguments(self, folder: Path) -> list[str]:
        """See `Change`."""
        return ["viewer", "remove", *_viewer(self)]

    def apply(self, conference: Conference) -> None:
        """See `Change`."""
        conference.groups[self.group].viewers.remove(self.viewer)


def _viewer(change: AddViewer | RemoveViewer) -> list[str]:
    viewer = change.viewer
    port = ["--udp-port", str(viewer.udp_port)] if change.has_ports else []
    return ["--group", str(change.group), "--ip", ip_of(viewer.host), *port]


@dataclass(frozen=True, slots=True)
class AddGroup(Change):
    """`group add`."""

    group: int
    presenter: int

    def arguments(self, folder: Path) -> list[str]:
        """See `Change`."""
        return ["group", "add", "--group", str(self.group), "--ip", ip_of(self.presenter)]

    def apply(self, conference: Conference) -> None:
        """See `Change`."""
        conference.groups[self.group] = Group(self.presenter)


@dataclass(frozen=True, slots=True)
class DeleteGroup(Change):
    """`group delete`."""

    group: int

    def arguments(self, folder: Path) -> list[str]:
        """See `Change`."""
        return ["group", "delete", "--group", str(self.group)]

    def apply(self, conference: Conference) -> None:
        """See `Change`."""
        del conference.groups[self.group]


@dataclass(frozen=True, slots=True)
class Apply(Change):
    """`apply` with a whole new state: presenters change places, viewers move."""

    runs_alone: ClassVar[bool] = True
    target: Conference

    def arguments(self, folder: Path) -> list[str]:
        """See `Change`."""
        file = folder / "apply.yaml"
        file.write_text(json.dumps(self.target.document(port=SFU_PORT)))
        return ["apply", str(file)]

    def apply(self, conference: Conference) -> None:
        """See `Change`."""
        conference.sfu = self.target.sfu
        conference.groups = self.target.copy().groups

    def affected(self, before: Conference) -> set[Pair]:
        """With another address every pair is."""
        after = self.target.pairs()
        return before.pairs() | after if before.sfu != self.target.sfu else before.pairs() ^ after


@dataclass(frozen=True, slots=True)
class MoveAddress(Change):
    """`address set`: the SFU has another address from now on, and presenters must follow."""

    runs_alone: ClassVar[bool] = True
    sfu: int

    def arguments(self, folder: Path) -> list[str]:
        """See `Change`."""
        address = ["--ip", ip_of(self.sfu), "--mac", mac_of(self.sfu)]
        return ["address", "set", "--port", str(SFU_PORT), *address]

    def apply(self, conference: Conference) -> None:
        """See `Change`."""
        conference.sfu = self.sfu

    def affected(self, before: Conference) -> set[Pair]:
        """See `Change`."""
        return before.pairs()


@dataclass(slots=True)
class Busy:
    """What commands that run at once with the next have to themselves."""

    groups: set[int] = field(default_factory=set)
    presenters: set[int] = field(default_factory=set)

    def add(self, change: Change, before: Conference) -> None:
        """What a change has to itself."""
        self.groups |= change.groups(before)
        self.presenters |= change.after(before).presenters() - before.presenters()

    def is_nothing(self) -> bool:
        """Whether the next command runs alone, as far as is known."""
        return not self.groups


@dataclass(frozen=True, slots=True)
class Choices:
    """What random changes are made of."""

    groups: Sequence[int]
    presenters: Sequence[int]
    viewers: Sequence[Viewer]
    addresses: Sequence[int]
    has_ports: bool = True
    """Viewers say their UDP port. Where they do not, copies keep the presenter's addresses."""

    def _may_view(self, presenter: int, viewer: Viewer) -> bool:
        """A host drops what comes from its own address."""
        return self.has_ports or viewer.host != presenter

    def change(self, conference: Conference, choose: random.Random, busy: Busy) -> Change | None:
        """A change that can be made in this state and leaves busy parts alone, if one is found."""
        makers = (
            [self._add_viewer] * 5
            + [self._remove_viewer] * 3
            + [self._add_group] * 2
            + [self._delete_group]
            + ([self._apply, self._apply, self._move_address] if busy.is_nothing() else [])
        )
        for _ in range(8):
            if (change := choose.choice(makers)(conference, choose, busy)) is not None:
                return change
        return None

    def _group(self, conference: Conference, choose: random.Random, busy: Busy) -> int | None:
        free = sorted(set(conference.groups) - busy.groups)
        return choose.choice(free) if free else None

    def _add_viewer(
        self, conference: Conference, choose: random.Random, busy: Busy
    ) -> Change | None:
        if (number := self._group(conference, choose, busy)) is None:
            return None
        group = conference.groups[number]
        absent = [
            viewer
            for viewer in self.viewers
            if viewer not in group.viewers and self._may_view(group.presenter, viewer)
        ]
        if not absent or len(group.viewers) >= VIEWERS_MAX:
            return None
        return AddViewer(number, choose.choice(absent), choose.random() < 0.5, self.has_ports)

    def _remove_viewer(
        self, conference: Conference, choose: random.Random, busy: Busy
    ) -> Change | None:
        number = self._group(conference, choose, busy)
        if number is None or not (viewers := conference.groups[number].viewers):
            return None
        return RemoveViewer(number, choose.choice(viewers), self.has_ports)

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
        others = [n for n in self.addresses if n != conference.sfu]
        return MoveAddress(choose.choice(others)) if others else None

    def _apply(self, conference: Conference, choose: random.Random, busy: Busy) -> Change | None:
        target = self.conference(choose)
        if choose.random() < 0.8:
            target.sfu = conference.sfu
        # Some groups stay as they are, some get another presenter or other viewers only.
        for number, group in conference.groups.items():
            kept = choose.random()
            if kept < 0.4 and group.presenter not in target.presenters():
                target.groups[number] = group
            elif kept < 0.7 and number in target.groups:
                target.groups[number].viewers = list(group.viewers)
        for group in target.groups.values():
            group.viewers = [one for one in group.viewers if self._may_view(group.presenter, one)]
        return Apply(target.copy())

    def conference(self, choose: random.Random) -> Conference:
        """A random state."""
        numbers = choose.sample(self.groups, choose.randint(1, len(self.groups)))
        presenters = choose.sample(self.presenters, min(len(numbers), len(self.presenters)))
        groups = {
            number: Group(presenter, choose.sample(self.viewers, choose.randint(0, VIEWERS_MAX)))
            for number, presenter in zip(numbers, presenters, strict=False)
        }
        return Conference(choose.choice(self.addresses), groups)
