"""Tests what the service and `reprise why` say about a track that does not come.

Also tests the service's metrics.
"""

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from reprise_conference import Client, MediaSocket, ProblemError
from reprise_conference.events import Events, EventsEndedError

from lab.controller import REPRISE
from tests.service.running import (
    LIMIT_S,
    Running,
    opened,
    participant_token,
    publish,
    received,
    rtp,
    subscribe,
)

MEDIA_INTERVAL_S = 0.02


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as running:
        yield running


def why(client: Client, receiver: str = "bob") -> dict[str, Any]:
    return client.request(
        "GET", ("conferences", "c", "participants", receiver, "why", "ann", "cam")
    )


def causes_become(
    client: Client, expected: list[str], meanwhile: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    """Waits until the service names these causes for the track that does not come."""
    until = time.monotonic() + LIMIT_S
    while (found := why(client))["causes"] != expected:
        assert time.monotonic() < until, found
        meanwhile()
        time.sleep(MEDIA_INTERVAL_S)
    return found


def command(running: Running, *options: str) -> str:
    """Returns what `reprise why` prints for Bob about Ann's camera."""
    argv: list[str | Path] = [REPRISE, "why", "bob", "ann/cam", "--url", running.url, *options]
    environment = dict(os.environ, REPRISE_TOKEN=participant_token("c", "bob"))
    done: subprocess.CompletedProcess[str] = subprocess.run(
        argv, capture_output=True, text=True, timeout=LIMIT_S, check=True, env=environment
    )
    return done.stdout


def marks(text: str) -> dict[str, str]:
    """Maps each step in the command's text to its mark (✓, ✗ or -)."""
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line[:3].strip() in "✓✗-"]
    return {step: mark for mark, step in (line for line in lines if len(line) == 2)}


def test_each_cause_is_told_by_the_service_and_by_the_command(running: Running) -> None:
    bob = running.client("bob")
    # The switch may not be connected yet.
    causes_become(bob, ["no_publisher", "not_subscribed"])
    ann = running.client("ann")
    found = why(bob)
    assert found["causes"] == ["not_published", "not_subscribed"]
    assert "publishes the track" in found["next"]
    assert marks(command(running))["ann publishes cam"] == "✗"
    leg = publish(ann, "ann")
    assert why(bob)["causes"] == ["publisher_not_signed_in", "not_subscribed"]
    with opened(leg) as camera:
        causes_become(bob, ["publisher_silent", "not_subscribed"])
        assert marks(command(running))["bob has subscribed"] == "✗"
        of_bob = subscribe(bob, "bob", "ann")
        assert why(bob)["causes"] == ["publisher_silent", "receiver_not_signed_in"]
        with opened(of_bob) as screen:
            silent = causes_become(bob, ["publisher_silent"])
            assert silent["publisher"]["last_packet_ms"] is None
            assert marks(command(running))["ann sends media"] == "✗"
            number = iter(range(1_000_000))

            def send() -> None:
                camera.send(rtp(next(number) % 65_536, bytes(500)))

            causes_become(bob, [], send)
            forwarded_with_rates(running, bob, send)

            def send_too_much() -> None:
                for _ in range(400):
                    send()

            causes_become(bob, ["policed"], send_too_much)
            assert marks(command(running))["ann keeps within the rate"] == "✗"
            received(screen, 1_000_000, 0.1)
            ann.mute("c", "ann", "cam")
            assert "muted" in why(bob)["causes"]
            assert marks(command(running))["cam is not muted"] == "✗"
            ann.mute("c", "ann", "cam", muted=False)
            camera_sends_no_rtp(bob, camera)


def forwarded_with_rates(running: Running, bob: Client, send: Callable[[], None]) -> None:
    until = time.monotonic() + LIMIT_S
    while True:
        found = why(bob)
        if found["receiver"]["packets_per_s"] > 10 and found["publisher"]["kbps"] > 50:
            break
        assert time.monotonic() < until, found
        send()
        time.sleep(MEDIA_INTERVAL_S)
    assert abs(found["publisher"]["last_packet_ms"] / 1_000 - time.time()) < 5
    document = json.loads(command(running, "--json"))
    assert document["path"] == {"participant": "ann", "track": "cam"}
    quality = bob.conference("c")["participants"]["ann"]["tracks"]["cam"]["qualities"][0]
    assert quality["signed_in"]
    assert quality["packets_per_s"] > 0


def camera_sends_no_rtp(bob: Client, camera: MediaSocket) -> None:
    causes_become(bob, ["not_rtp"], lambda: camera.send(b"\0" * 300))


def test_only_the_receiver_and_administrators_may_ask(running: Running) -> None:
    ann, _ = running.client("ann"), running.client("bob")
    causes_become(running.administrator, ["not_published", "not_subscribed"])
    with pytest.raises(ProblemError) as refused:
        why(ann)
    assert refused.value.status == 403
    with pytest.raises(ProblemError) as refused:
        why(running.administrator, "nobody")
    assert refused.value.status == 404


def next_event(stream: Events, kind: str, limit_s: float) -> tuple[dict[str, Any] | None, set[str]]:
    """Returns the next event of this kind, if it comes in time, and the earlier events' kinds."""
    before: set[str] = set()
    until = time.monotonic() + limit_s
    while (event := stream.receive(max(0.0, until - time.monotonic()))) is not None:
        if event["event"] == kind:
            return event, before
        before.add(event["event"])
    return None, before


def test_changed_causes_are_events_for_the_receiver_and_administrators(running: Running) -> None:
    ann, bob = running.client("ann"), running.client("bob")
    publish(ann, "ann")
    subscribe(bob, "bob", "ann")
    causes_become(bob, ["publisher_not_signed_in", "receiver_not_signed_in"])
    with (
        Events(ann, "c") as of_ann,
        Events(bob, "c") as of_bob,
        Events(running.administrator, "c") as of_all,
    ):
        # The service reports changes against the causes that it finds when it first checks after a
        # stream was opened. So if the service finds the mute at that first check already, it does
        # not report the mute as a change.
        told = None
        until = time.monotonic() + LIMIT_S
        while told is None or "muted" not in told["why"]["causes"]:
            assert time.monotonic() < until
            ann.mute("c", "ann", "cam", muted=False)
            next_event(of_bob, "why_not", 3.0)
            ann.mute("c", "ann", "cam")
            told, _ = next_event(of_bob, "why_not", 5.0)
        assert told["participant"] == "bob"
        assert told["path"] == {"participant": "ann", "track": "cam"}
        also_told, _ = next_event(of_all, "why_not", LIMIT_S)
        assert also_told is not None
        running.administrator.delete_conference("c")
        _, before = next_event(of_ann, "conference_ended", LIMIT_S)
        assert "muted" in before
        assert "why_not" not in before
        with pytest.raises(EventsEndedError, match="the conference has ended"):
            of_ann.receive(LIMIT_S)
    with pytest.raises(ProblemError, match="there is no conference c") as refused:
        Events(ann, "c")
    assert refused.value.status == 404


def test_a_participant_without_a_sign_is_gone_and_one_with_a_socket_is_not(tmp_path: Path) -> None:
    with Running(tmp_path, top="gone_s = 10") as running:
        ann = running.client("ann")
        running.client("bob")
        with opened(publish(ann, "ann")):
            until = time.monotonic() + LIMIT_S
            began = time.monotonic()
            while "bob" in (there := running.administrator.conference("c")["participants"]):
                assert time.monotonic() < until
                time.sleep(0.2)
            assert time.monotonic() - began > 8
            assert there.keys() == {"ann"}


Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""The values of metrics, by name and labels."""


def metrics_text(running: Running) -> str:
    with urllib.request.urlopen(f"{running.url}/metrics", timeout=LIMIT_S) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4"
        text: str = answer.read().decode()
    return text


def samples(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def metrics(running: Running) -> Samples:
    """Reads the service's metrics, in which no participant is named."""
    text = metrics_text(running)
    assert "ann" not in text
    return samples(text)


def test_metrics_count_what_happens(running: Running) -> None:
    ann, bob = running.client("ann"), running.client("bob")
    with opened(publish(ann, "ann")) as camera, opened(subscribe(bob, "bob", "ann")) as screen:
        for number in range(100):
            camera.send(rtp(number))
        assert len(received(screen, 100)) == 100

        def value(name: str, **labels: str) -> float:
            key = (f"reprise_conference_{name}", tuple(sorted(labels.items())))
            return metrics(running).get(key, 0.0)

        until = time.monotonic() + LIMIT_S
        while value("sent_packets_total") < 100:
            assert time.monotonic() < until, metrics(running)
            time.sleep(0.1)
        assert value("received_packets_total") >= 100
        assert value("verdicts_total", verdict="serve") >= 100
        expected = {"conferences": 1, "participants": 2, "tracks": 1, "subscriptions": 1}
        expected |= {"legs": 2, "signed_in_legs": 2, "leader": 1, "switch_whole": 1}
        assert {name: value(name) for name in expected} == expected
        assert value("hellos_total", outcome="signed_in") == 2
        assert value("hellos_total", outcome="challenged") >= 2
        assert value("store_writes_total", result="done") >= 5
        route = "/v1/conferences/{conference}/participants/{participant}"
        assert value("http_requests_total", method="PUT", route=route, status="200") == 2
        assert value("http_request_seconds_count", route=route) == 2


NAMES = ("weekly-7", "annabel-7", "robert-7", "stage-7", "front-7", "wide-7")
"""The names of a conference, its two participants, their track, and their legs."""


def of_leg(what: str, participant: str, leg: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    labels = (("conference", "weekly-7"), ("leg", leg), ("participant", participant))
    return f"reprise_conference_leg_{what}_packets_total", labels


@pytest.mark.parametrize("is_asked", [True, False])
def test_metrics_name_conferences_and_participants_only_if_the_configuration_says_so(
    tmp_path: Path, is_asked: bool
) -> None:
    weekly, annabel, robert, track, front, wide = NAMES
    with Running(tmp_path, top="metrics_names = true" if is_asked else "") as running:
        running.administrator.put_conference(weekly, "Budget")
        sender, receiver = (running.client(name, weekly) for name in (annabel, robert))
        qualities = [{"name": "one", "max_kbps": 10_000, "leg": front}]
        sends = sender.publish(weekly, annabel, track, kind="video", qualities=qualities)
        gets = receiver.subscribe(weekly, robert, annabel, track, leg=wide)
        to_robert = of_leg("sent", robert, wide)
        awaited = to_robert if is_asked else ("reprise_conference_sent_packets_total", ())
        with opened(sends["legs"][front]) as camera, opened(gets["legs"][wide]) as screen:
            for number in range(20):
                camera.send(rtp(number))
            assert len(received(screen, 20)) == 20
            until = time.monotonic() + LIMIT_S
            while samples(text := metrics_text(running)).get(awaited, 0) < 20:
                assert time.monotonic() < until, text
                time.sleep(0.1)
        assert "Budget" not in text
        if not is_asked:
            assert [name for name in NAMES if name in text] == []
            return
        assert track not in text
        found = samples(text)
        named = {key: found[key] for key in found if set(NAMES) & {name for _, name in key[1]}}
        legs = ((annabel, front), (robert, wide))
        assert named.keys() == {of_leg(what, *leg) for what in ("received", "sent") for leg in legs}
        assert named[to_robert] == 20
        assert named[of_leg("sent", annabel, front)] == 0
        # Hellos count, too.
        assert named[of_leg("received", annabel, front)] >= 20
        # A participant who has left is no longer named.
        receiver.leave(weekly, robert)
        until = time.monotonic() + LIMIT_S
        while robert in (text := metrics_text(running)):
            assert time.monotonic() < until, text
            time.sleep(0.1)
        assert annabel in text
