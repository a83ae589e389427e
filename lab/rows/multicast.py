"""The multicast paper's P4-SFU, `p4/sfu_multicast_*.p4`, set up by `reprise entries apply`."""

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar

from lab.colours import VIOLET
from lab.rows.p4 import SWITCH_VARIANTS, SwitchRow
from lab.rows.shared_groups import SharedGroups, Subscription
from lab.sites import Participant, Stream
from lab.switch import MULTICAST_ONE_STREAM_PROGRAM, MULTICAST_TWO_STREAMS_PROGRAM

LOW_QUALITY_PORT = 6363
HIGH_QUALITY_PORT = 6364


class MulticastRow(SwitchRow):
    """The multicast paper's SFU: a group for each quality.

    A stream's UDP port determines its quality.

    As in the paper's program, all senders of a quality share its group. So streams of one quality
    have the same viewers, apart from the senders themselves (`lab.rows.shared_groups`), and all
    streams of a conference must be subscribed at once, by `subscribe_all`. `ValueError` is raised
    for what the paper's SFU cannot do. A copy keeps the stream's addresses, so no UDP socket of
    the switch could send it.
    """

    source = "multicast README"
    variants = tuple(one for one in SWITCH_VARIANTS if one.port != "udp")
    topologies = ("port_per_host",)
    readdresses = False
    group_ids: ClassVar[Mapping[int, int]]
    """The program's group ids, by UDP port."""

    def start(self) -> None:
        """Starts the switch; writes its routes to the hosts. `subscribe_all` makes the groups."""
        super().start()
        self._groups = SharedGroups()
        self._apply({})

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        self.subscribe_all([(stream, viewers)])

    def subscribe_all(self, subscriptions: Sequence[Subscription]) -> None:
        for stream, _ in subscriptions:
            if stream.udp_port not in self.group_ids:
                known = " or ".join(str(udp_port) for udp_port in self.group_ids)
                raise ValueError(
                    f"{self.name}: expected stream {stream.number} to be sent to UDP port {known}, "
                    f"found {stream.udp_port}"
                )
        self._apply(self._groups.subscribe(subscriptions))

    def _apply(self, groups: Mapping[int, Sequence[Participant]]) -> None:
        file = self.folder / "s1-runtime.json"
        file.write_text(json.dumps(self._runtime(groups), indent=1) + "\n")
        self.reprise("entries", "apply", str(file), "--replace")

    def _runtime(self, groups: Mapping[int, Sequence[Participant]]) -> dict[str, object]:
        hosts = self.site.participants(1, self.site.n_participants)
        return {
            "target": "bmv2",
            "table_entries": [
                {
                    "table": "SfuIngress.routes.ipv4_routes",
                    "match": {"dst_addr": [str(host.ip), 32]},
                    "action_name": "SfuIngress.routes.ipv4_forward",
                    "action_params": {"dst_addr": host.mac, "port": host.port},
                }
                for host in hosts
            ],
            "multicast_group_entries": [
                {
                    "multicast_group_id": self.group_ids[udp_port],
                    "replicas": [{"egress_port": one.port, "instance": 1} for one in group],
                }
                for udp_port, group in groups.items()
            ],
        }


class MulticastOneStream(MulticastRow):
    name = "multicast_one_stream"
    label = "P4, multicast, one stream"
    look = (VIOLET, "P")
    rank = 3
    program = MULTICAST_ONE_STREAM_PROGRAM
    group_ids: ClassVar[Mapping[int, int]] = {LOW_QUALITY_PORT: 1}


class MulticastTwoStreams(MulticastRow):
    name = "multicast_two_streams"
    label = "P4, multicast, two streams"
    look = (VIOLET, "X")
    rank = 4
    program = MULTICAST_TWO_STREAMS_PROGRAM
    group_ids: ClassVar[Mapping[int, int]] = {LOW_QUALITY_PORT: 1, HIGH_QUALITY_PORT: 2}
