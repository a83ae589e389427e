"""The row (SFU) Open vSwitch, with real packets."""

import itertools
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from lab.netns import process_ids
from lab.process import ChildError, run
from lab.rows import open_vswitch
from lab.rows.open_vswitch import BUCKETS_A_MESSAGE, OvsGroup, group_changes
from lab.rows.row import Variant
from lab.sites import LOAD_CPU, SFU_CPU, SITES, OnePort, PortPerHost, Stream
from tests.needs import need
from tests.rows.exchange import Copy, came, due, exchange, rtp, serves_and_stops_serving

TRIES = 12
SLEEPING = Variant(port="system", wait="sleep")


@pytest.fixture(autouse=True)
def installed(namespaces: None) -> None:
    need(OvsGroup.lacks())


def sockets_in(folder: Path) -> list[str]:
    return [file.name for file in folder.rglob("*") if file.is_socket()]


def kill(pid: int) -> None:
    """Kills a process, and returns when none of its threads runs any more."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize("topology", OvsGroup.topologies)
@pytest.mark.parametrize("variant", OvsGroup.variants, ids=str)
def test_it_serves(topology: str, variant: Variant, tmp_path: Path) -> None:
    with SITES[topology](4) as site:
        with OvsGroup(site, variant, tmp_path) as running:
            serves_and_stops_serving(running)
            running.subscribe(Stream(1, site.participant(1)), [])
            assert exchange(site, [(Stream(1, site.participant(1)), rtp(90))], 0) == []
        assert process_ids(site.sfu) == []
        assert sockets_in(tmp_path) == []


def test_a_stream_loses_nothing_while_another_one_changes(tmp_path: Path) -> None:
    with PortPerHost(5) as site, OvsGroup(site, SLEEPING, tmp_path) as running:
        steady, changing = Stream(1, site.participant(1)), Stream(2, site.participant(2))
        running.subscribe(steady, site.participants(3, 2))
        running.subscribe(changing, site.participants(3, 2))
        is_over = threading.Event()
        n_changes = 0

        def change() -> None:
            nonlocal n_changes
            while not is_over.is_set():
                running.subscribe(changing, site.participants(3, n_changes % 4))
                n_changes += 1

        other = threading.Thread(target=change)
        other.start()
        try:
            payloads: list[bytes] = []
            copies: list[Copy] = []
            # A round takes a second. On a busy machine a change of viewers takes half a second.
            for _ in range(30):
                some = [rtp(number) for number in range(len(payloads), len(payloads) + 200)]
                copies += exchange(site, [(steady, one) for one in some], 400, interval_s=0.005)
                payloads += some
                if n_changes >= 4:
                    break
        finally:
            is_over.set()
            other.join()
        assert n_changes >= 4
        assert came(copies) == due(payloads, site.participants(3, 2))


def test_streams_of_one_sender_are_told_apart_and_one_that_moves_leaves_its_port(
    tmp_path: Path,
) -> None:
    with OnePort(4) as site, OvsGroup(site, SLEEPING, tmp_path) as running:
        sender = site.participant(1)
        low, high = Stream(1, sender), Stream(2, sender, udp_port=6364, viewer_udp_port=6364)
        running.subscribe(low, site.participants(2, 3))
        running.subscribe(high, site.participants(2, 1))
        copies = exchange(site, [(low, b"low"), (high, b"high")], 4)
        expected = due([b"low"], site.participants(2, 3)) + due([b"high"], site.participants(2, 1))
        assert came(copies) == expected
        moved = Stream(2, sender, udp_port=7000)
        running.subscribe(moved, site.participants(3, 1))
        copies = exchange(site, [(high, b"high"), (moved, b"moved")], 1)
        assert came(copies) == due([b"moved"], site.participants(3, 1))


def test_a_group_is_more_than_one_message_holds(tmp_path: Path) -> None:
    n_viewers = 2 * BUCKETS_A_MESSAGE + 1
    with OnePort(n_viewers + 1) as site, OvsGroup(site, SLEEPING, tmp_path) as running:
        stream = Stream(1, site.participant(1))
        for n in (n_viewers, BUCKETS_A_MESSAGE, n_viewers):
            viewers = site.participants(2, n)
            running.subscribe(stream, viewers)
            expected = due([rtp(n)], viewers)
            # A processor's backlog has room for 1,000 packets, including those of other tests, and
            # drops any further packets.
            for _ in range(TRIES):
                copies = came(exchange(site, [(stream, rtp(n))], n, limit_s=10.0))
                assert copies <= expected
                if copies == expected:
                    break
            assert copies == expected


@pytest.mark.parametrize("daemon", ["ovs-vswitchd", "ovsdb-server"])
def test_a_daemon_that_was_killed_leaves_nothing_and_it_starts_again(
    daemon: str, tmp_path: Path
) -> None:
    with OnePort(3) as site:
        stream, viewers = Stream(1, site.participant(1)), site.participants(2, 2)
        killed = OvsGroup(site, SLEEPING, tmp_path)
        with killed:
            killed.subscribe(stream, viewers)
            for pid in process_ids(site.sfu):
                if Path(f"/proc/{pid}/comm").read_text().strip() == daemon:
                    kill(pid)
            assert sockets_in(tmp_path)
            if daemon == "ovs-vswitchd":
                with pytest.raises(ChildError, match=r"ovs-vswitchd: it has ended"):
                    killed.subscribe(stream, viewers[:1])
        killed.stop()
        assert process_ids(site.sfu) == []
        assert sockets_in(tmp_path) == []
        with OvsGroup(site, SLEEPING, tmp_path) as again:
            serves(again, stream)


def test_it_starts_in_a_folder_that_a_killed_lab_left(tmp_path: Path) -> None:
    with OnePort(3) as site:
        left = OvsGroup(site, SLEEPING, tmp_path)
        left.start()
        for pid in process_ids(site.sfu):
            kill(pid)
        assert sockets_in(tmp_path)
        with OvsGroup(site, SLEEPING, tmp_path) as again:
            serves(again, Stream(1, site.participant(1)))
        left.stop()
        assert sockets_in(tmp_path) == []


def serves(row: OvsGroup, stream: Stream) -> None:
    viewers = row.site.participants(2, 2)
    row.subscribe(stream, viewers)
    assert came(exchange(row.site, [(stream, rtp(1))], 2)) == due([rtp(1)], viewers)


def test_a_start_that_is_interrupted_between_any_two_commands_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = open_vswitch.Daemons.say
    n_left = 0

    def say_or_stop(self: open_vswitch.Daemons, *argv: str) -> str:
        nonlocal n_left
        if n_left == 0:
            raise KeyboardInterrupt
        n_left -= 1
        return say(self, *argv)

    monkeypatch.setattr(open_vswitch.Daemons, "say", say_or_stop)
    with OnePort(2) as site:
        for n_commands in itertools.count():
            n_left = n_commands
            try:
                with OvsGroup(site, SLEEPING, tmp_path):
                    break
            except KeyboardInterrupt:
                assert process_ids(site.sfu) == []
                assert sockets_in(tmp_path) == []
        # Commands: make the database, two settings, make the bridge, read the port's number.
        assert n_commands == 5


def test_a_link_that_the_bridge_cannot_have_is_named(tmp_path: Path) -> None:
    with OnePort(2) as site:
        run(["ip", "-n", site.sfu.name, "link", "set", site.links[0].sfu_interface, "name", "q1"])
        with (
            pytest.raises(ChildError, match="did not take p1 as port 1 of type system"),
            OvsGroup(site, SLEEPING, tmp_path),
        ):
            pass
        assert process_ids(site.sfu) == []


def test_the_daemons_have_their_processors(tmp_path: Path) -> None:
    with OnePort(2) as site, OvsGroup(site, OvsGroup.variants[0], tmp_path) as running:
        cpus = {
            Path(f"/proc/{pid}/comm").read_text().strip(): [
                os.sched_getaffinity(int(thread.name))
                for thread in Path(f"/proc/{pid}/task").iterdir()
            ]
            for pid in process_ids(site.sfu)
        }
        assert set(cpus) == {"ovsdb-server", "ovs-vswitchd"}
        assert all(one == {LOAD_CPU} for one in cpus["ovsdb-server"])
        assert all(one == {SFU_CPU} for one in cpus["ovs-vswitchd"])
        assert len(cpus["ovs-vswitchd"]) > 1, "a thread that polls AF_XDP"
        assert Path(f"/proc/{running.pids[0]}/comm").read_text().strip() == "ovs-vswitchd"


def test_what_lacks_comes_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert OvsGroup.lacks() == (
        "ovs-vswitchd, ovsdb-server, ovsdb-tool, ovs-vsctl, ovs-ofctl of Open vSwitch: "
        "scripts/install-packages openvswitch"
    )


def test_a_group_is_made_of_as_many_messages_as_it_takes() -> None:
    assert group_changes(7, []) == ["group add_or_mod group_id=7,type=all"]
    buckets = [f"actions=output:{number}" for number in range(BUCKETS_A_MESSAGE + 1)]
    first, second = group_changes(7, buckets)
    assert first.startswith("group add_or_mod group_id=7,type=all,bucket=bucket_id:0,actions=outp")
    assert first.count("bucket=") == BUCKETS_A_MESSAGE
    assert second == (
        f"group insert_bucket group_id=7,command_bucket_id=last,"
        f"bucket=bucket_id:{BUCKETS_A_MESSAGE},actions=output:{BUCKETS_A_MESSAGE}"
    )
