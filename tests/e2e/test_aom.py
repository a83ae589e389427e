"""Tests ordered multicast as operators and members use it: by programs in network namespaces."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.process import REPOSITORY, run
from lab.switch import READY_TIMEOUT_S, SWITCH
from tests.e2e.ordered import MEMBER, Ordered, events, ordered

N_MEMBERS = 4
SENDERS = (5, 6)


@pytest.fixture
def whole(namespaces: None, logs: Path) -> Iterator[Ordered]:
    with ordered(logs, N_MEMBERS + len(SENDERS)) as whole:
        yield whole


def join_all(whole: Ordered) -> None:
    for host in range(1, N_MEMBERS + 1):
        whole.start_member(host, whole.add_member(host))


def told(whole: Ordered) -> list[list[tuple[int, int, str, str, str]]]:
    """Ends all members; returns the events of each."""
    members = [whole.processes[f"member{host}"] for host in range(1, N_MEMBERS + 1)]
    for member in members:
        member.finish(30.0)
    return [events(member) for member in members]


def assert_in_order(told: list[list[tuple[int, int, str, str, str]]]) -> None:
    """Checks that each member's numbers only grow, and that members agree on each message."""
    agreed: dict[tuple[int, int], str] = {}
    for one in told:
        places = [event[:2] for event in one]
        assert places == sorted(set(places))
        for epoch, number, kind, text, _ in one:
            if kind == "message":
                assert agreed.setdefault((epoch, number), text) == text


def test_members_get_the_same_messages_in_the_same_order(whole: Ordered) -> None:
    join_all(whole)
    for host in SENDERS:
        whole.start_sender(host, f"s{host}", "300", "1000")
    for host in SENDERS:
        whole.processes[f"sender{host}"].expect_success(30.0)
    asked = whole.processes["member2"]
    first = whole.processes["member1"]
    time.sleep(0.5)  # A member flushes its log when no event comes.
    _, _, _, text, shown = events(first)[0]
    asked.tell(f"verify {shown} {text}")
    asked.wait_for_line("verify: True", 120.0)
    asked.tell(f"verify {shown} {text}!")
    asked.wait_for_line("verify: False", 120.0)
    everybody = told(whole)
    assert_in_order(everybody)
    for one in everybody:
        texts = {text for *_, text, _ in one}
        assert texts == {f"s{host} {number}" for host in SENDERS for number in range(300)}
        assert {kind for _, _, kind, *_ in one} == {"message"}


def test_an_epoch_advances_under_10000_requests_a_second(
    whole: Ordered, capsys: pytest.CaptureFixture[str]
) -> None:
    join_all(whole)
    senders = [whole.start_sender(host, f"s{host}", "15000", "5000") for host in SENDERS]
    for sender in senders:
        sender.wait_for_line("sending", READY_TIMEOUT_S)
    gaps_ms = []
    epochs = {whole.group()["epoch"]}
    for _ in range(3):
        time.sleep(0.4)
        group = whole.aom("epoch", "advance", "counter")["group"]
        gaps_ms.append(group["last_gap_ms"])
        epochs.add(group["epoch"])
    for sender in senders:
        sender.expect_success(60.0)
    everybody = told(whole)
    assert_in_order(everybody)
    for one in everybody:
        assert {event[0] for event in one} == epochs
    n_told = [len(one) for one in everybody]
    n_drops = [sum(event[2] == "drop" for event in one) for one in everybody]
    with capsys.disabled():
        print(f"\ngaps {gaps_ms} ms; told {n_told} of 30000 at most, drops {n_drops}")


def test_a_killed_service_and_a_killed_switch_are_gone_on_with(whole: Ordered) -> None:
    join_all(whole)
    sender = whole.start_sender(SENDERS[0], "s", "8000", "1000")
    sender.wait_for_line("sending", READY_TIMEOUT_S)
    time.sleep(0.5)
    epoch = whole.group()["epoch"]
    whole.kill("service")
    time.sleep(0.5)
    whole.start_service()
    assert whole.wait_for("active")["epoch"] == epoch
    time.sleep(0.5)
    whole.kill("switch")
    time.sleep(0.5)
    whole.start_switch()
    whole.wait_for("active", epoch=epoch + 1)
    sender.expect_success(60.0)
    group = whole.group()
    assert group["sequence"] > 0
    everybody = told(whole)
    assert_in_order(everybody)
    for one in everybody:
        # A new epoch began only when the switch was restarted.
        assert {event[0] for event in one} == {epoch, group["epoch"]}
        assert one[-1][3] == "s 7999"


def test_a_switch_that_is_killed_while_members_are_away_is_theirs_again(whole: Ordered) -> None:
    file = whole.add_member(1)
    before = whole.group()["epoch"]
    whole.kill("switch")
    whole.wait_for("inactive")
    whole.kill("service")
    whole.start_switch()
    whole.start_service()
    whole.wait_for("active", epoch=before + 1)
    member = whole.start_member(1, file)
    whole.start_sender(SENDERS[0], "s", "10", "1000").expect_success(30.0)
    member.finish(30.0)
    assert [event[3] for event in events(member)] == [f"s {number}" for number in range(10)]


def test_a_member_in_c_and_one_of_the_installed_package(whole: Ordered, logs: Path) -> None:
    program, library = logs / "aom_member", SWITCH.parent
    include = REPOSITORY / "crates/aom/c/include"
    source = REPOSITORY / "examples" / "aom_member.c"
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    libraries = [f"-L{library}", "-laom_c", f"-Wl,-rpath,{library}"]
    run(["cc", *strict, f"-I{include}", str(source), *libraries, "-o", str(program)])
    (wheel,) = (REPOSITORY / "target" / "python").glob("aom-*.whl")
    installed = logs / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input"]
    quiet = ["--no-deps", "--disable-pip-version-check"]
    run([*pip, *quiet, "--target", str(installed), str(wheel)], timeout_s=120.0)
    # The member in C also sends a request. The copy of the request that comes back to this member
    # has the member's own address as source.
    whole.hosts.hosts[1].run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/all/accept_local"])
    in_c, in_python = whole.add_member(1), whole.add_member(2)
    python = whole.python(MEMBER, str(in_python), package=installed)
    of_python = whole.start("python", python, 2)
    of_python.wait_for_line("joined", 120.0)
    of_c = whole.start("c", [str(program), str(in_c), "11"], 1)
    epoch = whole.group()["epoch"]
    of_c.wait_for_line(f"message {epoch} 1 hello from C", 120.0)
    whole.start_sender(SENDERS[0], "s", "10", "1000").expect_success(30.0)
    of_c.expect_success(30.0)
    expected = ["hello from C", *(f"s {number}" for number in range(10))]
    assert of_c.log_text().splitlines()[1:] == [
        f"message {epoch} {number} {text} (believed: 1, altered: 0)"
        for number, text in enumerate(expected, start=1)
    ]
    of_python.finish(30.0)
    assert [event[3] for event in events(of_python)] == expected
    # A member that cannot join says why.
    refused = whole.start("refused", [str(program), str(logs / "none.member"), "1"], 3)
    assert refused.wait(30.0) == 1
    assert "aom_join:" in refused.log_text()
