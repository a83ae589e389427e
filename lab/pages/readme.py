"""Makes README's table of speed from the kept studies. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.figures.names import kind_name, number
from lab.results.benchmarks import Results
from lab.results.series import MUSICIANS_MS
from lab.results.served import ServedRow
from lab.results.statistics import ratio
from lab.results.verdicts import Verdict
from lab.rows import ROWS

BEGIN = "<!-- made by `./reprise-lab keep`, not by hand -->"
END = "<!-- end -->"
BENCHMARK, VIEWERS, THESIS = "bench", "viewers", "thesis"
COMMANDS = {BENCHMARK: "make bench", THESIS: "make thesis"}
"""The commands of studies that are not run by `./reprise-lab run NAME`."""
BASE = ("pktswitch_sockets", "udp")
"""The row (forwarder) and port with which all others are compared: an SFU on plain sockets."""


class MarkerError(ValueError):
    """README lacks the lines that mark the section."""


@dataclass(frozen=True, slots=True)
class KeptStudy:
    """The parts of a kept study that README and docs/performance.md show."""

    name: str
    where: str
    """The path of its folder, relative to README."""
    session: Mapping[str, str]
    """What the study records of the last command that measured: commit, processor, system."""
    results: Results
    verdicts: Sequence[Verdict] = ()
    served: Sequence[ServedRow] = ()

    @property
    def link(self) -> str:
        return f"[{self.where}]({self.where}/report.html)"

    @property
    def command(self) -> str:
        return COMMANDS.get(self.name, f"./reprise-lab run {self.name}")

    @property
    def commit(self) -> str:
        """The first digits of the measured commit."""
        return self.session.get("commit", "unknown")[:12]


def replaced(readme: str, section: str) -> str:
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise MarkerError(f"README.md: expected the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{section}\n{END}{after}"


def section_of(kept: Sequence[KeptStudy]) -> str:
    of = {study.name: study for study in kept}
    viewers = of.get(VIEWERS)
    if viewers is None:
        return f"No run of `./reprise-lab run {VIEWERS}` is kept in `studies/` yet."
    return "\n\n".join([_speed(viewers), _checks_in_short(kept)])


def checks_table(kept: Sequence[KeptStudy]) -> str:
    """A table of all kept studies: how many checks of the results hold, and which do not."""
    lines = ["| study | commit | hold | do not hold |", "|---|---|---:|---|"]
    for study in sorted(kept, key=lambda one: one.name):
        known, broken = _known(study), _broken(study)
        n_hold = f"{len(known) - len(broken)} of {len(known)}"
        what = "; ".join(name.replace("|", "\\|") for name in broken) or "-"
        name = f"[{study.name}](../{study.where}/report.html)"
        lines.append(f"| {name} | {study.commit} | {n_hold} | {what} |")
    return "\n".join(lines)


def _known(study: KeptStudy) -> list[Verdict]:
    return [one for one in study.verdicts if one.holds is not None]


def _broken(study: KeptStudy) -> list[str]:
    return [one.name for one in _known(study) if not one.holds]


def _checks_in_short(kept: Sequence[KeptStudy]) -> str:
    n_known = sum(len(_known(study)) for study in kept)
    broken = {study.name: _broken(study) for study in kept if _broken(study)}
    n_broken = sum(map(len, broken.values()))
    what = "".join(f" {name}: {'; '.join(checks)}." for name, checks in sorted(broken.items()))
    return (
        f"Of {n_known} checks of {len(kept)} kept [studies](studies/README.md) "
        f"{n_known - n_broken} hold.{f' These do not:{what}' if what else ''}"
    )


def _speed(study: KeptStudy) -> str:
    """A table with a line for each forwarder on each port, ordered by viewers served."""
    shown = [one for one in study.served if one.limit_ms == MUSICIANS_MS]
    if not shown:
        return f"{study.link} has no counts of viewers served within {MUSICIANS_MS:g} ms."
    base = next((one.served.most for one in shown if (one.row, one.port) == BASE), 0)
    facts = study.session
    system = " ".join(facts["system"].split("-")[:2])
    lines = [
        f"Viewers of one stream of {shown[0].part.partition('mbps')[0]} Mbit/s served "
        f"without loss, 99 % of packets within {MUSICIANS_MS:g} ms:",
        "",
        "| forwarder | on | viewers | ratio |",
        "|---|---|---:|---:|",
    ]
    for one in sorted(shown, key=lambda one: -one.served.most):
        beside = number(ratio(one.served.most, base), ".2f")
        lines.append(f"| {ROWS[one.row].label} | {_way(one)} | {one.served} | {beside} |")
    lines += [
        "",
        f"Ratios are to {ROWS[BASE[0]].label} (an SFU in C: a system call for each packet in and "
        f"each copy out). One run of `{study.command}` at commit {study.commit} on "
        f"{facts['processor']}, {system}: {study.link}. "
        "[docs/performance.md](docs/performance.md) has all other measurements.",
    ]
    return "\n".join(lines)


def _way(one: ServedRow) -> str:
    """Describes how a row (forwarder) was run. The native engine is not named."""
    engine = one.engine if one.engine != "native" else ""
    batches = "in batches" if one.port == "udp_batched" else ""
    where = kind_name((one.port, one.wait))
    return ", ".join(filter(None, (engine, where, batches))) or "as it is"
