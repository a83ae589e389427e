"""Linux' bridge, which floods: shows what copies cost in the kernel without any program."""

from collections.abc import Iterable, Sequence

from lab.colours import GREY
from lab.process import ChildError, run
from lab.rows.row import Row
from lab.sites import Participant, Stream

NAME = "br0"


class Bridge(Row):
    """A bridge of all participants' ports. Frames go to an Ethernet address that no port has.

    So a frame leaves, unchanged, by every port except the one by which it came. All streams must
    have the same participants, each of whom sends or views; otherwise raises `ValueError`.
    """

    name = "bridge"
    label = "Linux bridge, flooding"
    source = "Linux"
    look = (GREY, "p")
    rank = 50
    topologies = ("port_per_host",)
    readdresses = False

    def start(self) -> None:
        self._viewers: dict[int, tuple[Stream, frozenset[Participant]]] = {}
        self._members: frozenset[Participant] = frozenset()
        # A bridge keeps frames to a port's own address for itself, so the ports get other
        # addresses.
        self._ip(
            [
                f"link add {NAME} type bridge stp_state 0 mcast_snooping 0",
                *(
                    f"link set {link.sfu_interface} address 06{link.sfu_mac[2:]}"
                    for link in self.site.links
                ),
                f"link set {NAME} up",
            ]
        )

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        self.subscribe_all([(stream, viewers)])

    def subscribe_all(self, subscriptions: Sequence[tuple[Stream, Sequence[Participant]]]) -> None:
        wanted = self._viewers | {
            stream.number: (stream, frozenset(viewers)) for stream, viewers in subscriptions
        }
        wanted = {number: one for number, one in wanted.items() if one[1]}
        groups = {viewers | {stream.sender} for stream, viewers in wanted.values()}
        if len(groups) > 1:
            raise ValueError(
                f"{self.name}: expected the same participants in all streams, found "
                f"{len(groups)} groups of them: give it loads whose viewers are all others"
            )
        members = groups.pop() if groups else frozenset[Participant]()
        self._ip(
            [
                *(f"link set {port} nomaster" for port in self._ports(self._members - members)),
                *(
                    f"link set {port} master {NAME}"
                    for port in self._ports(members - self._members)
                ),
            ]
        )
        self._viewers, self._members = wanted, members

    def stop(self) -> None:
        """Removes the bridge, if it is there."""
        try:
            self._ip([f"link del {NAME}"])
        except ChildError:
            return

    @property
    def is_on_load_cpu(self) -> bool:
        return True

    @property
    def pids(self) -> tuple[int, ...]:
        """There are no processes: the kernel forwards."""
        return ()

    def _ports(self, of: Iterable[Participant]) -> list[str]:
        return sorted(self.site.link_of(one.number).sfu_interface for one in of)

    def _ip(self, commands: Sequence[str]) -> None:
        text = "".join(f"{command}\n" for command in commands)
        run(["ip", "-n", self.site.sfu.name, "-batch", "-"], stdin=text)
