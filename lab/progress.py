"""The progress bar and its time left. No I/O."""

from dataclasses import dataclass

WIDTH = 30


@dataclass(slots=True)
class Estimate:
    """Estimates the time left from the plan and from how far earlier runs were off their plan."""

    n_done: int = 0
    beyond_plan_s: float = 0.0

    def add(self, took_s: float, planned_s: float) -> None:
        self.n_done += 1
        self.beyond_plan_s += took_s - planned_s

    def left_s(self, planned_s: float, n_runs: int) -> float:
        """The time that `n_runs` further runs will take, with `planned_s` planned for all."""
        excess_s = self.beyond_plan_s / self.n_done if self.n_done else 0.0
        return max(planned_s + excess_s * n_runs, 0.0)


def clock(seconds: float) -> str:
    """Writes `seconds` as hours, minutes and seconds."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def bar(n_done: int, n_all: int, left_s: float, what: str) -> str:
    """A line with the progress, the time left, and what is running."""
    filled = WIDTH * n_done // n_all if n_all else WIDTH
    drawn = "#" * filled + "." * (WIDTH - filled)
    return f"[{drawn}] {n_done}/{n_all}  {clock(left_s)} left  {what}"
