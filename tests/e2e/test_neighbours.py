"""Viewers whose MAC address changes while they view."""

import time
from collections.abc import Callable

from lab.frames import arp_announcement
from lab.netns import HOST_INTERFACE, Namespace
from lab.traffic import inject
from tests.e2e.two_ports import TwoPorts, ip_of, mac_of

NEW_MAC = "02:00:00:00:aa:02"
TIMEOUT_S = 120.0


def change_mac(host: Namespace, mac: str) -> None:
    """Changes a host's MAC address, as if it had a new network card."""
    host.run(["ip", "link", "set", HOST_INTERFACE, "address", mac])


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.2)


def mac_in_switch(running: TwoPorts, host: int) -> str:
    mac: str = running.viewers(1)[ip_of(host)]["mac"]
    return mac


def start_conference(running: TwoPorts) -> None:
    running.reprise("group", "add", "--group", "1", "--ip", ip_of(1))
    running.reprise("viewer", "add", "--group", "1", "--ip", ip_of(2))
    running.reprise("viewer", "add", "--group", "1", "--ip", ip_of(3))
    by_hand = ["--mac", mac_of(4), "--port", "2"]
    running.reprise("viewer", "add", "--group", "1", "--ip", ip_of(4), *by_hand)


def assert_is_served(running: TwoPorts, host: int) -> None:
    with running.receiver(host) as receiver:
        running.present(1, [b"still there?"])
        assert receiver.recv(64) == b"still there?"


def test_refresh_follows_a_viewer_that_was_looked_up_and_no_other(running: TwoPorts) -> None:
    start_conference(running)
    assert running.reprise("viewer", "refresh") == "no change\n"
    change_mac(running.network.hosts[2], NEW_MAC)
    change_mac(running.network.hosts[4], "02:00:00:00:aa:04")
    line = running.reprise("viewer", "refresh")
    assert line == (f"~ group 1: viewer {ip_of(2)}:5004 {NEW_MAC} on port 1, mac was {mac_of(2)}\n")
    assert mac_in_switch(running, 4) == mac_of(4)
    assert_is_served(running, 2)
    assert_is_served(running, 3)


def test_an_announcement_is_heard_at_once_and_believed_only_of_who_is_there(
    running: TwoPorts,
) -> None:
    start_conference(running)
    # The command looks viewers up once at its start, and then only after an hour.
    command = running.command("viewer", "refresh", "--every", "3600")
    follower = running.network.sfu.start(command, running.folder / "refresh.log")
    try:
        # Host 4 claims to be host 3, which exists and answers.
        liar = running.network.hosts[4]
        inject(liar, arp_announcement(ip_of(3), mac_of(4)))
        change_mac(running.network.hosts[2], NEW_MAC)
        inject(running.network.hosts[2], arp_announcement(ip_of(2), NEW_MAC))
        wait_until(lambda: mac_in_switch(running, 2) == NEW_MAC, "the viewer is not followed")
        assert mac_in_switch(running, 3) == mac_of(3)
        # Other commands work while `viewer refresh` runs.
        running.reprise("viewer", "remove", "--group", "1", "--ip", ip_of(4))
        assert_is_served(running, 2)
        assert_is_served(running, 3)
    finally:
        follower.stop()


def test_a_viewer_on_another_port_is_told_of_at_once_and_moved_by_what_is_said(
    running: TwoPorts,
) -> None:
    start_conference(running)
    command = running.command("viewer", "refresh", "--every", "3600")
    follower = running.network.sfu.start(command, running.folder / "refresh.log")
    try:
        # Host 2 is connected to port 2 now.
        running.network.bridges.run(["ip", "link", "set", "to-h2-1", "master", "br2"])
        said = f"viewer {ip_of(2)} does not answer to ARP on port 1, but elsewhere"

        def is_told() -> bool:
            # The host announces itself again and again.
            inject(running.network.hosts[2], arp_announcement(ip_of(2), mac_of(2)))
            return said in follower.log_text()

        wait_until(is_told, "nobody says it")
    finally:
        follower.stop()
    line = next(one for one in follower.log_text().splitlines() if said in one)
    assert f"({mac_of(2)} on port 2)" in line
    commands = [one.split("`")[0] for one in line.split("`reprise ")[1:]]
    assert [one.split()[:2] for one in commands] == [["viewer", "remove"], ["viewer", "add"]]
    for one in commands:
        running.reprise(*one.split())
    assert running.viewers(1)[ip_of(2)]["port"] == 2
    assert_is_served(running, 2)
