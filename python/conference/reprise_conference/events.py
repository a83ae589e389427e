"""The events of a conference, as the service streams them over a WebSocket (RFC 6455).

Requests may go over the same stream.

This module needs the package websockets, which is installed with `reprise-conference[events]`.
"""

import json
import time
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from reprise_conference.client import TIMEOUT_S, Client, problem

EVENT_BYTES_MAX = 1 << 20


class EventsEndedError(ConnectionError):
    """The stream ended; the text is the reason. Open another stream, then read the conference."""


class Events:
    """The events of a conference from now on. Read the conference after this stream is open.

    Iterate over the events, or call `receive`. docs/join.md shows the events. After an event whose
    `event` is `lost`, read the conference again.

    Requests may go over the stream, too. The thread that receives the events must make them. When a
    stream ends, its last messages may be lost, so read the conference again.
    """

    def __init__(self, client: Client, conference: str) -> None:
        self._early: deque[dict[str, Any]] = deque()
        """Events that arrived while `request` waited for an answer."""
        self._asked = 0
        scheme = "wss" if client.url.scheme == "https" else "ws"
        path = f"/v1/conferences/{quote(conference, safe='')}/events"
        try:
            self._stream = connect(
                f"{scheme}://{client.url.netloc}{path}",
                additional_headers={"Authorization": f"Bearer {client.token}"},
                ssl=client.context,
                open_timeout=TIMEOUT_S,
                max_size=EVENT_BYTES_MAX,
                # The client's other requests use no proxy either.
                proxy=None,
            )
        except InvalidStatus as refused:
            answer = refused.response
            raise problem(answer.status_code, bytes(answer.body or b"")) from refused

    def receive(self, timeout_s: float | None = None) -> dict[str, Any] | None:
        """The next event; None if none arrives in time; `EventsEndedError` if the stream ends."""
        if self._early:
            return self._early.popleft()
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            message = self._message(until)
            # This skips an answer that arrives after `request` has stopped waiting for it.
            if message is None or "answer" not in message:
                return message

    def request(
        self, method: str, path: str, body: object = None, timeout_s: float = TIMEOUT_S
    ) -> Any:
        """Makes a request over the stream; returns the answer's body.

        `path` is what follows `/v1/conferences/CONFERENCE/`. Raises `ProblemError` if the service
        refuses the request, TimeoutError if no answer arrives in time, and `EventsEndedError` if
        the stream ends.
        """
        self._asked += 1
        asked: dict[str, object] = {"request": self._asked, "method": method, "path": path}
        if body is not None:
            asked["body"] = body
        try:
            self._stream.send(json.dumps(asked))
        except ConnectionClosed as closed:
            raise _ended(closed) from closed
        until = time.monotonic() + timeout_s
        while True:
            message = self._message(until)
            if message is None:
                raise TimeoutError(f"no answer to {method} {path} within {timeout_s:g} s")
            if "answer" not in message:
                self._early.append(message)
            elif message["answer"] in (self._asked, None):
                if message["status"] >= 400:
                    raise problem(message["status"], json.dumps(message["body"]).encode())
                return message["body"]

    def _message(self, until: float | None) -> dict[str, Any] | None:
        """The next message; None if none arrives until `until`, a time of `time.monotonic`."""
        left_s = None if until is None else max(0.0, until - time.monotonic())
        try:
            message: dict[str, Any] = json.loads(self._stream.recv(left_s))
        except TimeoutError:
            return None
        except ConnectionClosed as closed:
            raise _ended(closed) from closed
        return message

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            event = self.receive()
            if event is not None:
                yield event

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _ended(closed: ConnectionClosed) -> EventsEndedError:
    reason = closed.rcvd.reason if closed.rcvd else ""
    return EventsEndedError(reason or "the connection has ended")
