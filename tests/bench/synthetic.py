"""Makes small but complete result files, as if benchmarks had been run, with known ratios."""

import itertools
from dataclasses import MISSING, fields
from typing import Any

from lab.bench.load import Run
from lab.results.benchmarks import (
    FanoutRow,
    OverloadRow,
    PktswitchRow,
    PriorityRow,
    ProcessorRow,
    SwitchingRow,
)

RELAY_RATE = 800_000.0
SHARE_OF_RELAY = 0.95
NAIVE_NS, ALL_NS = 300.0, 120.0
KNEE_VIEWERS = 2048

PIPELINE = (
    "program,engine,optimisations,packet_size_bytes,flows,ns_per_packet,tsc_ticks_per_packet,part,"
    "variant,ns_per_packet_min,ns_per_packet_max,rounds,viewers,copies_per_packet,ns_per_copy"
)
GROWTH = "program,engine,optimisations,grows,value,ns_per_packet,copies_per_packet,ns_per_copy"


def _header(kind: type[Any]) -> str:
    return ",".join(column.name for column in fields(kind) if column.default is MISSING)


def _csv(header: str, lines: list[str]) -> str:
    return "\n".join([header, *lines, ""])


def _fanout() -> str:
    shares = {
        "p4_replication,native": SHARE_OF_RELAY,
        "p4_recirculation,native": 0.8,
        "pktswitch_bypass,": 1.0,
        "ovs_group,": 0.7,
    }
    lines = [
        f"{name},{port},spin,{n},{RELAY_RATE * share * n / (n + 1):.0f},{RELAY_RATE * share:.0f},"
        f"{20 / share:.1f},{90 / share:.1f},{20 / share + n:.1f},{90 / share + n:.1f},"
        f"{1200 / share:.0f}"
        for (name, share), port, n in itertools.product(
            shares.items(), ("afxdp", "afpacket"), (1, 4, 16, 64, 256)
        )
        if (name, port) != ("ovs_group,", "afpacket")
    ]
    lines.append(f"p4_replication,interpreter,afpacket,spin,64,80000,{RELAY_RATE / 9},9,9,9,9,")
    return _csv(_header(FanoutRow), [*lines, "raw,,afxdp,spin,1,990000,990000,,,,,1010"])


def _pipeline() -> str:
    variants = (
        ("interpreter", "none", "reference", 2000.0),
        ("native", "none", "naive; without inline-editing", NAIVE_NS),
        ("native", "inline-editing", "pisces", NAIVE_NS / 2),
        ("native", "all", "alone inline-editing; step 1 inline-editing; all", ALL_NS),
    )
    lines = [
        f"{program},{engine},{choice},64,{flows},{ns},{2.6 * ns},{part},{roles},1,9,9,,{copies},"
        f"{ns / copies}"
        for program, flows, copies in (("l2l3_acl", 1, 1), ("l2l3_acl", 10000, 1), ("sfu", 1, 64))
        for engine, choice, roles, whole_ns in variants
        for part, ns in (("whole", whole_ns), ("parser", whole_ns / 4), ("ingress", whole_ns / 2))
    ]
    return _csv(PIPELINE, lines)


def _growth() -> str:
    values = {"entries": (10, 1000), "viewers": (1, 64, 1024), "packet_size_bytes": (64, 1500)}
    lines = [
        f"sfu,{engine},{choice},{grows},{value},{ns + value / 10},{value},{ns / value}"
        for engine, choice, ns in (("interpreter", "none", 900.0), ("native", "all", 90.0))
        for grows, found in values.items()
        for value in found
    ]
    return _csv(GROWTH, lines)


def _overload() -> str:
    lines = [
        f"{name},{n},{times},{min(times, 1.0) * peak},{max(0, 1 - 1 / times):.3f},{500 * times},"
        f"{port},1,0.5,0,{vanished},{0.97 if times == 10.0 else ''}"
        for name, port, peak, vanished in (
            ("p4_replication,native", "afxdp,spin", 7e5, 0),
            ("p4_replication,kernel", "xdp,thread", 1.5e6, 0),
            ("p4_replication,kernel", "xdp,shared", 2e6, 0),
            ("pktswitch_bypass,", "afxdp,spin", 8e5, ""),
        )
        for n in (8, 64)
        for times in (0.1, 0.5, 1.0, 2.0, 10.0)
    ]
    return _csv(_header(OverloadRow), lines)


def _pktswitch() -> str:
    lines = [
        f"{name},sleep,{n},3000,1500,50,200,100,50,9000,400,100,75,8e5,9e5"
        for name in ("pktswitch_bypass,", "p4_replication,native")
        for n in (1, 64)
    ]
    return _csv(_header(PktswitchRow), lines)


def _kernel() -> str:
    rates = {
        "p4_replication,kernel,xdp,shared": 0.85,
        "xdp_relay,,xdp,shared": 1.0,
        "p4_replication,native,afxdp,spin": 0.32,
    }
    lines = [
        f"{name},{n},{3e6 * share * n / (n + 2):.0f},3000000,9,30,{20 / share + n / 4:.1f},60,"
        f"{330 / share:.0f}"
        for name, share in rates.items()
        for n in (1, 8, 16, 64)
    ]
    return _csv(_header(FanoutRow), lines)


def _processor() -> str:
    lines = [
        "p4_replication,kernel,xdp,thread,11,360,0,0.01,700",
        "p4_replication,native,afxdp,sleep,11,360,0,0.02,2600",
    ]
    return _csv(_header(ProcessorRow), lines)


def _switching() -> str:
    rates = {"kernel": 2e6, "linux": 1e6, "reprise": 9e5, "ovs": 9.5e5}
    lines = [
        f"{program},{switch},64,64,{rate:.0f},{1.1 * rate:.0f}"
        for program in ("l2", "l2l3", "l2l3_acl")
        for switch, rate in rates.items()
        if (program, switch) != ("l2l3_acl", "linux")
    ]
    return _csv(_header(SwitchingRow), lines)


def run_of(sent_per_s: float, seconds: float, came: float, in_time: float) -> Run:
    """A run with one viewer: `came` copies came in all, `in_time` of them during the sending."""
    sent, copies, while_sending = round(sent_per_s * seconds), round(came), round(in_time)
    return Run(1, sent, seconds, copies, while_sending, 0, 0, 0, 0, 0, 0)


def files() -> dict[str, str]:
    priority = "sfu_priority,native,afxdp,spin,8,1.2,1,9,0,81,0.2,1,0"
    return {
        "pipeline.csv": _pipeline(),
        "growth.csv": _growth(),
        "fanout.csv": _fanout(),
        # This file has only its header, as if there were no sets of trials: only fanout.csv has
        # values.
        "fanout-rounds.csv": _fanout().split("\n", 1)[0] + "\n",
        "overload.csv": _overload(),
        "priority.csv": _csv(_header(PriorityRow), [priority]),
        "pktswitch.csv": _pktswitch(),
        "kernel.csv": _kernel(),
        "kernel-rounds.csv": _csv(_header(FanoutRow), []),
        "kernel-processor.csv": _processor(),
        "switching.csv": _switching(),
    }
