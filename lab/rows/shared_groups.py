"""Groups of the multicast paper's SFUs: one for each UDP port, with any sender.

A packet to the port goes to the whole group except the sender. So the viewers of two streams to one
port can only differ by the senders, and no host views its own stream.
"""

from collections.abc import Sequence

from lab.sites import Participant, Stream

Subscription = tuple[Stream, Sequence[Participant]]


class SharedGroups:
    """The subscriptions, and the groups that serve them."""

    def __init__(self) -> None:
        self._viewers: dict[int, tuple[Stream, frozenset[Participant]]] = {}

    def subscribe(self, subscriptions: Sequence[Subscription]) -> dict[int, list[Participant]]:
        """All groups by UDP port as they are then; `ValueError`, and no change, where none does.

        A stream without viewers is checked beside the others and then forgotten: its sender may
        have left, and those who stay need not all view what nobody sends.
        """
        wanted = self._viewers | {
            stream.number: (stream, frozenset(viewers)) for stream, viewers in subscriptions
        }
        groups: dict[int, set[Participant]] = {}
        for stream, viewers in wanted.values():
            if stream.sender in viewers:
                raise ValueError(
                    f"stream {stream.number}: participant {stream.sender.number} sends it and "
                    "cannot view it, the copy towards the sender is dropped"
                )
            groups.setdefault(stream.udp_port, set()).update(viewers)
        for stream, viewers in wanted.values():
            others = groups[stream.udp_port] - viewers - {stream.sender}
            if others:
                raise ValueError(_differs(stream, min(others, key=_number), list(wanted.values())))
        self._viewers = {number: one for number, one in wanted.items() if one[1]}
        return {udp_port: sorted(group, key=_number) for udp_port, group in groups.items()}


def _number(participant: Participant) -> int:
    return participant.number


def _differs(
    stream: Stream, other: Participant, wanted: Sequence[tuple[Stream, frozenset[Participant]]]
) -> str:
    of = next(
        one.number
        for one, viewers in wanted
        if other in viewers and one.udp_port == stream.udp_port
    )
    return (
        f"participant {other.number} views stream {of} and not stream {stream.number}: both are "
        f"sent to UDP port {stream.udp_port}, which has one group for all senders; subscribe to "
        "both at once, with the same viewers but for the senders"
    )
