"""`reprise load` beside a test: one run after the other, in a conference of its own."""

import json
import subprocess
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from reprise_conference import Client

from lab.controller import REPRISE
from tests.service.running import LIMIT_S
from tests.service.site import Site

CONFERENCE = "load"
OPTIONS = ("--participants", 12, "--publishers", 2, "--leave", 10, "--rate", 50, "--seconds", 5)


@dataclass(slots=True)
class Totals:
    """The sums of all runs."""

    runs: int = 0
    joins: int = 0
    failed: int = 0
    packets: int = 0
    lost: int = 0
    duplicated: int = 0
    foreign: int = 0


class Crowd:
    """Runs `reprise load` until it is closed. Faults may make a run fail, but nobody may get a
    packet of others or a packet twice."""

    def __init__(self, site: Site, secret: Path) -> None:
        self._site, self._secret = site, secret
        self.between = threading.Lock()
        """Held during a run. Whoever else holds it keeps the next run from beginning."""
        self._until = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.totals = Totals()
        self.last_error = ""

    def start(self) -> None:
        self._site.ask(_put)
        self._thread.start()

    def close(self) -> None:
        self._until.set()
        self._thread.join(LIMIT_S)

    def wrong(self) -> list[str]:
        if self.totals.foreign or self.totals.duplicated:
            return [f"reprise load: {self.totals}; {self.last_error}"]
        return []

    def _run(self) -> None:
        while not self._until.wait(0.1):
            with self.between:
                self._load()

    def _load(self) -> None:
        argv = [REPRISE, "load", self._site.leader().url, "--json", "--conference", CONFERENCE]
        argv += ["--secret", self._secret, *OPTIONS]
        words = [str(word) for word in argv]
        self.totals.runs += 1
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            # Faults have kept it from ending; its participants are removed before the next audit.
            self.last_error = f"it did not end within {LIMIT_S:.0f} s"
            return
        lines = [line for line in done.stdout.splitlines() if '"duplicated"' in line]
        whole: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        for name in ("joins", "failed", "packets", "lost", "duplicated", "foreign"):
            setattr(self.totals, name, getattr(self.totals, name) + whole.get(name, 0))
        if done.returncode != 0:
            self.last_error = done.stderr.strip()[-500:]


def remove_all(site: Site) -> None:
    """Removes the participants whom a failed run has left behind."""
    there = site.ask(partial(_get))
    for name in there["participants"]:
        site.ask(partial(_leave, name))


def _put(client: Client) -> dict[str, Any]:
    return client.put_conference(CONFERENCE)


def _get(client: Client) -> dict[str, Any]:
    return client.conference(CONFERENCE)


def _leave(participant: str, client: Client) -> dict[str, Any]:
    client.leave(CONFERENCE, participant)
    return {"left": participant}
