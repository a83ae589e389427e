"""A switch with a real port, the conference service, and hosts that run `reprise join`.

The module `network` shows how they are connected.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from reprise_conference import Client, ProblemError

from lab.controller import REPRISE
from lab.process import Child
from lab.switch import LOSE_NOTHING, SWITCH, require_build
from tests.service.network import (
    INTERFACE,
    SERVICE_IPV4,
    SERVICE_IPV6,
    SWITCH_IPV4,
    SWITCH_IPV6,
    SWITCH_MAC,
    HostsAndSwitch,
    Place,
)
from tests.service.running import LIMIT_S, SECRET, participant_token, token

CONFERENCE = "c"
HTTP_PORT = 8080
IPV4_FIRST = (SWITCH_IPV4, SWITCH_IPV6)
Found = TypeVar("Found")


def wait(found: Callable[[], Found | None], said: Callable[[], str]) -> Found:
    """Waits until `found` returns something, and returns it."""
    until = time.monotonic() + LIMIT_S
    while not (what := found()):
        assert time.monotonic() < until, said()
        time.sleep(0.02)
    return what


class Host:
    """A participant's host: a namespace, and a folder for what its programs write."""

    def __init__(self, conference: "Conference", name: str) -> None:
        self.conference = conference
        self.name = name
        self.namespace = conference.network[name]
        self.folder = conference.folder / name
        self.folder.mkdir()
        self._join: Child | None = None

    @property
    def _service(self) -> str:
        place = self.conference.network.places[self.name]
        return f"http://{SERVICE_IPV4 if place.ipv4 else f'[{SERVICE_IPV6}]'}:{HTTP_PORT}"

    def client(self) -> Client:
        """A client of the service for the participant, for use in the host's namespace."""
        return Client(self._service, participant_token(CONFERENCE, self.name))

    def start(self, argv: Sequence[object], log: str) -> Child:
        """Starts a program in the host's namespace. It is killed when the conference ends."""
        child = self.namespace.start([str(word) for word in argv], self.folder / f"{log}.log")
        # The program is killed, because ffmpeg does not look at other signals while it waits for a
        # packet.
        self.conference.open.callback(child.kill)
        return child

    def join(
        self,
        *,
        publish: dict[str, Path] | None = None,
        datagrams: str = "",
        receive: Sequence[str] = (),
    ) -> None:
        """Joins with `reprise join`; returns when all tracks of `publish` are published.

        `datagrams` is the name of a track of datagrams to publish. The host receives only the
        tracks in `receive`.
        """
        words: list[object] = [REPRISE, "join", self._service]
        words += ["--token", participant_token(CONFERENCE, self.name), "--sdp", self.folder]
        for track, sdp in (publish or {}).items():
            words += ["--publish", f"{track}={sdp}"]
        if datagrams:
            words += ["--datagrams", datagrams]
        for path in receive:
            words += ["--receive", path]
        self._join = self.start([*words, *([] if receive else ["--receive-nothing"])], "join")
        for track in publish or {}:
            self._join.wait_for_line(f"publishes {track}:", LIMIT_S)

    def received(self, path: str) -> Path:
        """Waits until the host receives a track; returns the track's session description."""
        return Path(self.joins_line(f"receives {path} on").rpartition(": ")[2])

    def datagrams_port(self, path: str) -> int:
        """Waits until the host receives a track of datagrams; returns the port for its program.

        The host publishes what is sent to the next port.
        """
        return int(self.joins_line(f"receives {path} on").split()[5])

    def joins_line(self, text: str) -> str:
        """Waits for a line of the host's `reprise join` that begins with this text; returns it."""
        assert self._join is not None
        return self._join.wait_for_line(text, LIMIT_S)

    def has_left(self) -> bool:
        """Whether the host's `reprise join` has ended by itself."""
        assert self._join is not None
        return self._join.exit_code is not None

    def leave(self) -> None:
        """Ends `reprise join` as Ctrl-C does."""
        assert self._join is not None
        self._join.interrupt()
        self._join.expect_success(LIMIT_S)


class Conference:
    """The network with the switch, the service and the hosts, as a context manager.

    `media` are the switch's addresses, as the service announces them.
    """

    def __init__(
        self, folder: Path, places: Sequence[Place], media: Sequence[str] = IPV4_FIRST
    ) -> None:
        require_build(SWITCH, REPRISE)
        self.folder = folder
        self.network = HostsAndSwitch(places)
        self.open = contextlib.ExitStack()
        self._media = media
        self._socket = folder / "switch.sock"

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as made:
            made.enter_context(self.network)
            made.enter_context(self.open)
            self._start_switch()
            self._start_service()
            self._ends = made.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def _start_switch(self) -> None:
        argv = [str(SWITCH), "-i", f"1@{INTERFACE}", "--grpc", f"unix:{self._socket}"]
        argv += LOSE_NOTHING
        log = self.folder / "switch.log"
        self.switch = self.open.enter_context(self.network["switch"].start(argv, log))
        self.switch.wait_for_line("ready:", LIMIT_S)

    def _start_service(self) -> None:
        (self.folder / "secret").write_text(SECRET)
        addresses = ", ".join(
            f'{{ port = 1, ip = "{address}", mac = "{SWITCH_MAC}" }}' for address in self._media
        )
        config = self.folder / "reprise.toml"
        config.write_text(
            f"""
listen = "[::]:{HTTP_PORT}"
store = "{self.folder / "store"}"
secrets = ["{self.folder / "secret"}"]

[switch]
name = "s1"
p4runtime = "unix:{self._socket}"
addresses = [{addresses}]
"""
        )
        argv = [str(REPRISE), "serve", "--config", str(config)]
        log = self.folder / "service.log"
        self.service = self.open.enter_context(self.network["service"].start(argv, log))
        self.administer(lambda client: client.put_conference(CONFERENCE))

    @contextlib.contextmanager
    def service_away(self) -> Iterator[None]:
        """Kills the service, and starts it again at the end of the block."""
        self.service.kill()
        yield
        self._start_service()

    def administer(self, request: Callable[[Client], Found]) -> Found:
        """Repeats an administrator's request until the service answers; returns the answer."""
        client = Client(f"http://127.0.0.1:{HTTP_PORT}", token(grants={"administer": True}))

        def answer() -> list[Found]:
            with contextlib.suppress(OSError, ProblemError):
                return [self.network["service"].call(lambda: request(client))]
            return []

        [answered] = wait(answer, self.service.log_text)
        return answered

    def drops(self) -> str:
        """What the switch has dropped, by reason: for the message of a test that lacks packets."""
        return json.dumps(self.administer(lambda client: client.request("GET", ["switch"])))

    def subscriptions(self) -> dict[str, set[str]]:
        """Returns the tracks that each participant receives, according to the service."""
        there: dict[str, Any] = self.administer(lambda client: client.conference(CONFERENCE))
        return {
            name: {
                f"{one['path']['participant']}/{one['path']['track']}"
                for one in participant["subscriptions"]
            }
            for name, participant in there["participants"].items()
        }


def hosts(conference: Conference) -> list[Host]:
    """Makes a host at each place of the conference's network."""
    return [Host(conference, name) for name in conference.network.places]
