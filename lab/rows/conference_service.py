"""The conference service with `p4/conference.p4` as an SFU; participants join as real hosts do."""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Sequence

from lab.colours import VERMILION
from lab.controller import REPRISE
from lab.joining import Client, Leg, ProblemError, sign_in
from lab.netns import Namespace
from lab.process import Child, ChildError
from lab.rows.p4 import SwitchRow
from lab.rows.row import TIMEOUT_S
from lab.sites import LOAD_CPU, SFU_IP, SFU_UDP_PORT, Participant, Stream, on_cpu
from lab.switch import GRPC_ADDRESS, require_build

HTTP_ADDRESS = "127.0.0.1:8080"
"""The address of the service's HTTP server, at the loopback of the SFU's namespace."""
CONFERENCE, TRACK, LEG = "lab", "sound", "socket"
MAX_KBPS = 10_000
"""The bitrate that a participant is granted.

It is over ten times what a musician of the study `musicians` sends, so that the meters of
`p4/conference.p4` drop nothing.
"""
NO_LIMITS = """[limits]
address = { per_second = 100000, burst = 100000 }
participant = { per_second = 100000, burst = 100000 }
"""


class ConferenceService(SwitchRow):
    """A switch and a service. Each participant has one socket, by which it sends and receives.

    The hosts are addresses without a kernel, so the lab itself makes the frames that contain the
    hosts' hellos. After these hellos the hosts send nothing except their streams, which a long
    `silence_s` allows.
    """

    name = "p4_conference"
    label = "P4, conference service"
    source = "Reprise"
    look = (VERMILION, "D")
    rank = 3
    topologies = ("one_port", "port_per_host")
    options = ("--log-level", "info")
    _service: Child | None = None

    def start(self) -> None:
        require_build(REPRISE)
        self._viewers: dict[int, tuple[Stream, frozenset[Participant]]] = {}
        self._signed_in: dict[Participant, Leg] = {}
        self._clients: dict[str, Client] = {}
        super().start()

    def set_up(self) -> None:
        """Starts the service, which sets the switch's program and addresses."""
        self._secret = secrets.token_hex(32)
        (self.folder / "secret").write_text(self._secret)
        config = self.folder / "reprise.toml"
        config.write_text(self._configuration())
        argv = [str(REPRISE), "serve", "--config", str(config)]
        self._service = self.site.sfu.start(on_cpu(LOAD_CPU, argv), self.folder / "service.log")
        self._administrator = until_ready(self.site.sfu, self._service, self._secret)
        if self.variant.engine == "kernel":
            self._wait_until_in_kernel()

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        self.subscribe_all([(stream, viewers)])

    def subscribe_all(self, subscriptions: Sequence[tuple[Stream, Sequence[Participant]]]) -> None:
        """Makes the changes that these subscriptions need.

        Participants who are not in the conference yet join, publish, and sign in their sockets by
        hellos.
        """
        if self.child.exit_code is not None:
            raise self.child.fail(f"exit code {self.child.exit_code}")
        wanted = dict(self._viewers)
        for stream, viewers in subscriptions:
            if stream.udp_port != SFU_UDP_PORT:
                raise ValueError(
                    f"{self.name}: expected stream {stream.number} to be sent to UDP port "
                    f"{SFU_UDP_PORT}, found {stream.udp_port}"
                )
            wanted[stream.number] = (stream, frozenset(viewers))
        try:
            legs = self.site.sfu.call(lambda: self._change(wanted))
        except (OSError, ProblemError) as error:
            raise self.service.fail(f"a request failed: {error}") from error
        self._viewers = {number: one for number, one in wanted.items() if one[1]}
        new = {one: leg for one, leg in legs.items() if self._signed_in.get(one) != leg}
        try:
            sign_in(self.site, new)
        except ChildError as error:
            raise self.service.fail(str(error)) from error
        self._signed_in |= new

    def stop(self) -> None:
        if self._service is not None:
            self._service.stop()
        super().stop()
        # A study keeps the folder, which must not contain keys.
        for name in ("secret", "store"):
            (self.folder / name).unlink(missing_ok=True)

    @property
    def service(self) -> Child:
        """The service's process; raises `ChildError` if it was not started."""
        if self._service is None:
            raise ChildError(f"{self.name} was not started")
        return self._service

    def _configuration(self) -> str:
        addresses = "".join(
            f'    {{ port = {link.port}, ip = "{SFU_IP}", mac = "{self.sfu_mac(link)}" }},\n'
            for link in self.site.links
        )
        return f"""listen = "{HTTP_ADDRESS}"
store = "{self.folder / "store"}"
secrets = ["{self.folder / "secret"}"]
silence_s = 86400
gone_s = 0

[switch]
name = "lab"
p4runtime = "{GRPC_ADDRESS}"
addresses = [
{addresses}]

{NO_LIMITS}"""

    def _wait_until_in_kernel(self) -> None:
        """Waits until the kernel forwards.

        Until then, for some seconds, the native engine forwards.
        """
        for line in self.child.lines(TIMEOUT_S):
            if 'event="offload_forwards"' in line:
                return
            if 'event="offload_refused"' in line or 'event="offload_failed"' in line:
                break
        raise self.child.fail("expected the kernel to forward the program")

    def _change(
        self, wanted: dict[int, tuple[Stream, frozenset[Participant]]]
    ) -> dict[Participant, Leg]:
        """Makes the requests that lead to `wanted`; returns the changed legs.

        A leg is the connection of a participant's UDP socket to the service.
        """
        if not any(viewers for _, viewers in wanted.values()):
            self._administrator.delete_conference(CONFERENCE)
            self._administrator.put_conference(CONFERENCE)
            self._clients.clear()
            self._signed_in.clear()
            return {}
        legs: dict[Participant, Leg] = {}
        for stream, viewers in wanted.values():
            sender = stream.sender
            before = self._viewers.get(stream.number, (stream, frozenset[Participant]()))[1]
            if viewers and not before:
                client = self.join(_name(sender))
                quality = {"name": "one", "max_kbps": MAX_KBPS, "leg": LEG}
                there = client.publish(
                    CONFERENCE, _name(sender), TRACK, kind="audio", qualities=[quality]
                )
                legs[sender] = _leg_of(there)
            for viewer in sorted(before - viewers, key=_number):
                client = self.join(_name(viewer))
                client.unsubscribe(CONFERENCE, _name(viewer), _name(sender), TRACK)
            for viewer in sorted(viewers - before, key=_number):
                client = self.join(_name(viewer))
                there = client.subscribe(CONFERENCE, _name(viewer), _name(sender), TRACK, leg=LEG)
                legs[viewer] = _leg_of(there)
            if before and not viewers:
                self.join(_name(sender)).unpublish(CONFERENCE, _name(sender), TRACK)
        return legs

    def join(self, name: str) -> Client:
        """Returns a participant's client, after the participant has joined the conference.

        Must be called in the SFU's namespace.
        """
        if (client := self._clients.get(name)) is None:
            grants = {"publish": ["audio"], "max_kbps": MAX_KBPS, "subscribe": True}
            client = _client(self._secret, grants, sub=name, conference=CONFERENCE)
            client.join(CONFERENCE, name)
            self._clients[name] = client
        return client


def until_ready(namespace: Namespace, service: Child, secret: str) -> Client:
    """Creates the conference as soon as the service can; returns an administrator's client."""
    administrator = _client(secret, {"administer": True})
    until_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            namespace.call(lambda: administrator.put_conference(CONFERENCE))
            return administrator
        except (OSError, ProblemError) as error:
            if service.exit_code is not None:
                raise service.fail(f"exit code {service.exit_code}") from error
            if time.monotonic() > until_s:
                raise service.fail(f"not ready within {TIMEOUT_S:g} s: {error}") from error
            time.sleep(0.05)


def _client(secret: str, grants: dict[str, object], **claims: object) -> Client:
    """Makes a client with a token (RFC 7519, HS256) that is valid for a day."""
    claims |= {"exp": int(time.time()) + 86_400, "grants": grants}
    words = ({"alg": "HS256", "typ": "JWT"}, claims)
    text = ".".join(_base64(json.dumps(one).encode()) for one in words)
    signature = hmac.digest(secret.encode(), text.encode(), hashlib.sha256)
    return Client(f"http://{HTTP_ADDRESS}", f"{text}.{_base64(signature)}")


def _name(participant: Participant) -> str:
    return f"p{participant.number}"


def _number(participant: Participant) -> int:
    return participant.number


def _leg_of(there: dict[str, object]) -> Leg:
    legs = there["legs"]
    assert isinstance(legs, dict)
    return Leg(legs[LEG]["number"], bytes.fromhex(legs[LEG]["key"]))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
