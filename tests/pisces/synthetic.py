"""Makes rows of pisces.csv with invented results."""

from itertools import product

from lab.pisces import measure, traffic
from lab.pisces.network import PROGRAMS
from lab.pisces.switches import CONTESTANTS, NAIVE, ON, OVS_NAME, PORTS
from lab.results.benchmarks import PiscesRow, mbit_per_s


def row(
    program: str,
    contestant: tuple[str, str, str],
    frame_bytes: int,
    packets_per_s: float,
    *,
    of_ovs: float = 1.0,
    port: str = "afxdp",
) -> PiscesRow:
    """A row whose lossless rate is nine tenths of its peak."""
    switch, variant, flow_caches = contestant
    return PiscesRow(
        program=program,
        switch=switch,
        variant=variant,
        optimisations="",
        port=port,
        wait=PORTS[port],
        flow_caches=flow_caches,
        flows=traffic.N_FLOWS,
        frame_bytes=frame_bytes,
        sets=1,
        packets_per_s_lossless=0.9 * packets_per_s,
        packets_per_s_peak=packets_per_s,
        mbit_per_s_lossless=mbit_per_s(0.9 * packets_per_s, frame_bytes),
        mbit_per_s_peak=mbit_per_s(packets_per_s, frame_bytes),
        lossless_of_ovs=of_ovs,
        peak_of_ovs=of_ovs,
    )


def rows(optimised: float = 0.97, naive: float = 0.6) -> list[PiscesRow]:
    """All rows of a run. The parameters are the variants' shares of Open vSwitch's rate."""
    found = []
    for port, program in product(PORTS, PROGRAMS):
        for size, one in product(measure.SIZES[port], CONTESTANTS):
            of_ovs = 1.0
            if one.switch != OVS_NAME:
                of_ovs = naive if one.variant == NAIVE else optimised
            base = 1e6 * (1.2 if one.flow_caches == ON else 1.0)
            names = (one.switch, one.variant, one.flow_caches)
            found.append(row(program, names, size, base * of_ovs, of_ovs=of_ovs, port=port))
    return found
