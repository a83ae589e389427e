"""Makes trials of forwarders, repeats those that other processes disturbed, keeps all results."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import nan
from typing import Any

from lab.bench.load import Run
from lab.bench.noise import Noise
from lab.bench.search import Found, Trial

REPEATS_MAX = 5
"""How often a trial that other processes disturb is made at most."""
REPEATS_OF_ALL_S = 150.0
"""How long all repetitions for one forwarder in a set may take together."""


@dataclass(frozen=True, slots=True)
class Probe:
    what: Mapping[str, object]
    """The columns that identify the forwarder and the set."""
    trial: Trial
    run: Run
    noise: Noise
    kernel_share: float | None = None
    """The kernel's share of the processor time."""
    cpu_s: float | None = None
    sink: str = ""

    @property
    def is_void(self) -> bool:
        """Whether other processes used the processors too much during the trial."""
        return self.noise.spoils(self.run.seconds)

    def columns(self, unit: str) -> dict[str, object]:
        used = {"cpu_s": self.cpu_s, "kernel_share": self.kernel_share}
        return {
            **self.what,
            "step": self.trial.step,
            **({"sink": self.sink} if self.sink else {}),
            f"offered_{unit}_per_s": self.trial.per_s,
            **asdict(self.run),
            **{name: value for name, value in used.items() if value is not None},
            **asdict(self.noise),
        }


class Runner(ABC):
    """A running forwarder, and the results (probes) of its trials."""

    probes: list[Probe]
    repeats_of_all_s = REPEATS_OF_ALL_S
    _repeated_s = 0.0

    def offer(self, trial: Trial) -> Run:
        """Makes a trial, and repeats it while it is void. Returns the last result."""
        for _ in range(REPEATS_MAX):
            probe = self._once(trial)
            self.probes.append(probe)
            # A negative loss means that copies of an earlier trial arrived: a queue took seconds to
            # drain, or the forwarder was stopped while packets were in it.
            is_void = probe.is_void or probe.run.loss < 0.0
            if not is_void or self._repeated_s + trial.seconds > self.repeats_of_all_s:
                break
            self._repeated_s += trial.seconds
        return probe.run

    @abstractmethod
    def _once(self, trial: Trial) -> Probe: ...

    def probe_of(self, run: Run | None) -> Probe | None:
        return next((one for one in reversed(self.probes) if one.run is run), None)

    def how(self, found: Found) -> dict[str, Any]:
        """The columns of a result row that say how its rate was found."""
        decided = self.probe_of(found.decided)
        share = decided.kernel_share if decided else None
        return {
            "trial_s": found.trial_s,
            "bound_by": found.bound_by,
            "is_peak_least": int(found.is_peak_least),
            "late_share": found.late_share,
            "kernel_share": nan if share is None else share,
            "is_disturbed": int(decided is not None and decided.is_void),
        }
