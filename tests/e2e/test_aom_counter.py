"""The example in docs/aom.md: four replicas of a counter, two clients."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.process import REPOSITORY, Child
from tests.e2e.ordered import GROUP_IP, Ordered, ip_of, ordered

EXAMPLE = REPOSITORY / "examples" / "aom-counter"
REPLICAS = (1, 2, 3, 4)
CLIENTS = (5, 6)
N_COMMANDS = 1500


@pytest.fixture
def whole(namespaces: None, logs: Path) -> Iterator[Ordered]:
    with ordered(logs, len(REPLICAS) + len(CLIENTS)) as whole:
        for host in REPLICAS:
            file = whole.add_member(host)
            others = [ip_of(other) for other in REPLICAS if other != host]
            argv = whole.python(EXAMPLE / "replica.py", str(file), ip_of(host), *others)
            whole.start(f"replica{host}", argv, host).wait_for_line("joined", 30.0)
        yield whole


def start_client(whole: Ordered, host: int, count: int) -> Child:
    words = (GROUP_IP, ip_of(host), f"c{host}", str(count), str(len(REPLICAS)))
    return whole.start(f"client{host}", whole.python(EXAMPLE / "client.py", *words), host)


def applied(whole: Ordered, n_commands: int) -> list[list[str]]:
    """What each replica has applied, once the last one has so many."""
    lines = []
    for host in REPLICAS:
        replica = whole.processes[f"replica{host}"]
        for client in CLIENTS:
            # Each client's last command.
            wait_for(replica, f" c{client} {n_commands - 1} ")
        lines.append([line for line in replica.log_text().splitlines() if " = " in line])
    return lines


def wait_for(replica: Child, text: str) -> None:
    for line in replica.lines(30.0):
        if text in line:
            return
    raise replica.fail(f"no line with {text!r}")


def distinct(lines: list[str]) -> list[str]:
    """Without what a client sent again."""
    return list(dict.fromkeys(" ".join(line.split()[2:4]) for line in lines))


def test_replicas_agree_over_losses_and_an_epoch(
    whole: Ordered, capsys: pytest.CaptureFixture[str]
) -> None:
    clients = [start_client(whole, host, N_COMMANDS) for host in CLIENTS]
    epoch = whole.group()["epoch"]
    whole.processes["replica1"].wait_for_line(f"{epoch} 20 ", 30.0)
    # All requests are lost to one replica for a moment, and later to all.
    whole.lose(3, senders=CLIENTS, for_s=0.05)
    whole.processes["replica3"].wait_for_line("repaired", 30.0)
    epoch = whole.aom("epoch", "advance", "counter")["group"]["epoch"]
    whole.processes["replica1"].wait_for_line(f"{epoch} 20 ", 30.0)
    whole.lose(*REPLICAS, senders=CLIENTS, for_s=0.3)
    for host in REPLICAS:
        whole.processes[f"replica{host}"].wait_for_line("skipped", 30.0)
    for client in clients:
        client.expect_success(60.0)
    lines = applied(whole, N_COMMANDS)
    told = {f"replica{host}": whole.processes[f"replica{host}"].log_text() for host in REPLICAS}
    with capsys.disabled():
        print(
            *(
                f"\n{name}: {text.count('repaired')} repaired, {text.count('skipped')} skipped"
                for name, text in told.items()
            )
        )
    assert all(one == lines[0] for one in lines[1:])
    assert len(distinct(lines[0])) == 2 * N_COMMANDS
    assert lines[0][-1].endswith(f"= {2 * N_COMMANDS}")
