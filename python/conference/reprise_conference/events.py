"""The events of a conference, as the service streams them over a WebSocket (RFC 6455).

This module needs the package websockets, which is installed with `reprise-conference[events]`.
"""

import json
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
    """

    def __init__(self, client: Client, conference: str) -> None:
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
        """The next event; None if none comes in this time. Raises `EventsEndedError`."""
        try:
            event: dict[str, Any] = json.loads(self._stream.recv(timeout_s))
        except TimeoutError:
            return None
        except ConnectionClosed as closed:
            reason = closed.rcvd.reason if closed.rcvd else ""
            raise EventsEndedError(reason or "the connection has ended") from closed
        return event

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
