"""What is measured: the SFUs, the studies, the order of their runs. Pure.

Numbers of packets, sizes, bitrates and ranges of viewers are the thesis' (sections 3.2 and 4).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lab.addresses import PRESENTER
from lab.traffic import FRAME_LEN_BYTES, Burst

N_PACKETS = 300
N_RUNS = 3
BITRATE_TOLERANCE = 0.001
"""How far a run's true bitrate may be from the nominal one, as a share of it."""
N_REPEATS_MAX = 5
N_HOSTS_DEFAULT = 20
"""The presenter and as many viewers as the thesis has at most."""


def is_paced(true_kbps: float | None, nominal_kbps: float) -> bool:
    """Whether a true bitrate is the nominal one within the tolerance."""
    if true_kbps is None:
        return False
    return abs(true_kbps - nominal_kbps) <= nominal_kbps * BITRATE_TOLERANCE


class Sfu(StrEnum):
    """An SFU under test."""

    P4_RECIRCULATION = "p4_recirculation"
    USERSPACE = "userspace"
    P4_REPLICATION = "p4_replication"

    @property
    def is_p4(self) -> bool:
        """Whether it runs on the P4 switch."""
        return self is not Sfu.USERSPACE

    @property
    def full_name(self) -> str:
        """What it is called in titles."""
        return _FULL_NAMES[self]

    @property
    def label(self) -> str:
        """What people call it."""
        return _LABELS[self]


_LABELS = {
    Sfu.P4_RECIRCULATION: "P4, recirculation",
    Sfu.P4_REPLICATION: "P4, replication",
    Sfu.USERSPACE: "user space",
}

_FULL_NAMES = {
    Sfu.P4_RECIRCULATION: "recirculating P4 SFU",
    Sfu.P4_REPLICATION: "replicating P4 SFU",
    Sfu.USERSPACE: "user-space SFU",
}

BITRATES_MBPS = (4.0, 2.5, 0.15, 0.076)
"""In the order of the thesis."""
THESIS_VIEWERS_P4 = {4.0: 11, 2.5: 11, 0.15: 19, 0.076: 7}
THESIS_VIEWERS_USERSPACE = {4.0: 1, 2.5: 1, 0.15: 5, 0.076: 7}


@dataclass(frozen=True, slots=True)
class RunId:
    """One burst: which SFU, at which bitrate, with how many viewers, which time of the three."""

    sfu: Sfu
    bitrate_mbps: float
    viewers: int
    run: int

    @property
    def name(self) -> str:
        """A file's name; sorts by viewers and run."""
        return f"{self.sfu}-{self.bitrate_mbps:g}mbps-{self.viewers:02d}viewers-run{self.run}"

    @property
    def bitrate_kbps(self) -> float:
        """The nominal bitrate, free of what a product with 1000 adds behind the point."""
        return round(self.bitrate_mbps * 1000, 6)

    @property
    def burst_s(self) -> float:
        """How long the burst lasts, from the first packet to the last."""
        return N_PACKETS * FRAME_LEN_BYTES * 8 / (self.bitrate_kbps * 1000)

    @property
    def burst(self) -> Burst:
        """What the sender is told.

        The true bitrate counts all packets' volume over the time from the first to the last, which
        has one interval less than packets; so the sender goes slower by that much.
        """
        rate_bps = self.bitrate_kbps * 1000 * (N_PACKETS - 1) / N_PACKETS
        return Burst(host=PRESENTER, n_packets=N_PACKETS, rate_bps=rate_bps)

    @property
    def planned_s(self) -> float:
        """The time it is expected to take, with starting, draining and analysis."""
        if self.sfu.is_p4:
            return self.burst_s + OVERHEAD_S
        # What the user-space SFU still has in its socket's buffer when the burst ends.
        served_s = N_PACKETS * self.viewers * USERSPACE_COPY_S
        waiting_s = USERSPACE_BUFFER_PACKETS * self.viewers * USERSPACE_COPY_S
        return (
            self.burst_s + min(waiting_s, max(served_s - self.burst_s, 0.0)) + OVERHEAD_S + QUIET_S
        )


OVERHEAD_S = 1.5
QUIET_S = 1.0
"""A run in which copies are missing is over when the SFU has sent nothing for this long."""
USERSPACE_COPY_S = 0.02
USERSPACE_BUFFER_PACKETS = 60


@dataclass(frozen=True, slots=True)
class Series:
    """Runs of one SFU at one bitrate."""

    sfu: Sfu
    bitrate_mbps: float
    viewers: tuple[int, ...]

    def runs(self) -> list[RunId]:
        """Its runs, in order."""
        return [
            RunId(self.sfu, self.bitrate_mbps, viewers, run)
            for viewers in self.viewers
            for run in range(1, N_RUNS + 1)
        ]


@dataclass(frozen=True, slots=True)
class Study:
    """Series measured one after the other."""

    name: str
    about: str
    series: tuple[Series, ...]

    def runs(self) -> list[RunId]:
        """All runs, in order."""
        return [run for series in self.series for run in series.runs()]

    @property
    def viewers_max(self) -> int:
        """The largest number of viewers."""
        return max(viewers for series in self.series for viewers in series.viewers)

    def only(self, sfus: Sequence[Sfu]) -> "Study":
        """The same study with `sfus` alone."""
        kept = tuple(series for series in self.series if series.sfu in sfus)
        return Study(self.name, self.about, kept)


def planned_s(runs: Iterable[RunId]) -> float:
    """The time `runs` are expected to take."""
    return sum(run.planned_s for run in runs)


def _demo() -> Study:
    series: list[Series] = []
    for sfu in Sfu:
        viewers = (1, 2, 4, 8, 11) if sfu.is_p4 else (1, 2, 4)
        series += [Series(sfu, bitrate, viewers) for bitrate in (4.0, 2.5)]
    about = "reduced: 4 and 2.5 Mbit/s, P4 at 1, 2, 4, 8, 11 viewers, user space at 1, 2, 4"
    return Study("demo", about, tuple(series))


def _thesis() -> Study:
    series: list[Series] = []
    for sfu in Sfu:
        most = THESIS_VIEWERS_P4 if sfu.is_p4 else THESIS_VIEWERS_USERSPACE
        series += [
            Series(sfu, bitrate, tuple(range(1, most[bitrate] + 1))) for bitrate in BITRATES_MBPS
        ]
    about = "whole: 4, 2.5, 0.15, 0.076 Mbit/s and the thesis' ranges of viewers, every SFU"
    return Study("thesis", about, tuple(series))


STUDIES = {study.name: study for study in (_demo(), _thesis())}
