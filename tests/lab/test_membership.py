from lab.addresses import SFU_IP, SFU_MAC, ip_of, mac_of
from lab.delays import Packet, Seen
from lab.frames import UdpFrame
from lab.membership import Version, find_mixtures

A, B, C = ip_of(2), ip_of(3), ip_of(4)
VERSIONS = [
    Version(0, 0, (A, B)),
    Version(100, 110, (A, B, C)),
    Version(200, 210, (A, C)),
]


def packet(arrived_ns: int, *destinations: str) -> Packet:
    def seen(time_ns: int, ip: str) -> Seen:
        datagram = UdpFrame(mac_of(1), SFU_MAC, ip_of(1), ip, 5004, 5004, b"")
        return Seen(time_ns, datagram)

    copies = [seen(arrived_ns + 1 + idx, ip) for idx, ip in enumerate(destinations)]
    return Packet(seen(arrived_ns, SFU_IP), copies)


def mixtures(*packets: Packet) -> list[int]:
    return [found.packet_idx for found in find_mixtures(packets, VERSIONS)]


def test_each_packet_may_meet_the_version_in_force() -> None:
    assert mixtures(packet(50, A, B), packet(150, A, B, C), packet(250, A, C)) == []


def test_while_a_command_runs_both_versions_are_right() -> None:
    assert mixtures(packet(103, A, B), packet(106, A, B, C)) == []


def test_a_version_may_not_come_back() -> None:
    assert mixtures(packet(103, A, B, C), packet(106, A, B)) == [1]


def test_a_version_whose_successor_was_acknowledged_is_over() -> None:
    assert mixtures(packet(120, A, B)) == [0]


def test_a_version_is_not_there_before_its_command() -> None:
    assert mixtures(packet(50, A, B, C)) == [0]


def test_a_mix_of_two_versions_a_wrong_order_a_loss_and_a_double_are_found() -> None:
    wrong = [(A, B, A, C), (B, A), (A,), (A, B, B), ()]
    assert mixtures(*(packet(50, *destinations) for destinations in wrong)) == [0, 1, 2, 3, 4]


def test_a_slow_packet_may_meet_any_version_from_its_arrival_to_its_last_copy() -> None:
    slow = packet(95, A, B, C)
    slow.copies[-1] = Seen(230, slow.copies[-1].datagram)
    assert mixtures(slow) == []
