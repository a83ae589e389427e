"""Tests that both switches send the same frames by the same ports.

So Open vSwitch's rules do what the P4 programs do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lab.frames import PROTOCOL_UDP
from lab.pisces.network import PROGRAMS, PROTOCOL_TCP, ROUTERS, station_mac
from lab.pisces.openflow import DIFFERENCES
from lab.pisces.switches import (
    CONTESTANTS,
    KERNEL_NAME,
    ON,
    OPTIMISED,
    Contestant,
    Setting,
    running,
)
from tests.pisces.packets import NETWORK, Packet, by_chance
from tests.pisces.wire import Left, exchange

N_PACKETS = 500
SEED = 20261123
DROP_ELIGIBLE = 0x1000
OVS = Contestant("ovs", "", ON)
NATIVE = Contestant("reprise", OPTIMISED, ON)
KERNEL = Contestant(KERNEL_NAME, "", "")
ROUTED = Packet(1, station_mac(0, 0), ROUTERS[0])
WITH_OPTIONS = replace(
    ROUTED, options=bytes.fromhex("01010100"), ports=(9, 443), protocol=PROTOCOL_TCP
)


def what_leaves(
    contestant: Contestant, port: str, program: str, packets: Sequence[Packet], folder: Path
) -> Left:
    here = folder / str(contestant).replace(" ", "-")
    with running(Setting(contestant, port, program, NETWORK), here) as up:
        return exchange(up.site, packets)


def differences(packets: Sequence[Packet], one: Left, other: Left) -> list[str]:
    return [
        f"{packet} left as {one.get(number)}, at Open vSwitch as {other.get(number)}"
        for number, packet in enumerate(packets)
        if one.get(number) != other.get(number)
    ]


def packets_for(program: str) -> list[Packet]:
    """Returns each packet twice, since a flow cache may know the packet's flow the second time."""
    packets = by_chance(N_PACKETS, SEED)
    if program != "l2l3_acl":
        packets.append(WITH_OPTIONS)
    return packets * 2


def same_as_open_vswitch(
    contestants: Sequence[Contestant], port: str, program: str, folder: Path
) -> None:
    packets = packets_for(program)
    expected = what_leaves(OVS, "afpacket", program, packets, folder)
    assert N_PACKETS * 0.1 < len(expected) < len(packets)
    for contestant in contestants:
        left = what_leaves(contestant, port, program, packets, folder / port)
        found = differences(packets, left, expected)
        told = "\n".join(found[:5])
        assert not found, f"{contestant}, {port}: {len(found)} packets, such as\n{told}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_byte_and_port_is_the_same(open_vswitch: None, program: str, tmp_path: Path) -> None:
    others = [one for one in CONTESTANTS if one != OVS]
    same_as_open_vswitch(others, "afpacket", program, tmp_path)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_same_on_af_xdp(
    open_vswitch: None, system_root: None, program: str, tmp_path: Path
) -> None:
    same_as_open_vswitch([NATIVE, OVS, KERNEL], "afxdp", program, tmp_path)


@dataclass(frozen=True)
class Difference:
    packet: Packet
    ours: tuple[int, ...]
    theirs: tuple[int, ...]
    program: str = "l2l3_acl"


TRUNK_TO_TRUNK = Packet(4, station_mac(0, 0), station_mac(0, 1), tag=DROP_ELIGIBLE | 10)
IN_THE_ORDER_OF_DIFFERENCES = (
    Difference(replace(ROUTED, checksum_error=0x0101), (), (2,)),
    Difference(replace(WITH_OPTIONS, ports=(53, 9), protocol=PROTOCOL_UDP), (2,), ()),
    Difference(replace(ROUTED, destination=station_mac(0, 1), ether_type=0x88A8), (3,), ()),
    Difference(replace(ROUTED, length_error=1), (2,), ()),
    Difference(TRUNK_TO_TRUNK, (3,), (3,), program="l2"),
)


def test_what_cannot_be_the_same_is_as_documented(open_vswitch: None, tmp_path: Path) -> None:
    assert len(DIFFERENCES) == len(IN_THE_ORDER_OF_DIFFERENCES)
    for program in ("l2l3_acl", "l2"):
        known = [one for one in IN_THE_ORDER_OF_DIFFERENCES if one.program == program]
        packets = [ROUTED, *(one.packet for one in known)]
        ours = what_leaves(NATIVE, "afpacket", program, packets, tmp_path / program)
        theirs = what_leaves(OVS, "afpacket", program, packets, tmp_path / program)
        assert ours[0] == theirs[0]
        for number, one in enumerate(known, 1):
            for left, ports in ((ours, one.ours), (theirs, one.theirs)):
                assert tuple(port for port, _ in left.get(number, [])) == ports, one
            assert ours.get(number) != theirs.get(number), one
