"""`python -m lab.bench.soak`: offers millions of packets while a controller writes all the time.

Viewers join and leave and table entries change, a thousand writes a second. At the end the run is
judged: the switch must have counted every loss, no viewer may have a copy of a packet that was sent
after its removal, each viewer's copies must have come once and in order, and the switch's memory
must not have grown.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from lab.bench.cells import Failures, prepare
from lab.bench.forwarders import SFU_PROGRAMS, Forwarder, stream_of
from lab.bench.load import Run, Watched, watching
from lab.bench.overload import Moment, counted_drops, vanished
from lab.counters import Counters, device_drops, read_metrics
from lab.csvs import csv_text, numbers_of
from lab.machine import session
from lab.netns import NamespaceError
from lab.process import REPOSITORY, Child, ChildError, interrupt_on_termination
from lab.progress import bar
from lab.sites import OnePort, Stream, viewer_ip
from lab.switch import GRPC_ADDRESS, RELEASE, MissingBuildError, require_build
from lab.terminal import rewrite

CHURN = RELEASE / "examples" / "membership_churn"
PACKETS = 24_000_000
RATE_PPS = 25_000.0
STAYING = 8
WRITES_PER_S = 1000
CHANGE_EVERY = 50
FIRST_GUEST = 1024
"""Guests are viewers that join and leave. Their addresses begin this many after the first viewer's
address, and each address is used once."""
N_GUESTS_MAX = 65536 - FIRST_GUEST
CHURNED_GROUP, IDLE_GROUP = 1, 2
IDLE_STREAM_IP = IPv4Address("10.0.0.77")
SPARE_S = 120.0
SAMPLE_S = 1.0
GROWTH_MAX_KIB = 1024
"""The most that the switch's memory may grow from the end of the run's first tenth to the end."""


@dataclass(frozen=True, slots=True)
class Sample:
    time_s: float
    packets: int
    copies: int
    writes: int
    rss_kib: int


@dataclass(frozen=True, slots=True)
class Membership:
    """The times in ns at which a guest's join and its leave began and ended; 0 means not yet."""

    joins_ns: tuple[int, int]
    leaves_ns: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result, as in soak.json. The comments name the value that a correct switch reaches."""

    forwarder: str
    packets: int
    seconds: float
    copies: int
    writes: int
    guests: int
    drops: int
    """Packets that the switch counted as dropped, for any reason."""
    vanished: int
    """Packets and copies that were lost and not counted; 0 for a correct switch."""
    stale_viewers: int
    """Guests that got a copy of a packet sent after their removal; 0 for a correct switch."""
    missing: int
    """Copies missing between a viewer's first and last copy; 0 if the switch dropped nothing."""
    misordered: int
    """Copies that came twice or after a copy of a later packet; 0 for a correct switch."""
    strangers: int
    """Addresses that got a copy without ever having been viewers; 0 for a correct switch."""
    rss_first_kib: int
    rss_last_kib: int

    def faults(self) -> list[str]:
        checks = {
            "packets or copies vanished without a counter": self.vanished,
            "viewers got a copy of a packet sent after their removal": self.stale_viewers,
            "packets are missing, and no drop was counted": 0 if self.drops else self.missing,
            "copies came twice or out of order": self.misordered,
            "addresses got copies and never were viewers": self.strangers,
            "KiB of memory more than at the beginning": self._growth_kib(),
        }
        return [f"{n:,} {what}" for what, n in checks.items() if n]

    def _growth_kib(self) -> int:
        growth = self.rss_last_kib - self.rss_first_kib
        return growth if growth > GROWTH_MAX_KIB else 0


def churn_command(site: OnePort, writes_per_s: int, change_every: int, seconds: float) -> list[str]:
    """The command of the controller that writes all the time (crates/sfu/conference/examples)."""
    first = str(site.participant(2).ip + FIRST_GUEST)
    return [
        str(CHURN),
        *(GRPC_ADDRESS, str(CHURNED_GROUP), first, site.links[0].host_mac),
        *(str(IDLE_STREAM_IP), str(IDLE_GROUP)),
        *(str(writes_per_s), str(change_every), f"{seconds:.1f}"),
    ]


def memberships(lines: Sequence[Mapping[str, Any]]) -> dict[int, Membership]:
    """Reads the guests' memberships, by address as in `Watched`, from the controller's output."""
    seen: dict[int, Membership] = {}
    for line in lines:
        if "ip" not in line:
            continue
        address = int(IPv4Address(line["ip"])) - int(viewer_ip(1))
        span = (int(line["begun_ns"]), int(line["done_ns"]))
        seen[address] = (
            Membership(span) if line["joins"] else Membership(seen[address].joins_ns, span)
        )
    return seen


def stale(watched: Sequence[Watched], guests: Mapping[int, Membership]) -> list[int]:
    """The addresses of guests that got a copy of a packet that was sent after their removal."""
    return [
        one.address
        for one in watched
        if one.address in guests and 0 < guests[one.address].leaves_ns[1] < one.last_sent_ns
    ]


def missing(watched: Sequence[Watched]) -> int:
    """Adds up the packets that each address misses between its first copy and its last."""
    return sum(one.last_sequence - one.first_sequence + 1 - one.copies for one in watched)


def json_lines(text: str) -> list[dict[str, Any]]:
    """Parses the JSON document in each line; ignores lines without one, such as a cut last line."""
    lines = []
    for line in text.splitlines():
        with suppress(json.JSONDecodeError):
            lines.append(json.loads(line))
    return lines


def last_line(path: Path, key: str) -> dict[str, Any]:
    """Returns the last complete JSON line with `key` near a log's end; {} if there is none yet."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        found = [line for line in json_lines(file.read().decode(errors="replace")) if key in line]
    return found[-1] if found else {}


def rss_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise ChildError(f"process {pid} has no VmRSS: it has ended")


def _follow(sender: Child, churn: Child, pid: int, n_packets: int) -> list[Sample]:
    """Takes samples until the load has ended. Ctrl-C ends the load early."""
    samples: list[Sample] = []
    try:
        _sample(samples, sender, churn, pid, n_packets)
    except KeyboardInterrupt:
        sender.interrupt()
    rewrite("")
    return samples


def _sample(samples: list[Sample], sender: Child, churn: Child, pid: int, n_packets: int) -> None:
    began_s = time.monotonic()
    while sender.exit_code is None:
        if churn.exit_code is not None:
            raise churn.fail(f"exit code {churn.exit_code} before the load had ended")
        sent, done = last_line(sender.log, "sent"), last_line(churn.log, "writes")
        now_s = time.monotonic() - began_s
        n = sent.get("sent", 0)
        sample = Sample(now_s, n, sent.get("copies", 0), done.get("writes", 0), rss_kib(pid))
        samples.append(sample)
        left_s = (n_packets - n) * now_s / n if n else 0.0
        what = f"packets, {sample.writes:,} writes, {sample.rss_kib / 1024:.1f} MiB"
        rewrite(bar(n, n_packets, left_s, what))
        time.sleep(SAMPLE_S)


def judge(
    forwarder: Forwarder,
    run: Run,
    *,
    watched: Sequence[Watched],
    said: Sequence[Mapping[str, Any]],
    samples: Sequence[Sample],
    counted: Counters,
    wire_drops: int,
) -> Verdict:
    guests = memberships(said)
    known = {*guests, *range(run.n_viewers)}
    before, after = Moment(Counters({}), 0), Moment(counted, wire_drops)
    settled = samples[len(samples) // 10 :]
    return Verdict(
        forwarder=str(forwarder),
        packets=run.sent,
        seconds=run.seconds,
        copies=run.copies + run.others,  # `others` are guests' copies
        writes=max((line["writes"] for line in said if "writes" in line), default=0),
        guests=len(guests),
        drops=round(counted_drops(before, after)),
        vanished=round(vanished(run, before, after)),
        stale_viewers=len(stale(watched, guests)),
        missing=missing(watched),
        misordered=sum(one.misordered for one in watched),
        strangers=sum(1 for one in watched if one.address not in known),
        rss_first_kib=settled[0].rss_kib if settled else 0,
        rss_last_kib=settled[-1].rss_kib if settled else 0,
    )


def run(
    folder: Path,
    forwarder: Forwarder,
    *,
    n_packets: int = PACKETS,
    rate_pps: float = RATE_PPS,
    staying: int = STAYING,
    writes_per_s: int = WRITES_PER_S,
    change_every: int = CHANGE_EVERY,
) -> Failures:
    """Makes a run; writes soak.csv (a row a second), soak.json and the logs. Returns the faults."""
    require_build(CHURN)
    seconds_max = 2.0 * n_packets / rate_pps + SPARE_S
    watched = folder / "watched.csv"
    with (
        OnePort(1 + staying) as site,
        forwarder.kind(site, forwarder.variant, folder) as row,
    ):
        idle = Stream(IDLE_GROUP, replace(site.participant(1), ip=IDLE_STREAM_IP))
        viewers = site.participants(2, staying)
        row.subscribe_all([(stream_of(site), viewers), (idle, [])])
        churning = churn_command(site, writes_per_s, change_every, seconds_max)
        offering = watching(
            site,
            n_viewers=staying,
            rate_pps=rate_pps,
            n_packets=n_packets,
            seconds_max=seconds_max,
            to=watched,
        )
        with site.sfu.start(churning, folder / "churn.log") as churn:
            churn.wait_for_line("{", SPARE_S)
            with site.hosts.start(offering, folder / "load.log") as sender:
                samples = _follow(sender, churn, row.pids[0], n_packets)
                sender.expect_success(SPARE_S)
        counted = read_metrics(site.sfu)
        wire_drops = device_drops(site.sfu, site.links[0].sfu_interface)
    seen = last_line(folder / "load.log", "copies_of_viewer_min")
    verdict = judge(
        forwarder,
        Run(n_viewers=staying, **seen),
        watched=numbers_of(Watched, watched),
        said=json_lines((folder / "churn.log").read_text()),
        samples=samples,
        counted=counted,
        wire_drops=wire_drops,
    )
    (folder / "soak.csv").write_text(csv_text(Sample, samples))
    drops = {reason: n for reason, n in counted.drops.items() if n}
    said = {**asdict(verdict), "drops_by_reason": drops, "faults": verdict.faults()}
    (folder / "soak.json").write_text(json.dumps(said, indent=1) + "\n")
    print(json.dumps(said, indent=1))
    return verdict.faults()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.soak",
        description=__doc__,
        epilog="Takes PACKETS / RATE seconds: 16 minutes unless told otherwise; Ctrl-C ends it "
        "early and judges what was. Needs\n\n"
        "  cargo build --release -p conference --example membership_churn\n\n"
        "Writes soak.csv (a row a second), soak.json (the verdict), logs. Exit code 1: something "
        "does not hold.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--results", type=Path, default=REPOSITORY / "results", help="where its folder is made"
    )
    parser.add_argument("--packets", type=int, default=PACKETS, help=f"{PACKETS:,} unless given")
    parser.add_argument("--rate", type=float, default=RATE_PPS, help="packets a second; 25,000")
    parser.add_argument("--viewers", type=int, default=STAYING, help="viewers that stay; 8")
    parser.add_argument("--writes", type=int, default=WRITES_PER_S, help="writes a second; 1,000")
    parser.add_argument(
        "--change-every", type=int, default=CHANGE_EVERY, help="writes between joins or leaves; 50"
    )
    parser.add_argument("--program", choices=SFU_PROGRAMS, default="p4_replication")
    parser.add_argument("--engine", choices=["native", "interpreter", "kernel"], default="native")
    parser.add_argument("--port", choices=["afxdp", "afpacket", "xdp"], default="afxdp")
    parser.add_argument("--wait", choices=["spin", "sleep", "shared", "thread"], default="sleep")
    said = parser.parse_args()
    if min(said.packets, said.rate, said.viewers, said.writes, said.change_every) <= 0:
        parser.error("expected numbers above 0")
    in_kernel = {said.engine == "kernel", said.port == "xdp", said.wait in ("shared", "thread")}
    if len(in_kernel) > 1:
        parser.error("the kernel engine goes with --port xdp and --wait shared or thread")
    n_guests = 2.0 * said.packets / said.rate * said.writes / said.change_every / 2
    if n_guests > N_GUESTS_MAX or said.viewers > FIRST_GUEST:
        parser.error(
            f"expected at most {FIRST_GUEST} viewers and {N_GUESTS_MAX} guests, found "
            f"{said.viewers} and up to {n_guests:.0f}: a higher --change-every or --rate"
        )
    forwarder = Forwarder(said.program, said.engine, said.port, said.wait)

    interrupt_on_termination()
    try:
        prepare()
        folder = said.results / f"soak-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        folder.mkdir(parents=True)
        (folder / "session.json").write_text(json.dumps(session(sys.argv), indent=1) + "\n")
        faults = run(
            folder,
            forwarder,
            n_packets=said.packets,
            rate_pps=said.rate,
            staying=said.viewers,
            writes_per_s=said.writes,
            change_every=said.change_every,
        )
    except KeyboardInterrupt:
        print("\ninterrupted: nothing was judged", file=sys.stderr)
        return 130
    except (ChildError, MissingBuildError, NamespaceError) as error:
        print(f"lab.bench.soak: {error}", file=sys.stderr)
        return 1
    for fault in faults:
        print(f"does not hold: {fault}", file=sys.stderr)
    print(folder)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
