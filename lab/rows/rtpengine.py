"""Sipwise rtpengine as an SFU, controlled by its protocol ng: publish, subscribe, unsubscribe.

rtpengine forwards in user space here: its kernel module (package rtpengine-kernel-dkms) would have
to be built for the system's kernel, so `table = -1` turns the module off. Codecs pass unchanged and
no participant asks for RTCP of its own, so packets leave as they came. All other settings are
rtpengine's defaults, also its four threads, which reorder a few packets (docs/lab.md).
"""

import json
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address

from lab.colours import OLIVE
from lab.process import Child, ChildError
from lab.rows.redirects import RedirectedRow
from lab.sites import SFU_IP, SFU_UDP_PORT, Participant, Stream

PROGRAM = "rtpengine"
NG_ADDRESS = ("127.0.0.1", 2223)
REPLY_TIMEOUT_S = 5.0
N_TRIES = 3
REPLY_LEN_BYTES_MAX = 65_535
# The first publisher gets the first port of the range, so a single stream needs no redirect. A
# study may pause for longer than a minute, after which rtpengine would by default end a call
# without media.
CONFIGURATION = f"""[rtpengine]
table = -1
interface = {SFU_IP}
listen-ng = {NG_ADDRESS[0]}:{NG_ADDRESS[1]}
port-min = {SFU_UDP_PORT}
port-max = 65535
timeout = 86400
foreground = true
log-stderr = true
no-log-timestamps = true
"""
PUBLISHER = "publisher"


class RtpEngine(RedirectedRow):
    """One daemon, with a call for each stream and a subscription for each viewer."""

    name = "rtpengine"
    label = "rtpengine"
    look = (OLIVE, "h")
    rank = 11
    packages = "rtpengine"
    _control: socket.socket | None = None

    @classmethod
    def lacks(cls) -> str:
        """Returns what is missing: the daemon or iptables; empty if nothing is missing."""
        return cls.lacks_program(PROGRAM, "iptables")

    def start(self) -> None:
        self.site.give_address()
        self._viewers: dict[int, set[Participant]] = {}
        self._n_asked = 0
        file = self.folder / "rtpengine.conf"
        file.write_text(CONFIGURATION)
        argv = [PROGRAM, "--config-file", str(file)]
        self.launch(argv, "rtpengine.log", "INFO: [core] Startup complete")
        self._control = self.site.sfu.call(_control_socket)

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        """Publishes the stream if it is new; unsubscribes former viewers, subscribes new ones."""
        call = {"call-id": f"stream-{stream.number}", "from-tag": PUBLISHER}
        if stream.number not in self._viewers:
            self._publish(stream, call)
        before, after = self._viewers[stream.number], set(viewers)
        for viewer in before - after:
            self._ask("unsubscribe", **call, **{"to-tag": str(viewer.ip)})
            before.remove(viewer)
        for viewer in after - before:
            of_viewer = {**call, "to-tag": str(viewer.ip)}
            sdp = _sdp(viewer.ip, stream.viewer_udp_port, "recvonly")
            self._ask("subscribe request", **of_viewer)
            self._ask("subscribe answer", **of_viewer, sdp=sdp)
            before.add(viewer)

    def stop(self) -> None:
        """Ends the daemon, and with it all calls."""
        if self._control is not None:
            self._control.close()
        super().stop()

    def _publish(self, stream: Stream, call: dict[str, str]) -> None:
        sdp = _sdp(stream.sender.ip, stream.udp_port, "sendonly")
        answer = self._ask("publish", **call, sdp=sdp, codec={"accept": ["any"]})
        media = next(line for line in str(answer["sdp"]).splitlines() if line.startswith("m="))
        udp_port = int(media.split()[1])
        if udp_port != stream.udp_port:
            self._redirects.add(stream, udp_port)
        self._viewers[stream.number] = set()

    def _ask(self, command: str, **keys: object) -> dict[str, object]:
        """Makes a request in the protocol ng.

        It consists of a cookie, which the reply repeats, a space, and JSON.
        """
        daemon = self.child
        if self._control is None:
            raise ChildError("rtpengine was not started")
        self._n_asked += 1
        cookie = f"{self._n_asked} "
        request = cookie + json.dumps({"command": command, **keys})
        reply = json.loads(self._reply(daemon, self._control, request, cookie))
        if reply["result"] not in ("ok", "pong"):
            raise daemon.fail(f"{command}: {reply.get('error-reason', reply)}")
        return dict(reply)

    def _reply(self, daemon: Child, control: socket.socket, request: str, cookie: str) -> str:
        """Sends the request, and repeats it if no reply comes.

        rtpengine recognises a cookie that it has already answered.
        """
        for _ in range(N_TRIES):
            try:
                control.send(request.encode())
                while True:
                    reply = control.recv(REPLY_LEN_BYTES_MAX).decode()
                    if reply.startswith(cookie):
                        return reply.removeprefix(cookie)
            except TimeoutError:
                continue
            except OSError as error:
                raise daemon.fail(f"its control port: {error}") from error
        raise daemon.fail(f"no reply to {request!r} within {N_TRIES * REPLY_TIMEOUT_S} s")


def _control_socket() -> socket.socket:
    control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    control.settimeout(REPLY_TIMEOUT_S)
    control.connect(NG_ADDRESS)
    return control


def _sdp(ip: IPv4Address, udp_port: int, direction: str) -> str:
    """The SDP of a participant that sends or receives one stream of RTP payload type 96."""
    lines = (
        "v=0",
        f"o=- 1 1 IN IP4 {ip}",
        "s=-",
        f"c=IN IP4 {ip}",
        "t=0 0",
        f"m=video {udp_port} RTP/AVP 96",
        "a=rtpmap:96 H264/90000",
        f"a={direction}",
    )
    return "".join(f"{line}\r\n" for line in lines)
