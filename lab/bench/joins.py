"""Measures how participants join and leave a conference service; `reprise load` plays them.

The switch (native engine, a UDP socket), the service and the load are in one network namespace. The
system divides the processors among them, as on an operator's host.
"""

import json
import secrets
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lab.bench.cells import Failures, measured
from lab.controller import REPRISE
from lab.process import Child, ChildError
from lab.results.benchmarks import JoinsRow
from lab.rows.conference_service import CONFERENCE, HTTP_ADDRESS, NO_LIMITS, until_ready
from lab.sites import SITES
from lab.switch import GRPC_ADDRESS, SWITCH

ROUNDS = 5
PUBLISHERS, SUBSCRIPTIONS = 10, 2
MEDIA_ADDRESS = "127.0.0.1:5004"
SET_UP_S = 5.0
LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class JoinsCell:
    round: int
    participants: int
    joins_per_s: int
    seconds: int

    @property
    def planned_s(self) -> float:
        return SET_UP_S + self.participants / self.joins_per_s + self.seconds

    @property
    def leaving_pct(self) -> int:
        """How many percent of the participants who do not publish leave each second.

        As many leave as join.
        """
        return round(100 * self.joins_per_s / (self.participants - PUBLISHERS))

    def __str__(self) -> str:
        return f"{self.participants} participants, {self.joins_per_s} joins/s"


def cells(*, is_quick: bool) -> list[JoinsCell]:
    if is_quick:
        return [JoinsCell(0, 60, 20, 3)]
    return [JoinsCell(number, 500, 100, 20) for number in range(ROUNDS)]


def run(folder: Path, todo: Sequence[JoinsCell]) -> Failures:
    file = folder / "joins.csv"
    cell_s = todo[0].planned_s if todo else 0.0
    return measured(file, JoinsRow, todo, lambda cell: [measure(cell)], cell_s=cell_s)


def measure(cell: JoinsCell) -> JoinsRow:
    with (
        SITES["one_port"](1) as site,
        tempfile.TemporaryDirectory() as made,
        ExitStack() as stack,
    ):
        folder = Path(made)
        secret = secrets.token_hex(32)
        (folder / "secret").write_text(secret)
        (folder / "reprise.toml").write_text(_configuration(folder))
        switch = [str(SWITCH), "--grpc", GRPC_ADDRESS, "-i", f"1@udp:{MEDIA_ADDRESS}"]
        serve = [str(REPRISE), "serve", "--config", str(folder / "reprise.toml")]

        def start(argv: list[str], name: str) -> Child:
            child = site.sfu.start(argv, folder / f"{name}.log")
            return stack.enter_context(child)

        start(switch, "switch")
        service = start(serve, "service")
        until_ready(site.sfu, service, secret)
        words = ["load", f"http://{HTTP_ADDRESS}", "--secret", str(folder / "secret"), "--json"]
        words += ["--conference", CONFERENCE, "--participants", str(cell.participants)]
        words += ["--publishers", str(PUBLISHERS), "--subscribe", str(SUBSCRIPTIONS)]
        words += ["--rate", str(cell.joins_per_s), "--leave", str(cell.leaving_pct)]
        argv = [str(REPRISE), *words, "--seconds", str(cell.seconds)]
        said = site.sfu.run(argv, timeout_s=LIMIT_S + cell.planned_s)
    return row_of(cell, said)


def row_of(cell: JoinsCell, said: str) -> JoinsRow:
    """Makes the row from the output of `reprise load --json`, whose last line has the totals."""
    totals = json.loads(said.splitlines()[-1])
    first, delay = totals["first_packet_ms"], totals["delay_ms"]
    if not first["n"]:
        raise ChildError(f"{cell}: nobody who joined got a packet: {totals}")
    return JoinsRow(
        participants=cell.participants,
        joins_per_s=cell.joins_per_s,
        round=cell.round,
        joins=totals["joins"],
        failed=totals["failed"],
        p50_ms=first["p50"],
        p99_ms=first["p99"],
        max_ms=first["max"],
        packets=totals["packets"],
        lost=totals["lost"] - totals["dropped_by_this_machine"],
        foreign=totals["foreign"],
        delay_p50_ms=delay["p50"],
        delay_p99_ms=delay["p99"],
    )


def _configuration(folder: Path) -> str:
    ip, _, port = MEDIA_ADDRESS.partition(":")
    own = f'{{ port = 1, ip = "{ip}", mac = "02:00:7f:00:00:01", udp_port = {port} }}'
    return f"""listen = "{HTTP_ADDRESS}"
store = "{folder / "store"}"
secrets = ["{folder / "secret"}"]

[switch]
name = "lab"
p4runtime = "{GRPC_ADDRESS}"
addresses = [{own}]

{NO_LIMITS}"""
