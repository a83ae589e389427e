"""NeoBFT's own figures (Sun et al., SIGCOMM 2023, and the samples of its artifact). No I/O.

Their latency is from ingress to egress inside a Tofino, ours from the sender's interface to the
first receiver's, through a software switch and two veth pairs. Figures and tables say which results
are NeoBFT's.
"""

QUANTILES_US = {
    ("tagged", 25): {0.0: 9.106, 50.0: 9.158, 90.0: 9.182, 99.0: 9.204, 99.9: 9.229, 100.0: 9.255},
    ("tagged", 50): {0.0: 9.114, 50.0: 9.178, 90.0: 9.218, 99.0: 9.263, 99.9: 9.294, 100.0: 9.323},
    ("tagged", 99): {
        0.0: 9.200,
        50.0: 15.365,
        90.0: 31.239,
        99.0: 52.078,
        99.9: 53.366,
        100.0: 57.647,
    },
    ("signed", 25): {0.0: 2.878, 50.0: 2.902, 90.0: 2.909, 99.0: 2.913, 99.9: 2.916, 100.0: 2.923},
    ("signed", 50): {0.0: 2.879, 50.0: 2.902, 90.0: 2.909, 99.0: 2.913, 99.9: 2.915, 100.0: 2.919},
    ("signed", 99): {0.0: 3.114, 50.0: 3.135, 90.0: 3.142, 99.0: 3.974, 99.9: 3.979, 100.0: 3.985},
}
"""By variant and load in per cent: the delay in microseconds of each percentile, from the least (0)
to the largest (100)."""
SIZES = tuple(range(4, 65, 4))
TAGGED_MEASURED_PER_S = {4: 76.24e6}
SIGNED_MEASURED_PER_S = 1.11e6
"""This rate is the same for any number of receivers."""


def tagged_computed_per_s(receivers: int) -> float:
    """Computes another point of NeoBFT's curve, from the measured point as its authors do."""
    return TAGGED_MEASURED_PER_S[4] / (receivers / 4)
