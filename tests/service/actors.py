"""Participants who act at random, and record what they did and which packets they received."""

import contextlib
import random
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from reprise_conference import Client, MediaSocket, NotSignedInError, ProblemError

from tests.service.history import History
from tests.service.running import GRANTS, TOKEN_S, token

CONFERENCES = {"c": ["ann", "bob", "cid", "dan"], "d": ["eve", "fay", "gus"]}
PACKETS_PER_S = 50.0
PAUSE_S = (0.05, 0.4)
PATIENCE_S = 120.0
"""How long a request is repeated until a service answers it."""
REST_S, REST_S_MAX = 0.3, 3.0
"""A socket is read until it has been silent for `REST_S`, but at most for `REST_S_MAX`."""
RETRY_S = 0.05
CONTENT = struct.Struct("!16s16sQ")
"""Conference, publisher, number of the packet."""
RTP = b"\x80\x60" + bytes(6) + b"\0\0\0\x11"


class GivenUpError(AssertionError):
    """No service has answered for too long."""


class Somebody:
    """A participant of a conference, with a camera, who watches some of the others."""

    def __init__(
        self, urls: Sequence[str], conference: str, name: str, others: Sequence[str], seed: int
    ) -> None:
        self.conference, self.name = conference, name
        self._others = [other for other in others if other != name]
        exp = int(time.time()) + TOKEN_S
        its = token(conference=conference, sub=name, grants=GRANTS, exp=exp)
        self._clients = [Client(url, its) for url in urls]
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._camera: MediaSocket | None = None
        self._screens: dict[str, _Screen] = {}
        self.is_muted = False
        self.watched: set[str] = set()
        self.n_requests = 0
        self.acts, self.sends = threading.Lock(), threading.Lock()
        """Held while the participant makes requests, and while it sends a packet. Whoever else
        holds one keeps the participant from it."""

    def run(self, history: History, until: threading.Event) -> None:
        """Acts at random until `until` is set, and reports what went wrong."""
        try:
            with self.acts:
                self._join(history)
            while not until.wait(self._random.uniform(*PAUSE_S)):
                with self.acts:
                    self._act(history)
        except (OSError, ProblemError, NotSignedInError, GivenUpError) as error:
            history.say(f"{self.name}: {type(error).__name__}: {error}")
        finally:
            # The others' last packets need some time to arrive.
            until.wait()
            time.sleep(0.5)
            self._stop.set()
            if self._camera is not None:
                history.sends(self.name, False)
            for other in list(self._screens):
                # Others may send for a while yet.
                history.listens(self.name, other, False)
                self._screens.pop(other).close()

    def legs(self) -> dict[str, int]:
        """For each participant who is watched: the number of the leg that receives the camera."""
        return {other: screen.leg for other, screen in self._screens.items()}

    def _act(self, history: History) -> None:
        other = self._random.choice(self._others)
        actions: list[tuple[float, Callable[[], None]]] = [
            (6.0, lambda: self._watch(history, other)),
            (3.0, lambda: self._unwatch(history, other)),
            (2.0, lambda: self._mute(history)),
            (0.3, lambda: self._rejoin(history)),
        ]
        weights = [weight for weight, _ in actions]
        [(_, action)] = self._random.choices(actions, weights)
        action()
        self._look(history)

    def _ask(self, request: Callable[[Client], Any]) -> Any:
        """Repeats a request until the service that leads answers it."""
        until = time.monotonic() + PATIENCE_S
        while True:
            for client in self._clients:
                try:
                    answer = request(client)
                except ProblemError as problem:
                    if problem.status < 500:
                        raise
                    error: Exception = problem
                except OSError as unreachable:
                    error = unreachable
                else:
                    self.n_requests += 1
                    return answer
            if time.monotonic() > until:
                raise GivenUpError(f"no service has answered for {PATIENCE_S:.0f} s: {error}")
            time.sleep(RETRY_S)

    def _join(self, history: History) -> None:
        self._ask(lambda client: client.join(self.conference, self.name))
        quality = {"name": "one", "max_kbps": 10_000, "leg": "cam"}
        history.audible(self.name, None)
        there = self._ask(
            lambda client: client.publish(
                self.conference, self.name, "cam", kind="video", qualities=[quality]
            )
        )
        history.audible(self.name, True)
        self._camera = MediaSocket(there["legs"]["cam"])
        stop = threading.Event()
        self._stop = stop
        ready = threading.Event()
        camera = self._camera
        for work in (
            lambda: self._keep_signed_in(camera, history, ready, stop),
            lambda: self._send(camera, history, ready, stop),
        ):
            threading.Thread(target=work, daemon=True).start()

    def _keep_signed_in(
        self, camera: MediaSocket, history: History, ready: threading.Event, stop: threading.Event
    ) -> None:
        """Answers the messages that the switch sends to the camera's socket, until `stop` is
        set."""
        while not stop.is_set():
            with contextlib.suppress(OSError):
                camera.receive(0.2)
            if camera.is_signed_in and not (ready.is_set() or stop.is_set()):
                ready.set()
                history.sends(self.name, True)
        camera.close()

    def _send(
        self, camera: MediaSocket, history: History, ready: threading.Event, stop: threading.Event
    ) -> None:
        ready.wait()
        names = (self.conference.encode(), self.name.encode())
        due_s = time.monotonic()
        while not stop.is_set():
            with self.sends:
                number = history.send(self.name)
                # While the switch is down, nobody receives packets, and sending may fail.
                with contextlib.suppress(OSError):
                    camera.send(RTP + CONTENT.pack(*names, number))
            due_s = max(due_s + 1 / PACKETS_PER_S, time.monotonic() - 0.1)
            time.sleep(max(0.0, due_s - time.monotonic()))

    def _watch(self, history: History, other: str) -> None:
        if other in self.watched:
            return
        history.subscribed(self.name, other, None)
        try:
            there = self._ask(
                lambda client: client.subscribe(
                    self.conference, self.name, other, "cam", leg=f"of-{other}"
                )
            )
        except ProblemError as problem:
            if problem.status != 404:
                raise
            # The other participant is not in the conference now.
            history.subscribed(self.name, other, False)
            return
        history.subscribed(self.name, other, True)
        self.watched.add(other)
        screen = _Screen(self, other, there["legs"][f"of-{other}"], history)
        self._screens[other] = screen

    def _unwatch(self, history: History, other: str) -> None:
        if other not in self.watched:
            return
        self._screens[other].expects_nothing()
        history.listens(self.name, other, False)
        history.subscribed(self.name, other, None)
        self._ask(lambda client: client.unsubscribe(self.conference, self.name, other, "cam"))
        history.subscribed(self.name, other, False)
        self.watched.discard(other)
        # The socket stays open for a while, so that a packet that still comes, which is an error,
        # is noticed.
        time.sleep(0.1)
        self._screens.pop(other).close()

    def _mute(self, history: History) -> None:
        muted = not self.is_muted
        history.audible(self.name, None)
        self._ask(lambda client: client.mute(self.conference, self.name, "cam", muted=muted))
        history.audible(self.name, not muted)
        self.is_muted = muted

    def _rejoin(self, history: History) -> None:
        self._stop.set()
        history.sends(self.name, False)
        history.audible(self.name, None)
        for other in self.watched:
            self._screens[other].expects_nothing()
            history.listens(self.name, other, False)
            history.subscribed(self.name, other, None)
        self._ask(lambda client: client.leave(self.conference, self.name))
        history.audible(self.name, False)
        for other in self.watched:
            history.subscribed(self.name, other, False)
        for other in list(self._screens):
            self._screens.pop(other).close()
        self.watched.clear()
        self.is_muted = False
        self._join(history)

    def _look(self, history: History) -> None:
        """Checks that the service has the state that it confirmed to this participant.

        Nobody else changes this participant's state.
        """
        conference = self._ask(lambda client: client.conference(self.conference))
        if wrong := self.difference(conference):
            history.say(f"{self.name}: {wrong}")

    def difference(self, conference: dict[str, Any]) -> str:
        """How the service's state differs from its answers to this participant; maybe empty."""
        there = conference["participants"].get(self.name)
        if there is None:
            return "the service has lost the participant"
        is_muted = "muted_by" in there["tracks"].get("cam", {"muted_by": ""})
        watched = {one["path"]["participant"] for one in there["subscriptions"]}
        if (is_muted, watched) == (self.is_muted, self.watched):
            return ""
        return (
            f"expected muted {self.is_muted}, watching {sorted(self.watched)}; "
            f"the service has muted {is_muted}, watching {sorted(watched)}"
        )


class _Screen:
    """A socket that receives another participant's camera, in a thread of its own."""

    def __init__(self, whose: Somebody, other: str, leg: dict[str, Any], history: History) -> None:
        self._names = (whose.name, other)
        self.leg: int = leg["number"]
        self._conference = whose.conference
        self._history = history
        self._socket = MediaSocket(leg)
        self._is_new = True
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                packet = self._socket.receive(0.05)
            except OSError:
                continue
            if self._is_new and self._socket.is_signed_in:
                self._is_new = False
                self._history.listens(*self._names, True)
            if packet is not None:
                self._take(packet)
        # On a busy machine, packets that were sent in time may come late.
        until = time.monotonic() + REST_S_MAX
        with contextlib.suppress(OSError):
            while time.monotonic() < until and (packet := self._socket.receive(REST_S)) is not None:
                self._take(packet)
        self._socket.close()

    def _take(self, packet: bytes) -> None:
        receiver, expected = self._names
        if len(packet) != len(RTP) + CONTENT.size:
            # A report to the publisher, or an answer that came late.
            return
        texts = CONTENT.unpack(packet[len(RTP) :])
        conference, publisher = (text.rstrip(b"\0").decode() for text in texts[:2])
        if (conference, publisher) != (self._conference, expected):
            self._history.say(
                f"{receiver} of {self._conference} got a packet of {publisher} of {conference} "
                f"on the socket for {expected}"
            )
            return
        self._history.receive(receiver, publisher, texts[2])

    def expects_nothing(self) -> None:
        """From now on no packet may come to this socket."""
        self._is_new = False

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
