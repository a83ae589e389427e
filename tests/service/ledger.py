"""Checks that the switch's counters add up, with each other and with what participants count.

Hosts say hello all the time, so the counters never stand still. Therefore the check looks at
differences of counters that must stay the same while packets pass.
"""

import contextlib
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from reprise_conference import Client

from tests.service.actors import CONFERENCES, Somebody
from tests.service.history import History
from tests.service.running import LIMIT_S
from tests.service.site import TABLES, Site

VERDICTS, SOCKETS, RECEIVERS = TABLES
SERVE, ANSWERS, ANSWER_HELLO = "0", ("1", "2", "3", "4"), "4"
"""Verdicts on packets: the enumeration `conference_verdict_t` in p4/lib/conference_verdict.p4."""
FIRST_DROP = 6
NOT_SIGNED_IN, POLICED, NOT_RTP, NO_RECEIVER = "21", "22", "23", "24"
TRAFFIC_S = 1.0
N_SAME = 3
"""How many readings must be the same before the switch is taken to be at rest."""
SETTLES_S = 60.0
"""How long counters may take to agree. It matters only if they do not."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What the switch has counted until one moment."""

    events: dict[str, int]
    """Packets that were received, cloned, replicated and so on (docs/switch.md, "Counters")."""
    drops: dict[str, int]
    inside: int
    port_received: int
    port_transmitted: int
    verdicts: dict[str, int]
    sockets: int
    """Packets of all sockets that are signed in."""
    receivers: dict[int, int]
    """For each leg, the packets that were copied to it."""

    def constants(self) -> dict[str, int]:
        """Differences that stay the same as long as the switch runs and no leg is removed."""
        events, verdicts = self.events, self.verdicts
        came = events["received"] + events["cloned"] + events["replicated"]
        went = events["transmitted"] + events["to_cpu"] + sum(self.drops.values()) + self.inside
        of_sockets = (SERVE, ANSWER_HELLO, POLICED, NOT_RTP, NO_RECEIVER)
        dropped = sum(n for verdict, n in verdicts.items() if int(verdict) >= FIRST_DROP)
        # A packet that is replicated becomes one of its copies.
        copies = events["replicated"] + verdicts[SERVE]
        answers = sum(verdicts[verdict] for verdict in ANSWERS)
        packet_outs = events["received"] - self.port_received
        return {
            "what comes goes": came - went,
            "each packet from a port has one verdict": self.port_received - sum(verdicts.values()),
            "packets of signed-in sockets have a socket's verdict": self.sockets
            - sum(verdicts[verdict] for verdict in of_sockets),
            "a verdict to drop is a drop": self.drops["ingress_drop"] - dropped,
            "nothing is dropped for another reason": sum(self.drops.values())
            - self.drops["ingress_drop"],
            "each copy belongs to a leg": copies - sum(self.receivers.values()),
            "what leaves is a copy, an answer or a packet-out": self.port_transmitted
            - (copies + answers + packet_outs),
        }


def read(site: Site) -> Counters:
    url = f"http://{site.metrics_address}/metrics"
    with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
        text = answer.read().decode()
    labelled: dict[str, dict[str, int]] = defaultdict(dict)
    entries: dict[str, dict[str, int]] = {table: {} for table in TABLES}
    for family in text_string_to_metric_families(text):
        for name, labels, value, *_ in family.samples:
            if name == "reprise_entry_packets_total":
                key = " ".join(of for label, of in labels.items() if label.startswith("key_"))
                entries[labels["table"]][key] = int(value)
            elif float(value).is_integer():
                kind = labels.get("event") or labels.get("reason") or labels.get("port") or ""
                labelled[name][kind] = int(value)
    return Counters(
        events=labelled["reprise_packets_total"],
        drops=labelled["reprise_drops_total"],
        inside=labelled["reprise_packets_inside"][""],
        port_received=sum(labelled["reprise_port_received_packets_total"].values()),
        port_transmitted=sum(labelled["reprise_port_transmitted_packets_total"].values()),
        verdicts=entries[VERDICTS],
        sockets=sum(entries[SOCKETS].values()),
        receivers={int(leg): n for leg, n in entries[RECEIVERS].items()},
    )


@contextlib.contextmanager
def nobody_acts(everybody: Sequence[Somebody]) -> Iterator[None]:
    with contextlib.ExitStack() as held:
        for somebody in everybody:
            held.enter_context(somebody.acts)
        yield


@contextlib.contextmanager
def nobody_sends(everybody: Sequence[Somebody]) -> Iterator[None]:
    with contextlib.ExitStack() as held:
        for somebody in everybody:
            held.enter_context(somebody.sends)
        yield


def at_rest(site: Site) -> Counters:
    """Waits until no packet is inside the switch, and returns its counters."""
    until = time.monotonic() + SETTLES_S
    counters, n_same = read(site), 0
    while n_same < N_SAME:
        assert time.monotonic() < until, f"the counters do not come to rest: {counters}"
        time.sleep(0.3)
        before, counters = counters, read(site)
        is_same = counters.constants() == before.constants()
        n_same = n_same + 1 if is_same and counters.receivers == before.receivers else 0
    return counters


def audit(site: Site, everybody: Sequence[Somebody], history: History) -> list[str]:
    """Lets only packets pass for a while, and returns which counters do not add up.

    Everybody is signed in, and there is no fault meanwhile.
    """
    with nobody_acts(everybody):
        with nobody_sends(everybody):
            before = at_rest(site)
            sent, came = history.n_sent(), copies(everybody, history)
        time.sleep(TRAFFIC_S)
        with nobody_sends(everybody):
            sent = history.n_sent() - sent

            def wrong() -> list[str]:
                after = read(site)
                now = copies(everybody, history)
                new = {leg: now[leg] - n for leg, n in came.items()}
                return differences(before, after, sent, new) + service_differs(site, after)

            return in_the_end(wrong)


def in_the_end(wrong: Callable[[], list[str]]) -> list[str]:
    """Returns what is still wrong when everybody has had time to read and to count."""
    until = time.monotonic() + SETTLES_S
    while (found := wrong()) and time.monotonic() < until:
        time.sleep(0.3)
    return found


def differences(before: Counters, after: Counters, sent: int, came: dict[int, int]) -> list[str]:
    """Returns which counters do not fit together over a time.

    In this time `sent` packets were sent to the switch, and each leg received those of `came`.
    """
    wrong = [
        f"{what}: the difference was {was}, and is {after.constants()[what]}"
        for what, was in before.constants().items()
        if was != after.constants()[what]
    ]
    increase = {verdict: n - before.verdicts[verdict] for verdict, n in after.verdicts.items()}
    arrived = sum(increase[it] for it in (SERVE, NOT_SIGNED_IN, POLICED, NO_RECEIVER))
    if arrived != sent:
        wrong.append(f"{sent} packets were sent to the switch, which has counted {arrived}")
    for leg, n in came.items():
        copied = after.receivers.get(leg, 0) - before.receivers.get(leg, 0)
        if copied != n:
            wrong.append(f"leg {leg} has received {n} packets; the switch counts {copied}")
    return wrong


def copies(everybody: Sequence[Somebody], history: History) -> dict[int, int]:
    """For each leg that watches somebody, how many packets its socket has received."""
    return {
        leg: history.n_received((somebody.name, other))
        for somebody in everybody
        for other, leg in somebody.legs().items()
    }


def service_differs(site: Site, counters: Counters) -> list[str]:
    """Returns the legs of which the service does not give the switch's counts."""
    given = {leg: n for name in CONFERENCES for leg, n in of_service(site, name).items()}
    return [
        f"leg {leg} has received {counters.receivers.get(leg, 0)} packets; the service says {n}"
        for leg, n in given.items()
        if n != counters.receivers.get(leg, 0)
    ]


def of_service(site: Site, conference: str) -> dict[int, int]:
    there = site.ask(partial(get, conference))
    return {
        leg["number"]: leg["counted"]["received"]["packets"]
        for participant in there["participants"].values()
        for leg in (participant.get("legs") or {}).values()
        if leg.get("counted") is not None
    }


def get(conference: str, client: Client) -> dict[str, Any]:
    return client.conference(conference)
