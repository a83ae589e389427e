"""Viewers come and go while packets flow; each packet goes to exactly one version of the group."""

import random
import time
from collections import Counter
from pathlib import Path

from lab.addresses import PRESENTER, SFU_PORT, ip_of, mac_of
from lab.conference import GROUP, SPARE_S, at_stream_port, conference, observed, read_observation
from lab.controller import Controller
from lab.membership import Version, find_mixtures
from lab.process import Child
from lab.traffic import Burst, digest, start_sender
from tests.e2e.conftest import Sfu

DURATION_S = 8
"""The duration is short, because `lab.bench.soak` does the same for longer."""
PACKETS_PER_S = 1000
FRAME_LEN_BYTES = 200
STAYING = [2, 5, 9]
FIRST_GUEST = 10
N_HOSTS = 14
SEED = 20260301
PAUSE_S_MAX = 0.03


def first_versions(controller: Controller) -> list[Version]:
    """Adds the viewers that stay, with guests between them.

    When a guest is removed, viewers that stay move to other places in the group.
    """
    present = [2, 10, 5, 11, 9]
    for viewer in present:
        controller.add_viewer(GROUP, viewer)
    return [Version(0, time.time_ns(), tuple(map(ip_of, present)))]


def change_at_random(
    controller: Controller, versions: list[Version], sender: Child, choose: random.Random
) -> None:
    """Adds and removes guests while `sender` runs; appends a version for each command."""
    guests = [ip_of(n) for n in range(FIRST_GUEST, N_HOSTS + 1)]
    while sender.exit_code is None:
        present = list(versions[-1].viewer_ips)
        guest = choose.choice(guests)
        begun_ns = time.time_ns()
        number = int(guest.rsplit(".", 1)[1])
        if guest in present:
            controller.remove_viewer(GROUP, number)
            present.remove(guest)
        else:
            # The MAC is given, because asking for it by ARP would take half a second.
            controller.add_viewer(GROUP, number, "--mac", mac_of(number), "--port", str(SFU_PORT))
            present.append(guest)
        versions.append(Version(begun_ns, time.time_ns(), tuple(present)))
        # This pause is not a wait for anything: it spreads the changes over the intervals between
        # packets.
        time.sleep(choose.uniform(0, PAUSE_S_MAX))


def test_each_packet_meets_one_version_of_a_group_that_changes_at_random(
    sfu: Sfu, logs: Path
) -> None:
    print(f"seed {SEED}")
    rate_bps = PACKETS_PER_S * FRAME_LEN_BYTES * 8
    burst = Burst(PRESENTER, DURATION_S * PACKETS_PER_S, rate_bps, frame_len_bytes=FRAME_LEN_BYTES)
    with conference(sfu.program, logs, N_HOSTS, is_in_kernel=sfu.is_in_kernel) as running:
        star = running.star
        versions = first_versions(running.controller)
        everyone = [*STAYING, *range(FIRST_GUEST, N_HOSTS + 1)]
        with (
            observed(star, logs / "run", at_stream_port(everyone)),
            start_sender(star.host(PRESENTER), burst, logs / "sender.log") as sender,
        ):
            change_at_random(running.controller, versions, sender, random.Random(SEED))
            sender.expect_success(SPARE_S)
        seen = read_observation(logs / "run")
    packets = seen.matched.packets

    assert len(packets) == burst.n_packets
    assert seen.matched.unmatched_copies == []
    mixtures = find_mixtures(packets, versions)
    assert mixtures == [], f"{len(mixtures)} of {len(packets)} packets met a mixture"

    arrived = Counter((one.host, one.payload_digest) for one in seen.received)
    for viewer in STAYING:
        due = {(viewer, digest(data)): 1 for data in burst.payloads()}
        assert {key: n for key, n in arrived.items() if key[0] == viewer} == due
    # The viewers' sockets got exactly the copies that were captured.
    copies = Counter(ip for packet in packets for ip in packet.destinations)
    assert Counter(ip_of(one.host) for one in seen.received) == copies

    n_changes = len(versions) - 1
    sizes = {len(version.viewer_ips) for version in versions}
    print(f"{n_changes} changes, group sizes {sorted(sizes)}, {sum(copies.values())} copies")
    # On an idle machine there are hundreds of changes; beside other work a change takes half a
    # second.
    assert n_changes >= DURATION_S, "too few changes to show anything"
    assert len(sizes) >= 4
