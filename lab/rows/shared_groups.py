"""The groups of the multicast paper's SFUs: one for each UDP port, which all senders share.

A packet to a port goes to the port's whole group except the sender. Therefore two streams to one
port must have the same viewers, apart from the senders, and no host can view its own stream.
"""

from collections.abc import Sequence

from lab.sites import Participant, Stream

Subscription = tuple[Stream, Sequence[Participant]]


class SharedGroups:
    """Keeps all subscriptions and computes the groups that serve them."""

    def __init__(self) -> None:
        self._viewers: dict[int, tuple[Stream, frozenset[Participant]]] = {}

    def subscribe(self, subscriptions: Sequence[Subscription]) -> dict[int, list[Participant]]:
        """Adds subscriptions; returns all groups by UDP port.

        Raises `ValueError` if no groups can serve all subscriptions; then nothing has changed. A
        stream without viewers is checked together with the other streams and then forgotten,
        because its sender may have left.
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
