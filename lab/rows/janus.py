"""Janus as an SFU of plain RTP, by remote publishers and RTP forwarders of its VideoRoom plugin.

Janus' other plugins do not fit: Streaming receives plain RTP but sends it only to WebRTC peers,
with NoSIP one side is a WebRTC peer, and AudioBridge mixes. Only the VideoRoom receives plain RTP
and sends it to any number of plain receivers: by `add_remote_publisher` a Janus receives a
publisher of another Janus (since 1.1, for cascading), and `rtp_forward` sends copies of any
publisher's stream. The lab's sender takes the place of the other Janus. Its stream must have the
SSRC that Janus gives to a first stream (`lab.sites.RTP_SSRC`), because Janus drops other SSRCs and
packets that are not RTP. A forwarder without `ssrc` and `pt` changes no byte.

Requests go to the VideoRoom over the Admin API (`message_plugin`), by plain HTTP inside the
namespace.
"""

import http.client
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.colours import SAND
from lab.process import POLL_INTERVAL_S, Child, ChildError
from lab.rows.redirects import RedirectedRow
from lab.sites import SFU_IP, Participant, Stream

PROGRAM = "janus"
PLUGIN = "/usr/lib/*/janus/plugins/libjanus_videoroom.so*"
ADMIN_PORT = 7088
ADMIN_SECRET = "reprise"
START_TIMEOUT_S = 120.0
REPLY_TIMEOUT_S = 120.0
UNUSED_PLUGINS = (
    *("audiobridge", "duktape", "echotest", "lua", "nosip", "recordplay"),
    *("sip", "streaming", "textroom", "videocall", "voicemail"),
)
UNUSED_TRANSPORTS = ("mqtt", "nanomsg", "pfunix", "rabbitmq", "websockets")


def _libraries(names: Sequence[str]) -> str:
    return ",".join(f"libjanus_{name}.so" for name in names)


CONFIGURATION = f"""general: {{
    admin_secret = "{ADMIN_SECRET}"
    debug_colors = false
}}
plugins: {{ disable = "{_libraries(UNUSED_PLUGINS)}" }}
transports: {{ disable = "{_libraries(UNUSED_TRANSPORTS)}" }}
"""
HTTP_CONFIGURATION = f"""general: {{ http = true, ip = "127.0.0.1" }}
admin: {{ admin_http = true, admin_ip = "127.0.0.1", admin_port = {ADMIN_PORT} }}
"""
MID = "0"
"""The name of a publisher's first stream."""


class JanusStreaming(RedirectedRow):
    """One Janus process.

    Each stream has a room and a remote publisher; each viewer has an RTP forwarder.
    """

    name = "janus_streaming"
    label = "Janus, RTP forwarders"
    look = (SAND, "*")
    rank = 13
    packages = "janus"
    _admin: http.client.HTTPConnection | None = None

    @classmethod
    def lacks(cls) -> str:
        """Returns what is missing: Janus, its VideoRoom plugin or iptables; empty if nothing."""
        if not any(Path("/").glob(PLUGIN.lstrip("/"))):
            return f"janus: run scripts/install-packages {cls.packages}"
        return cls.lacks_program(PROGRAM, "iptables")

    def start(self) -> None:
        self.site.give_address()
        self._forwarders: dict[int, dict[str, int]] = {}
        configuration = self.folder / "janus.jcfg"
        configuration.write_text(CONFIGURATION)
        (self.folder / "janus.transport.http.jcfg").write_text(HTTP_CONFIGURATION)
        (self.folder / "janus.plugin.videoroom.jcfg").write_text("general: {}\n")
        argv = [PROGRAM, f"--config={configuration}", f"--configs-folder={self.folder}"]
        self.launch(argv, "janus.log")
        self._admin = self._connect(self.child)

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        """Adds a publisher if the stream is new, then stops and adds forwarders."""
        number = stream.number
        if number not in self._forwarders:
            self._publish(stream)
        of_publisher = {"room": number, "publisher_id": number}
        forwarders = self._forwarders[number]
        after = {str(viewer.ip) for viewer in viewers}
        for ip in forwarders.keys() - after:
            self._ask("stop_rtp_forward", **of_publisher, stream_id=forwarders[ip])
            del forwarders[ip]
        new = [
            {"mid": MID, "host": ip, "port": stream.viewer_udp_port}
            for ip in sorted(after - forwarders.keys())
        ]
        if new:
            added = self._ask("rtp_forward", **of_publisher, host=str(SFU_IP), streams=new)
            for forwarder in added["forwarders"]:
                forwarders[forwarder["host"]] = forwarder["stream_id"]

    def stop(self) -> None:
        if self._admin is not None:
            self._admin.close()
        super().stop()

    def _publish(self, stream: Stream) -> None:
        number = stream.number
        media = {"mid": MID, "mindex": 0, "type": "video", "codec": "vp8"}
        self._ask("create", room=number)
        self._ask(
            "add_remote_publisher",
            room=number,
            id=number,
            iface=str(SFU_IP),
            port=self._redirects.port_of_its_own(stream),
            streams=[media],
        )
        self._forwarders[number] = {}

    def _connect(self, server: Child) -> http.client.HTTPConnection:
        """Connects to the Admin API as soon as the server accepts connections."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        admin = http.client.HTTPConnection("127.0.0.1", ADMIN_PORT, REPLY_TIMEOUT_S)
        # A socket stays in the namespace in which it was made, so the client must not open another
        # one later.
        admin.auto_open = 0
        while server.exit_code is None and time.monotonic() < deadline_s:
            try:
                self.site.sfu.call(admin.connect)
            except ConnectionRefusedError:
                time.sleep(POLL_INTERVAL_S)
            else:
                return admin
        raise server.fail("its Admin API did not open")

    def _ask(self, request: str, **keys: object) -> dict[str, Any]:
        server = self.child
        if self._admin is None:
            raise ChildError("Janus was not started")
        message = {
            "janus": "message_plugin",
            "transaction": request,
            "admin_secret": ADMIN_SECRET,
            "plugin": "janus.plugin.videoroom",
            "request": {"request": request, **keys},
        }
        try:
            self._admin.request("POST", "/admin", json.dumps(message))
            reply = json.loads(self._admin.getresponse().read())
        except (OSError, http.client.HTTPException) as error:
            raise server.fail(f"{request}: no answer: {error!r}") from error
        answer = reply.get("response", reply)
        if "error" in answer or "error" in reply:
            raise server.fail(f"{request} {keys}: {answer.get('error', reply)}")
        return dict(answer)
