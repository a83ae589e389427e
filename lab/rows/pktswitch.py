"""pktswitch of Baltas and Xylomenos (ISCC 2015): an SFU on sockets, and one with kernel bypass.

`lab/peers/pktswitch.c` is one program with four ways to the network. Participants subscribe to
streams by messages (lab/peers/pktswitch.md), each from its own address.
"""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import ClassVar

from lab import peers
from lab.colours import BROWN, VERMILION
from lab.process import ChildError
from lab.rows.pktswitch_messages import (
    LIFETIME_MAX_S,
    Message,
    StreamName,
    Type,
    decode_counters,
)
from lab.rows.pktswitch_participants import CONTROL_PORT, Endpoint, Participants
from lab.rows.row import ProcessRow, Variant
from lab.sites import SFU_IP, Participant, Site, Stream

Subscription = tuple[StreamName, Endpoint]


class Pktswitch(ProcessRow):
    """The program with any of its ways to the network."""

    source = "pktswitch"
    topologies = ("one_port", "port_per_host")
    needs_address: ClassVar[bool]
    """Whether the program uses the kernel's sockets, so that the kernel needs an address."""

    def __init__(self, site: Site, variant: Variant, folder: Path) -> None:
        super().__init__(site, variant, folder)
        self._participants = Participants(site, self._require_running)
        self._asked_for: dict[int, dict[Subscription, bool]] = {}
        """For each stream: the subscriptions asked for, and whether an answer confirmed them."""

    def start(self) -> None:
        peers.build()
        argv = [
            str(peers.program("pktswitch")),
            *("--io", self.variant.port, "--wait", self.variant.wait),
            *("--sfu", f"{SFU_IP}:{CONTROL_PORT}"),
        ]
        if self.needs_address:
            self.site.give_address()
        else:
            for link in self.site.links:
                argv += ["--link", link.sfu_interface]
        self.launch(argv, "pktswitch.log", "ready")

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        """Lets new viewers subscribe, in order, and then former viewers unsubscribe."""
        name = StreamName(stream.sender.ip, stream.udp_port, stream.udp_port)
        wanted = [(name, Endpoint(viewer, stream.viewer_udp_port)) for viewer in viewers]
        asked_for = self._asked_for.setdefault(stream.number, {})
        new = [one for one in wanted if not asked_for.get(one)]
        # Record subscriptions before sending the messages: a viewer whose subscription was not
        # confirmed may be subscribed all the same, and must be unsubscribed later.
        asked_for.update(dict.fromkeys(new, False))
        self._say(Type.SUBSCRIBE, new)
        asked_for.update(dict.fromkeys(new, True))
        gone = list(asked_for.keys() - set(wanted))
        asked_for.update(dict.fromkeys(gone, False))
        self._say(Type.UNSUBSCRIBE, gone)
        for one in gone:
            del asked_for[one]

    def statistics(self) -> dict[str, int]:
        """The program's counters so far, which participant 1 asks for."""
        asking = Endpoint(self.site.participant(1), CONTROL_PORT)
        message = Message(Type.STATISTICS, self._participants.next_number())
        return decode_counters(self._participants.ask([(asking, message)])[0])

    def final_statistics(self) -> dict[str, int]:
        """The program's counters when it was stopped, from the last line of its log."""
        lines = self.child.log_text().splitlines()
        if not lines or not lines[-1].startswith("{"):
            raise self.child.fail("it ended without saying what it had counted")
        counted: dict[str, int] = json.loads(lines[-1])
        return counted

    def _require_running(self) -> None:
        if self._child is None:
            raise ChildError("pktswitch is not started: call start() before subscribe()")
        if (code := self._child.exit_code) is not None:
            raise self._child.fail(f"nobody can subscribe: it has ended, exit code {code}")

    def _say(self, kind: Type, subscriptions: Sequence[Subscription]) -> None:
        value = LIFETIME_MAX_S if kind is Type.SUBSCRIBE else 0
        messages = [
            (endpoint, Message(kind, self._participants.next_number(), name, value))
            for name, endpoint in subscriptions
        ]
        self._participants.ask(messages)


class PktswitchSockets(Pktswitch):
    name = "pktswitch_sockets"
    label = "pktswitch, sockets"
    needs_address = True
    variants = tuple(
        Variant(port=port, wait=wait)
        for wait, port in product(("sleep", "spin"), ("udp", "udp_batched"))
    )
    fanout = tuple(Variant(port="udp_batched", wait=wait) for wait in ("spin", "sleep"))
    takes_turns = False
    look = (BROWN, "v")
    rank = 8


class PktswitchBypass(Pktswitch):
    """The paper's second design, with Linux' current interfaces in place of netmap."""

    name = "pktswitch_bypass"
    label = "pktswitch, kernel bypass"
    needs_address = False
    variants = tuple(
        Variant(port=port, wait=wait)
        for wait, port in product(("spin", "sleep"), ("afxdp", "afpacket"))
    )
    fanout = tuple(
        Variant(port=port, wait=wait)
        for port, wait in product(("afpacket", "afxdp"), ("spin", "sleep"))
    )
    overload = tuple(Variant(port=port, wait="spin") for port in ("afpacket", "afxdp"))
    look = (VERMILION, "^")
    rank = 7
