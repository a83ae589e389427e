"""Makes requests to the conference service. The bodies are JSON (see GET /openapi.json)."""

import http.client
import json
import ssl
import time
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any
from urllib.parse import quote, urlsplit

TIMEOUT_S = 10.0


class ProblemError(Exception):
    """The service refused a request (RFC 9457). `kind` is for programs, `detail` for people."""

    def __init__(self, status: int, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail


class Client:
    """Makes requests as the participant or administrator whose token it has.

    A leg is the connection of one of a participant's UDP sockets to the service.

    `ca` is a file with the certificates (PEM) that sign the service's certificate. It is needed if
    the system does not trust the service's certificate. `context` is for everything else about TLS.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca: str | PathLike[str] | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"expected http://HOST:PORT or https://HOST:PORT, got {url!r}")
        self.url = parts
        self.token = token
        if context is None and parts.scheme == "https":
            context = ssl.create_default_context(cafile=ca)
        self.context = context

    def put_conference(self, conference: str, title: str = "") -> dict[str, Any]:
        """Makes a conference, or changes its title."""
        return self.request("PUT", ("conferences", conference), {"title": title})

    def conference(self, conference: str) -> dict[str, Any]:
        """Returns the conference, with its participants and their tracks."""
        return self.request("GET", ("conferences", conference))

    def delete_conference(self, conference: str) -> None:
        """Ends a conference, with everybody in it."""
        self.request("DELETE", ("conferences", conference))

    def join(
        self,
        conference: str,
        participant: str,
        display_name: str = "",
        *,
        tracks: Mapping[str, Mapping[str, Any]] | None = None,
        subscriptions: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    ) -> dict[str, Any]:
        """Joins; returns the participant, with its legs and their keys.

        The same request can publish `tracks`, by name, and subscribe to tracks, by publisher and
        name: `{"ann": {"audio": {}}}`. If the service refuses one of these, it also refuses the
        join.
        """
        path = ("conferences", conference, "participants", participant)
        body: dict[str, Any] = {"display_name": display_name}
        if tracks:
            body["tracks"] = tracks
        if subscriptions:
            body["subscriptions"] = subscriptions
        return self.request("PUT", path, body)

    def leave(self, conference: str, participant: str) -> None:
        """Removes a participant from a conference: the caller itself, or another participant."""
        self.request("DELETE", ("conferences", conference, "participants", participant))

    def publish(
        self,
        conference: str,
        participant: str,
        track: str,
        *,
        kind: str,
        qualities: Iterable[Mapping[str, Any]],
        transport: str = "rtp",
        sdp: str = "",
    ) -> dict[str, Any]:
        """Publishes a track; returns the participant, with its legs and their keys."""
        path = ("conferences", conference, "participants", participant, "tracks", track)
        body = {
            "kind": kind,
            "transport": transport,
            "qualities": [dict(quality) for quality in qualities],
            "sdp": sdp,
        }
        return self.request("PUT", path, body)

    def unpublish(self, conference: str, participant: str, track: str) -> None:
        """Ends a track."""
        path = ("conferences", conference, "participants", participant, "tracks", track)
        self.request("DELETE", path)

    def mute(self, conference: str, participant: str, track: str, muted: bool = True) -> None:
        """Mutes a track, or unmutes it if `muted` is False."""
        path = ("conferences", conference, "participants", participant, "tracks", track, "mute")
        self.request("PUT", path, {"muted": muted})

    def subscribe(
        self,
        conference: str,
        participant: str,
        publisher: str,
        track: str,
        *,
        quality: str | None = None,
        leg: str | None = None,
    ) -> dict[str, Any]:
        """Subscribes to a track.

        Returns the participant. It has the legs (the sockets' connections to the conference) with
        the keys that sign their hellos.
        """
        path = ("conferences", conference, "participants", participant, "subscriptions")
        body = {name: value for name, value in (("quality", quality), ("leg", leg)) if value}
        return self.request("PUT", (*path, publisher, track), body)

    def unsubscribe(self, conference: str, participant: str, publisher: str, track: str) -> None:
        """Ends the subscription to a track."""
        path = ("conferences", conference, "participants", participant, "subscriptions")
        self.request("DELETE", (*path, publisher, track))

    def request(self, method: str, path: Iterable[str], body: object = None) -> dict[str, Any]:
        """Makes any request below /v1. Raises `ProblemError` if the service refuses it.

        If the service answers that it has too many requests, repeats the request after the time
        that the service names in its answer.
        """
        target = "/".join(("/v1", *(quote(part, safe="") for part in path)))
        text = None if body is None else json.dumps(body)
        until = time.monotonic() + TIMEOUT_S
        while True:
            answer, content = self._ask(method, target, text)
            wait = answer.getheader("Retry-After") or ""
            if answer.status != 429 or not wait.isdecimal():
                break
            if time.monotonic() + int(wait) > until:
                break
            time.sleep(int(wait))
        if answer.status >= 400:
            raise problem(answer.status, content)
        found: dict[str, Any] = json.loads(content) if content else {}
        return found

    def _ask(
        self, method: str, target: str, text: str | None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self._connect()
        try:
            headers = {"Authorization": f"Bearer {self.token}"}
            if text is not None:
                headers["Content-Type"] = "application/json"
            connection.request(method, target, text, headers)
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self.url.hostname or "", self.url.port
        if self.url.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=self.context)
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)


def problem(status: int, content: bytes) -> ProblemError:
    """The error in an answer's body."""
    try:
        body = json.loads(content)
        return ProblemError(status, body["type"], body["detail"])
    except (ValueError, KeyError, TypeError):
        return ProblemError(
            status, "", f"status {status}: {content[:200].decode(errors='replace')}"
        )
