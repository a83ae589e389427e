"""Measures the delay of musicians' programs from mouth to ear.

No sound cards are needed, because JACK's dummy driver stands in for them. The following are
measured: two JackTrip clients that are connected directly, which shows the delay of the clients
alone; two JackTrip clients that are connected through the switch; JackTrip clients with JackTrip's
hub; and Jamulus clients with the Jamulus server. All programs are in one network namespace.
"""

import math
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from lab.bench.cells import Failures, measured
from lab.joining import MediaSocket, ProblemError
from lab.netns import Namespace
from lab.process import Child, ChildError, cpu_ns_of_threads
from lab.results.benchmarks import MixersRow
from lab.results.statistics import percentile
from lab.rows.conference_service import CONFERENCE, LEG, MAX_KBPS, TRACK, ConferenceService
from lab.rows.row import TIMEOUT_S, Variant
from lab.sites import LOAD_CPU, SFU_CPU, SFU_IP, SFU_UDP_PORT, SITES, Site, on_cpu

PERIOD_SAMPLES = 128
SAMPLES_PER_S = 48_000
N_CLICKS, N_CLICKS_QUICK = 150, 30
CLICK_S = 0.2
SET_UP_S = 12.0
SIZES = (2, 4, 8)
FIRST_PORT = 41_000
HUB_PORT, JAMULUS_PORT = 4464, 22124
NEEDED = ("jackd", "jack_wait", "jacktrip", "Jamulus")


@dataclass(frozen=True, slots=True)
class MixersCell:
    between: str
    program: str
    clients: int
    n_clicks: int = N_CLICKS

    @property
    def planned_s(self) -> float:
        return SET_UP_S + self.n_clicks * CLICK_S

    def __str__(self) -> str:
        return f"{self.clients} {self.program}, {self.between}"


def cells(*, is_quick: bool) -> list[MixersCell]:
    n_clicks = N_CLICKS_QUICK if is_quick else N_CLICKS
    sizes = SIZES[:1] if is_quick else SIZES
    return [
        MixersCell("nothing", "jacktrip", 2, n_clicks),
        MixersCell("p4_conference", "jacktrip", 2, n_clicks),
        *(MixersCell("hub", "jacktrip", size, n_clicks) for size in sizes),
        *(MixersCell("server", "jamulus", size, n_clicks) for size in sizes),
    ]


def lacks() -> str:
    missing = [name for name in NEEDED if shutil.which(name) is None]
    return f"{', '.join(missing)}: run scripts/install-packages jacktrip" if missing else ""


def run(folder: Path, todo: Sequence[MixersCell]) -> Failures:
    if why := lacks():
        return [f"this machine lacks {why}"]
    file = folder / "mixers.csv"
    cell_s = todo[0].planned_s if todo else 0.0
    return measured(file, MixersRow, todo, lambda cell: [measure(cell)], cell_s=cell_s)


def measure(cell: MixersCell) -> MixersRow:
    with (
        SITES["one_port"](1) as site,
        tempfile.TemporaryDirectory() as folder,
        ExitStack() as stack,
    ):
        stage = _Stage(site, Path(folder), stack)
        stage.start_jack("musicians", LOAD_CPU)
        talker, listeners = _SET_UPS[cell.between](stage, cell.clients)
        before_s, began_s = stage.cpu_s(), time.monotonic()
        words = ["-m", "lab.baselines.jack_clicks", str(cell.n_clicks), talker, *listeners]
        argv = stage.argv("musicians", LOAD_CPU, [sys.executable, *words])
        said = site.sfu.run(argv, timeout_s=3 * TIMEOUT_S + cell.n_clicks * CLICK_S)
        used_s, took_s = stage.cpu_s() - before_s, time.monotonic() - began_s
        return row_of(cell, said, used_s / took_s)


def row_of(cell: MixersCell, said: str, cpu_share: float) -> MixersRow:
    """Makes the row from `jack_clicks`' output: per click a line with each listener's delay."""
    delays = [int(word) for line in said.splitlines() for word in line.split()]
    heard_ms = [delay * 1e3 / SAMPLES_PER_S for delay in delays if delay >= 0]
    if not heard_ms:
        raise ChildError(f"{cell}: none of {cell.n_clicks} clicks was heard")
    return MixersRow(
        between=cell.between,
        program=cell.program,
        clients=cell.clients,
        clicks=cell.n_clicks,
        due=len(delays),
        lost=len(delays) - len(heard_ms),
        p50_ms=percentile(heard_ms, 50) or math.nan,
        p99_ms=percentile(heard_ms, 99) or math.nan,
        max_ms=max(heard_ms),
        cpu_pct=100 * cpu_share,
    )


@dataclass(slots=True)
class _Stage:
    """The processes of a measurement. They end when `stack` is closed."""

    site: Site
    folder: Path
    stack: ExitStack
    between: list[int] = field(default_factory=list)
    """The ids of the processes between the clients, such as the hub and its JACK server."""

    @property
    def namespace(self) -> Namespace:
        return self.site.sfu

    def argv(self, jack: str, cpu: int, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` as a client of a JACK server, on one processor.

        The program's home folder is the folder of the measurement.
        """
        variables = [
            f"JACK_DEFAULT_SERVER={self._server(jack)}",
            "JACK_NO_AUDIO_RESERVATION=1",
            "JACK_NO_START_SERVER=1",
            "QT_QPA_PLATFORM=offscreen",
            f"HOME={self.folder}",
        ]
        return on_cpu(cpu, ["env", *variables, *argv])

    def start(self, jack: str, cpu: int, name: str, argv: Sequence[str]) -> Child:
        child = self.namespace.start(self.argv(jack, cpu, argv), self.folder / f"{name}.log")
        self.stack.callback(child.stop)
        return child

    def start_jack(self, jack: str, cpu: int) -> Child:
        options = ["--no-realtime", "--name", self._server(jack), "--timeout", "20000"]
        driver = ["-d", "dummy", "--rate", str(SAMPLES_PER_S), "--period", str(PERIOD_SAMPLES)]
        server = self.start(jack, cpu, f"jackd-{jack}", ["jackd", *options, *driver])
        wait = ["jack_wait", "--wait", "--timeout", str(int(TIMEOUT_S))]
        self.namespace.run(self.argv(jack, LOAD_CPU, wait), timeout_s=2 * TIMEOUT_S)
        return server

    def cpu_s(self) -> float:
        return sum(sum(cpu_ns_of_threads(pid)) for pid in self.between) / 1e9

    def _server(self, jack: str) -> str:
        return f"{self.site.name}-{jack}"


Ports = tuple[str, list[str]]
"""The JACK port at which one client talks, and the ports at which the others listen."""


def _jacktrip(stage: _Stage, name: str, to: Sequence[str]) -> None:
    options = ["--clientname", name, "--numchannels", "1", "--bitres", "16", "--zerounderrun"]
    argv = ["jacktrip", *to, *options, "--nojackportsconnect"]
    stage.start("musicians", LOAD_CPU, name, argv)


def _of_jacktrips(clients: int) -> Ports:
    return "c1:send_1", [f"c{number}:receive_1" for number in range(2, clients + 1)]


def _nothing(stage: _Stage, clients: int) -> Ports:
    for number, other in ((1, 2), (2, 1)):
        ports = ["--bindport", str(FIRST_PORT + number), "--peerport", str(FIRST_PORT + other)]
        _jacktrip(stage, f"c{number}", ["--client", "127.0.0.1", *ports])
    return _of_jacktrips(clients)


def _p4_conference(stage: _Stage, clients: int) -> Ports:
    row = ConferenceService(stage.site, Variant("native", "udp", "spin"), stage.folder)
    stage.stack.enter_context(row)
    stage.between += row.pids
    try:
        stage.namespace.call(lambda: _sign_in(row))
    except (OSError, ProblemError) as error:
        raise row.service.fail(f"two JackTrips cannot join: {error}") from error
    for number in (1, 2):
        ports = ["--bindport", str(FIRST_PORT + number), "--peerport", str(SFU_UDP_PORT)]
        _jacktrip(stage, f"c{number}", ["--client", str(SFU_IP), *ports])
    return _of_jacktrips(clients)


def _sign_in(row: ConferenceService) -> None:
    """Registers with the service the UDP ports that JackTrip clients use afterwards.

    A client registers (signs in) its port by a hello packet, which JackTrip does not send. The
    ports stay registered without further hellos, because `silence_s` is a day.
    """
    quality = {"name": "one", "max_kbps": MAX_KBPS, "leg": LEG}
    joined = [(number, f"c{number}", row.join(f"c{number}")) for number in (1, 2)]
    for _, name, client in joined:
        client.publish(
            CONFERENCE, name, TRACK, kind="audio", transport="datagram", qualities=[quality]
        )
    for number, name, client in joined:
        other = f"c{3 - number}"
        there = client.subscribe(CONFERENCE, name, other, TRACK, leg=LEG)
        with MediaSocket(there["legs"][LEG], (str(SFU_IP), FIRST_PORT + number)) as media:
            media.sign_in(TIMEOUT_S)


def _hub(stage: _Stage, clients: int) -> Ports:
    jack = stage.start_jack("hub", SFU_CPU)
    # Patch 2: a client hears all others.
    argv = ["jacktrip", "--jacktripserver", "--hubpatch", "2", "--zerounderrun"]
    hub = stage.start("hub", SFU_CPU, "hub", argv)
    stage.between += [jack.pid, hub.pid]
    hub.wait_for_line("JackTrip HUB SERVER: Waiting for client connections", TIMEOUT_S)
    for number in range(1, clients + 1):
        ports = ["--bindport", str(FIRST_PORT + number), "--peerport", str(HUB_PORT)]
        _jacktrip(stage, f"c{number}", ["--pingtoserver", "127.0.0.1", *ports])
    return _of_jacktrips(clients)


def _server(stage: _Stage, clients: int) -> Ports:
    argv = ["Jamulus", "--server", "--nogui", "--fastupdate", "--port", str(JAMULUS_PORT)]
    server = stage.start("musicians", SFU_CPU, "server", argv)
    stage.between.append(server.pid)
    for number in range(1, clients + 1):
        name = f"c{number}"
        options = ["--connect", f"127.0.0.1:{JAMULUS_PORT}", "--port", str(FIRST_PORT + number)]
        options += ["--clientname", name, "--inifile", str(stage.folder / f"{name}.ini")]
        argv = ["Jamulus", "--nogui", "--nojackconnect", *options]
        stage.start("musicians", LOAD_CPU, name, argv)
    others = range(2, clients + 1)
    return "Jamulus c1:input left", [f"Jamulus c{number}:output left" for number in others]


_SET_UPS: dict[str, Callable[[_Stage, int], Ports]] = {
    "nothing": _nothing,
    "p4_conference": _p4_conference,
    "hub": _hub,
    "server": _server,
}
