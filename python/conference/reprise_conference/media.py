"""A UDP socket that is signed in to a leg (a participant's connection for media)."""

import socket
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from reprise_conference.hello import LEN, Received, SigningIn, is_hello

_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _DO = 10, 23, 2
"""Constants of Linux (ip(7), ipv6(7)), for which Python has no names."""


def _forbid_splitting(udp: socket.socket) -> None:
    """Forbids IP fragmentation, because the switch drops fragments.

    A packet that is too large for the path to the switch is then not sent.
    """
    if sys.platform != "linux":
        return
    if udp.family == socket.AF_INET6:
        udp.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _DO)
    else:
        udp.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _DO)


class NotSignedInError(TimeoutError):
    """The service did not sign the socket in within the time limit."""


class MediaSocket:
    """A UDP socket for one leg. It signs in by itself, and again if switch or service restarts.

    `leg` is a leg as the service describes it: `participant["legs"][NAME]`. Hellos are sent and
    their answers are read inside `receive`, so one thread has to call `receive` all the time.
    Another thread may call `send`.
    """

    def __init__(self, leg: Mapping[str, Any], local: tuple[str, int] | None = None) -> None:
        self._addresses = [(one["address"], one["port"]) for one in leg["media"]["addresses"]]
        self._local = local
        self._socket = self._connected()
        self._was_signed_in = False
        self._signing_in = SigningIn(leg["number"], bytes.fromhex(leg["key"]))

    def _connected(self) -> socket.socket:
        """Returns a socket, connected to the first address to which this host has a route."""
        failed = OSError("the service gave no address of the switch")
        for switch in self._addresses:
            family = socket.AF_INET6 if ":" in switch[0] else socket.AF_INET
            found = socket.socket(family, socket.SOCK_DGRAM)
            try:
                _forbid_splitting(found)
                if self._local is not None:
                    found.bind(self._local)
                # The socket is connected, so that the kernel drops datagrams that come from
                # elsewhere.
                found.connect(switch)
            except OSError as error:
                found.close()
                failed = error
            else:
                return found
        raise failed

    @property
    def is_signed_in(self) -> bool:
        return self._signing_in.is_signed_in

    @property
    def local_address(self) -> tuple[str, int]:
        host, port = self._socket.getsockname()[:2]
        return host, port

    def fileno(self) -> int:
        """Returns the descriptor for select: readable when `receive` has something to read."""
        return self._socket.fileno()

    def sign_in(self, timeout_s: float = 5.0) -> None:
        """Waits until the socket is signed in."""
        until = time.monotonic() + timeout_s
        while not self.is_signed_in:
            left_s = until - time.monotonic()
            if left_s <= 0:
                host, port = self._socket.getpeername()[:2]
                raise NotSignedInError(
                    f"no welcome from {host} port {port} (UDP) within {timeout_s} s: is the way "
                    "there free, and does the leg still exist?"
                )
            self.receive(left_s)

    def send(self, packet: bytes) -> None:
        """Sends a packet of the leg's track. Raises OSError (EMSGSIZE) if it is too large."""
        self._socket.send(packet)

    def receive(self, timeout_s: float) -> bytes | None:
        """Returns the next packet of the leg's subscriptions; None if none comes in time.

        Returns early, with None, when the socket has just been signed in.
        """
        until = time.monotonic() + timeout_s
        while True:
            now = time.monotonic()
            hello = self._signing_in.hello(now, time.time_ns() // 1_000_000)
            if hello is not None:
                self._try_send(hello)
            if now >= until:
                return None
            self._socket.settimeout(max(0.001, min(until, self._signing_in.next_s) - now))
            try:
                data = self._socket.recv(65_536)
            except TimeoutError:
                continue
            except ConnectionRefusedError:
                # Nothing listens at the switch's address now. The loop keeps sending hellos.
                time.sleep(min(0.05, max(0.0, until - time.monotonic())))
                continue
            if len(data) != LEN:
                return data
            match self._signing_in.receive(data, time.monotonic()):
                case Received.OTHER:
                    # An answer to an earlier hello may come late.
                    if not is_hello(data):
                        return data
                case Received.SIGNED_IN:
                    return None

    def _try_send(self, hello: bytes) -> None:
        is_lost = self._was_signed_in and not self.is_signed_in
        self._was_signed_in = self.is_signed_in
        try:
            self._socket.send(hello)
        except ConnectionRefusedError:
            # Nobody listens: the next hello is due soon.
            pass
        except OSError:
            is_lost = True
        # If the caller has chosen the socket's own address, the socket keeps this address.
        if is_lost and self._local is None:
            self._find_way()

    def _find_way(self) -> None:
        """Replaces the socket by a new one, which is connected again.

        A connected socket keeps its own address, even if this host has another address now.
        """
        try:
            found = self._connected()
        except OSError:
            # There is no route to the switch now; the next hello is due soon.
            return
        old, self._socket = self._socket, found
        old.close()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
