"""Participants join by themselves; each receives what it has subscribed to, and nothing else."""

import json
import random
import signal
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from reprise_conference import Client, MediaSocket, ProblemError
from reprise_conference.events import Events, EventsEndedError
from reprise_conference.hello import LEN, NONCE_LEN, sign
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.sync.client import connect

from tests.service.running import (
    LIMIT_S,
    Running,
    opened,
    participant_token,
    publish,
    received,
    rtp,
    subscribe,
    token,
)

PLI = bytes.fromhex("81ce00020000002200000011")
"""A PLI, the request for a key frame (RFC 4585, section 6.3.1)."""
NACK = bytes.fromhex("81cd0003000000220000001100070000")
"""A report that packet 7 was lost (RFC 4585, section 6.2.1)."""
BEGINNING = b"RH\x01\x01\0\0"
"""The first fields of every hello (docs/join.md): magic, version, kind, reserved."""
SILENCE_S = 0.5
"""How long a test waits for packets that must not come."""


def test_media_goes_to_who_subscribed_and_reports_go_to_the_publisher(running: Running) -> None:
    ann, bob, cid = (running.client(name) for name in ("ann", "bob", "cid"))
    with (
        opened(publish(ann, "ann")) as camera,
        opened(subscribe(bob, "bob", "ann")) as screen,
        opened(publish(cid, "cid")) as later,
        opened(subscribe(bob, "bob", "cid")) as of_later,
    ):
        packets = [rtp(number) for number in range(50)]
        for packet in packets:
            camera.send(packet)
        assert received(screen, 50) == packets
        for report in (PLI, NACK):
            screen.send(report)
            assert received(camera, 1) == [report]
        # Bob's socket publishes nothing, so nobody receives what it sends.
        screen.send(rtp(1))
        assert received(camera, 1, SILENCE_S) == []
        # As soon as the service has answered, the switch has the change.
        for number in range(2, 22, 2):
            ann.mute("c", "ann", "cam")
            camera.send(rtp(number))
            # When the later packet has arrived on the other track, the switch has dropped this
            # packet.
            later.send(rtp(number))
            assert received(of_later, 1) == [rtp(number)]
            ann.mute("c", "ann", "cam", muted=False)
            camera.send(rtp(number + 1))
            assert received(screen, 1) == [rtp(number + 1)]
        bob.unsubscribe("c", "bob", "ann", "cam")
        camera.send(rtp(4))
        ann.leave("c", "ann")
        assert running.administrator.conference("c")["participants"].keys() == {"bob", "cid"}


def test_a_join_comes_with_tracks_and_subscriptions_or_is_refused(running: Running) -> None:
    def client(participant: str, **grants: object) -> Client:
        return Client(running.url, participant_token("c", participant, **grants))

    cam = {"kind": "video", "qualities": [{"name": "one", "max_kbps": 10_000, "leg": "cam"}]}
    ann = client("ann").join("c", "ann", tracks={"cam": cam})
    to_ann = {"ann": {"cam": {"leg": "of-ann"}}}
    bob = client("bob").join("c", "bob", tracks={"cam": cam}, subscriptions=to_ann)
    assert bob["subscriptions"][0]["path"] == {"participant": "ann", "track": "cam"}
    with opened(ann["legs"]["cam"]) as camera, opened(bob["legs"]["of-ann"]) as screen:
        camera.send(rtp(1))
        assert received(screen, 1) == [rtp(1)]
        # Other tracks and subscriptions stay as they are.
        again = client("bob").join("c", "bob", "Bob")
        assert (again["tracks"].keys(), again["subscriptions"]) == ({"cam"}, bob["subscriptions"])
        # A refused request changes nothing, not even the name.
        mic = {"kind": "audio", "qualities": [{"name": "one", "max_kbps": 64}]}
        missing: dict[str, dict[str, dict[str, str]]] = {"ann": {"mic": {}}}
        with pytest.raises(ProblemError) as refused:
            client("bob").join("c", "bob", "Rob", tracks={"mic": mic}, subscriptions=missing)
        assert refused.value.status == 404
        there = running.administrator.conference("c")["participants"]["bob"]
        assert (there["display_name"], there["tracks"].keys()) == ("Bob", {"cam"})
        # An administrator may publish for others, but gets no keys. The name stays.
        there = running.administrator.join("c", "bob", tracks={"mic": mic})
        assert (there["display_name"], there["tracks"].keys()) == ("Bob", {"cam", "mic"})
        assert not any("key" in leg for leg in there["legs"].values())
        camera.send(rtp(2))
        assert received(screen, 1) == [rtp(2)]
    twice = {"cam": cam, "mic": cam | {"kind": "audio"}}
    cases: list[tuple[int, Client, dict[str, Any]]] = [
        (403, client("eve", subscribe=False), {"subscriptions": to_ann}),
        (403, client("eve", publish=["audio"]), {"tracks": {"cam": cam}}),
        (403, client("eve", max_kbps=9_999), {"tracks": {"cam": cam}}),
        (404, client("eve"), {"tracks": {"cam": cam}, "subscriptions": {"ann": {"mic": {}}}}),
        (422, client("eve"), {"tracks": twice}),
        (
            422,
            client("eve"),
            {"subscriptions": {f"p{number}": {"cam": {}} for number in range(257)}},
        ),
        (422, client("eve"), {"tracks": {"cam": cam}, "subscriptions": {"eve": {"cam": {}}}}),
    ]
    for status, eve, wanted in cases:
        with pytest.raises(ProblemError) as refused:
            eve.join("c", "eve", **wanted)
        assert refused.value.status == status, refused.value
    assert running.administrator.conference("c")["participants"].keys() == {"ann", "bob"}


def test_a_token_is_good_for_its_participant_conference_and_grants_only(running: Running) -> None:
    running.administrator.put_conference("d")
    running.client("ann")
    bob = running.client("bob", subscribe=False, publish=["audio"])

    def status(client: Client, method: str, *path: str, body: object = None) -> int:
        with pytest.raises(ProblemError) as refused:
            client.request(method, path, body)
        assert refused.value.kind.startswith("urn:reprise:")
        return refused.value.status

    of_ann = ("conferences", "c", "participants", "ann")
    assert status(bob, "DELETE", *of_ann) == 403
    assert status(bob, "PUT", *of_ann, "tracks", "cam", "mute", body={"muted": True}) == 403
    assert status(bob, "GET", "conferences", "d") == 403
    assert status(bob, "PUT", "conferences", "e", body={}) == 403
    video = {"kind": "video", "qualities": [{"name": "one", "max_kbps": 1}]}
    of_bob = ("conferences", "c", "participants", "bob")
    assert status(bob, "PUT", *of_bob, "tracks", "cam", body=video) == 403
    assert status(bob, "PUT", *of_bob, "subscriptions", "ann", "cam", body={}) == 403
    audio = {"kind": "audio", "qualities": [{"name": "one", "max_kbps": 10_001}]}
    assert status(bob, "PUT", *of_bob, "tracks", "mic", body=audio) == 403
    assert status(bob, "PUT", *of_bob, "tracks", "mic", body={"kind": "smell"}) == 422
    assert status(bob, "GET", "nowhere") == 404
    an_hour_ago = int(time.time()) - 3_600
    forged = participant_token("c", "ann") + "x"
    for bad in (forged, token(conference="c", sub="ann", grants={}, exp=an_hour_ago)):
        assert status(Client(running.url, bad), "GET", "conferences", "c") == 401
    # Bob sees neither Ann's address nor her keys.
    assert "legs" not in bob.conference("c")["participants"]["ann"]


def last_of_stream(running: Running, conference: str) -> bytes:
    """Ends a conference by a request over its event stream; returns all bytes until the end.

    The client of the package websockets may lose messages that come right before the end.
    """
    parts = urlsplit(running.url)
    request = (
        f"GET /v1/conferences/{conference}/events HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        f"Authorization: Bearer {running.administrator.token}\r\n\r\n"
    )
    asked = b'{"request":7,"method":"DELETE","path":""}'
    came = b""
    address = (parts.hostname or "", parts.port or 0)
    with socket.create_connection(address, LIMIT_S) as stream:
        stream.sendall(request.encode())
        while b"\r\n\r\n" not in came:
            came += stream.recv(4_096)
        # A masked text message (RFC 6455, section 5.2); with zeros as its key the text stays.
        stream.sendall(bytes([0x81, 0x80 | len(asked), 0, 0, 0, 0]) + asked)
        while b"the conference has ended" not in came:
            part = stream.recv(4_096)
            assert part, came
            came += part
    return came


def test_requests_over_the_event_stream_do_what_they_do_over_http(running: Running) -> None:
    ann = running.client("ann")
    publish(ann, "ann")
    cam = "participants/ann/tracks/cam"
    with Events(ann, "c") as events:
        assert events.request("PUT", f"{cam}/mute", {"muted": True}) is None
        event = events.receive(LIMIT_S)
        assert event is not None
        assert (event["event"], event["muted_by"]) == ("muted", "publisher")
        assert events.request("GET", "")["participants"].keys() == {"ann"}
        for method, path, body, status in (
            ("DELETE", "participants/bob", None, 403),
            ("GET", "nowhere", None, 404),
            ("PUT", cam, {"kind": "smell"}, 422),
            ("PATCH", "", {}, 422),
            ("GET", "a b", None, 422),
            ("GET", "participants/%ff", None, 400),
            ("GET", "events", None, 400),
            ("PUT", cam, {"sdp": "v" * 258_000}, 422),
            ("PUT", cam, {"sdp": "v" * 262_500}, 413),
        ):
            with pytest.raises(ProblemError) as refused:
                events.request(method, path, body)
            assert refused.value.status == status, refused.value
            assert refused.value.kind.startswith("urn:reprise:")
        assert events.request("DELETE", "participants/ann") is None
        kinds = [
            event["event"] for event in (events.receive(LIMIT_S), events.receive(LIMIT_S)) if event
        ]
        assert kinds == ["track_removed", "left"]
    with Events(ann, "c") as events, pytest.raises(EventsEndedError):
        events.request("PUT", "", {"title": "v" * 300_000})
    headers = {"Authorization": f"Bearer {ann.token}"}
    address = f"ws{running.url.removeprefix('http')}/v1/conferences/c/events"
    with connect(address, additional_headers=headers) as stream:
        stream.send(b"binary")
        answer = json.loads(stream.recv(LIMIT_S))
        assert (answer["answer"], answer["status"]) == (None, 422)
        mute = '"method":"PUT","path":"participants/ann/tracks/cam/mute"'
        stream.send(f'{{"request":8,{mute},"body":{{"muted":true,"muted":false}}}}')
        answer = json.loads(stream.recv(LIMIT_S))
        assert (answer["answer"], answer["status"]) == (8, 422)
        assert "duplicate field" in answer["body"]["detail"]
        # A frame with a reserved bit (RFC 6455, section 5.2).
        stream.socket.sendall(b"\xf1\x80\0\0\0\0")
        with pytest.raises(ConnectionClosed) as ended:
            stream.recv(LIMIT_S)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == CloseCode.PROTOCOL_ERROR
    for _ in range(10):
        running.administrator.put_conference("e")
        assert b'{"answer":7,"status":200,"body":null}' in last_of_stream(running, "e")
    # A stream of the events of one conference takes no request about another conference.
    running.administrator.put_conference("d")
    with Events(ann, "c") as events, pytest.raises(ProblemError):
        events.request("GET", "../d")


def hostile_hellos(
    chance: random.Random, ours: dict[str, Any], theirs: dict[str, Any], n: int
) -> Iterator[bytes]:
    """Hellos by which the owner of leg `ours` tries to get leg `theirs`, or to confuse others."""
    our_key, their_key = (bytes.fromhex(leg["key"]) for leg in (ours, theirs))
    kind, wall_ms = 1, time.time_ns() // 1_000_000
    for _ in range(n):
        nonce = chance.randbytes(NONCE_LEN)
        mutated = bytearray(sign(our_key, kind, ours["number"], wall_ms, nonce))
        mutated[chance.randrange(LEN)] ^= 1 << chance.randrange(8)
        yield chance.choice(
            (
                b"RH\x01\x01\0\0"
                + chance.randrange(1, 9).to_bytes(4, "big")
                + chance.randbytes(56),
                bytes(mutated),
                bytes(mutated[: chance.randrange(LEN)]),
                sign(our_key, kind, theirs["number"], wall_ms, nonce),
                # As if somebody had captured a hello of that leg, and sent it from another socket.
                sign(their_key, kind, theirs["number"], wall_ms, nonce),
            )
        )


def test_no_stream_crosses_whatever_a_participant_sends(running: Running) -> None:
    n_hellos = 10_000
    running.administrator.put_conference("d")
    ann, bob = running.client("ann"), running.client("bob")
    eve, fay = running.client("eve", "d"), running.client("fay", "d")
    of_ann, of_eve = publish(ann, "ann"), publish(eve, "eve", "d")
    camera, screen = opened(of_ann), opened(subscribe(bob, "bob", "ann"))
    theirs, seen = opened(of_eve), opened(subscribe(fay, "fay", "eve", "d"))
    address, port = camera.local_address
    chance = random.Random(2_026)
    n_seen = 0
    for number, hello in enumerate(hostile_hellos(chance, of_eve, of_ann, n_hellos)):
        theirs.send(hello)
        # This packet has the synchronisation source of Ann's packets.
        theirs.send(rtp(number % 65_536, b"of eve"))
        if number % 100 == 0:
            time.sleep(0.01)
            # Fay's socket never holds more packets than it has room for.
            others = received(seen, 1_000, 0.02)
            n_seen += len(others)
            assert all(packet.endswith(b"of eve") for packet in others)
            # A host that is not signed in sends from Ann's port, but from another address.
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
                nobody.bind(("127.0.0.2", port))
                nobody.sendto(hello, ("127.0.0.1", running.media_port))
                nobody.sendto(rtp(number, b"of nobody"), ("127.0.0.1", running.media_port))
    camera.send(rtp(7, b"of ann"))
    assert received(screen, 1) == [rtp(7, b"of ann")]
    assert received(screen, 1, SILENCE_S) == []
    others = received(seen, n_hellos, 2 * SILENCE_S)
    assert all(packet.endswith(b"of eve") for packet in others)
    assert n_seen + len(others) > n_hellos / 10
    [leg] = running.administrator.conference("c")["participants"]["ann"]["legs"].values()
    assert (leg["signed_in_from"]["address"], leg["signed_in_from"]["udp_port"]) == (address, port)
    # A socket that has the key of another conference's leg (a socket's connection) and signs in to
    # that leg leaves its own leg.
    assert theirs.is_signed_in
    for one in (camera, screen, theirs, seen):
        one.close()


def test_a_killed_service_costs_no_packet_and_the_next_one_goes_on(running: Running) -> None:
    ann, bob = running.client("ann"), running.client("bob")
    with opened(publish(ann, "ann")) as camera, opened(subscribe(bob, "bob", "ann")) as screen:
        running.service.stop(signal.SIGKILL)
        for number in range(200):
            camera.send(rtp(number))
            assert received(screen, 1) == [rtp(number)]
        running.service.start()
        running.wait()
        for number in range(200, 400):
            camera.send(rtp(number))
            assert received(screen, 1) == [rtp(number)]
        cid = running.client("cid")
        with opened(subscribe(cid, "cid", "ann")) as another:
            camera.send(rtp(400))
            assert received(another, 1) == [rtp(400)]
            assert received(screen, 1) == [rtp(400)]


def test_hellos_are_limited_though_a_service_was_killed_before_it_set_limits(
    running: Running,
) -> None:
    meter = "meter list hello_port_rate 1"
    until = time.monotonic() + LIMIT_S
    while "cir=4000" not in running.p4rt(meter):
        assert time.monotonic() < until, running.service.said
    running.service.stop(signal.SIGKILL)
    reset = running.p4rt("meter reset hello_port_rate *")
    assert "cir=" not in running.p4rt(meter), reset
    running.service.start()
    until = time.monotonic() + LIMIT_S
    while "cir=4000" not in running.p4rt(meter):
        assert time.monotonic() < until, running.service.said


def test_a_killed_switch_is_whole_again_without_anybodys_help(running: Running) -> None:
    ann, bob = running.client("ann"), running.client("bob")
    with opened(publish(ann, "ann")) as camera, opened(subscribe(bob, "bob", "ann")) as screen:
        running.switch.stop(signal.SIGKILL)
        running.switch.start()
        until = time.monotonic() + LIMIT_S
        number = 0
        while not (found := received(screen, 1, 0.05)):
            assert time.monotonic() < until, running.service.said
            number += 1
            try:
                camera.send(rtp(number))
            except ConnectionRefusedError:
                continue
        assert found[0].startswith(b"\x80\x60")
        screen.send(PLI)
        assert received(camera, 1) == [PLI]


def test_a_controller_that_had_a_greater_election_id_keeps_no_service_out(
    running: Running,
) -> None:
    ann, bob = running.client("ann"), running.client("bob")
    with opened(publish(ann, "ann")) as camera, opened(subscribe(bob, "bob", "ann")) as screen:
        for election_id in (1 << 50, 1 << 60):
            running.service.stop()
            assert "primary" in running.p4rt(f"primary take {election_id}")
            running.service.start()
            running.wait()
            with opened(subscribe(running.client("cid"), "cid", "ann")) as another:
                camera.send(rtp(1))
                assert received(another, 1) == received(screen, 1) == [rtp(1)]
            running.administrator.request("DELETE", ["conferences", "c", "participants", "cid"])


def test_a_socket_that_sends_is_not_replaced_by_another_one_with_its_key(running: Running) -> None:
    ann, bob = running.client("ann"), running.client("bob")
    leg = publish(ann, "ann")
    with opened(leg) as camera, opened(subscribe(bob, "bob", "ann")) as screen:
        with MediaSocket(leg) as second:
            until = time.monotonic() + 5
            number = 0
            while time.monotonic() < until:
                number += 1
                # In `receive`, both sockets also answer the messages that the switch sends to them.
                camera.receive(0.01)
                second.receive(0.01)
                camera.send(rtp(number))
                second.send(rtp(number, b"of the second"))
                assert received(screen, 1) == [rtp(number)]
            assert not second.is_signed_in
        camera.close()
        # A socket that has gone can be replaced by another socket with the same leg (connection).
        with opened(leg) as third:
            third.send(rtp(1, b"of the third"))
            assert received(screen, 1) == [rtp(1, b"of the third")]


def test_a_participant_ends_with_its_token(running: Running) -> None:
    soon = participant_token("c", "ann")
    client = Client(running.url, soon)
    client.join("c", "ann")
    brief = Client(running.url, _brief("bob"))
    brief.join("c", "bob")
    until = time.monotonic() + LIMIT_S
    while "bob" in running.administrator.conference("c")["participants"]:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert "ann" in running.administrator.conference("c")["participants"]


def _brief(participant: str) -> str:
    grants = {"subscribe": True}
    return token(conference="c", sub=participant, exp=int(time.time()) + 2, grants=grants)
