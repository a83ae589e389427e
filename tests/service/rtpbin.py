"""A camera and a viewer made with GStreamer, whose element rtpbin carries VP8 and RTCP.

Debian's own Python runs this file, because PyGObject is installed there:

    rtpbin.py camera PATTERN PORT    sends to 127.0.0.1 PORT and PORT + 1
    rtpbin.py viewer PORT            receives there

Each prints {"ssrc": its own number}, then a line of JSON for each frame: {"frame": MD5 of the
decoded picture, "key": whether it is a key frame}. The camera also prints {"pli": number of the
frame that it encodes next} for each PLI (RFC 4585) that comes, and for each receiver report
{"report": the reporter's number, "of": the camera's, "highest": sequence number, "lost": packets}.
A line "pli" on the standard input makes the viewer ask for a key frame.

The viewer sends its RTCP to the address from which RTCP comes, because `reprise join` names no
other port for RTCP.
"""

import hashlib
import json
import sys

import gi  # type: ignore[import-not-found]

gi.require_version("Gst", "1.0")
gi.require_version("GstNet", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import (  # type: ignore[import-not-found]  # noqa: E402
    Gio,
    GLib,
    GObject,
    Gst,
    GstNet,
    GstVideo,
)

CAMERA = """
rtpbin name=bin rtp-profile=avpf
videotestsrc is-live=true pattern={pattern}
    ! video/x-raw,format=I420,width=160,height=120,framerate=10/1
    ! vp8enc name=encoder deadline=1 keyframe-max-dist=100000 target-bitrate=200000
    ! tee name=encoded
encoded. ! queue ! rtpvp8pay name=pay mtu=1200 ! bin.send_rtp_sink_0
encoded. ! queue ! vp8dec ! fakesink name=decoded signal-handoffs=true sync=false async=false
bin.send_rtp_src_0 ! udpsink host=127.0.0.1 port={port} sync=false async=false
bin.send_rtcp_src_0 ! udpsink name=to port={next} host=127.0.0.1 sync=false async=false
udpsrc name=from ! bin.recv_rtcp_sink_0
"""
"""The camera makes no key frame by itself except the first."""
VIEWER = """
rtpbin name=bin rtp-profile=avpf
udpsrc address=127.0.0.1 port={port} name=rtp
    caps="application/x-rtp,media=video,clock-rate=90000,encoding-name=VP8,payload=96,rtcp-fb-nack-pli=(boolean)true"
    ! bin.recv_rtp_sink_0
bin. ! rtpvp8depay name=encoder wait-for-keyframe=true request-keyframe=true
    ! vp8dec name=decoder ! fakesink name=decoded signal-handoffs=true sync=false async=false
bin.send_rtcp_src_0 ! udpsink name=to host=127.0.0.1 port=9 sync=false async=false
udpsrc name=from ! bin.recv_rtcp_sink_0
"""
PSFB_PLI = 1
"""The format number of a PLI (RFC 4585, section 6.3.1)."""


def say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Program:
    def __init__(self, pipeline: str, rtcp_port: int) -> None:
        self._pipeline = Gst.parse_launch(pipeline)
        self._is_key: list[bool] = []
        """For each frame that was encoded, or received encoded, whether the frame is a key
        frame."""
        self._n_decoded = 0
        self._named("encoder").get_static_pad("src").add_probe(
            Gst.PadProbeType.BUFFER, self._encoded
        )
        self._named("decoded").connect("handoff", self._decoded)
        # One socket sends and receives RTCP, so that answers to the source address of our RTCP
        # arrive.
        rtcp = Gio.Socket.new(
            Gio.SocketFamily.IPV4, Gio.SocketType.DATAGRAM, Gio.SocketProtocol.UDP
        )
        here = Gio.InetAddress.new_loopback(Gio.SocketFamily.IPV4)
        rtcp.bind(Gio.InetSocketAddress.new(here, rtcp_port), False)
        for name in ("from", "to"):
            self._named(name).set_property("socket", rtcp)
        self._session = self._named("bin").emit("get-internal-session", 0)
        say(ssrc=self._session.props.internal_ssrc)

    def _named(self, name: str) -> "Gst.Element":
        return self._pipeline.get_by_name(name)

    def _encoded(self, _: object, info: "Gst.PadProbeInfo") -> "Gst.PadProbeReturn":
        is_delta = info.get_buffer().has_flags(Gst.BufferFlags.DELTA_UNIT)
        self._is_key.append(not is_delta)
        return Gst.PadProbeReturn.OK

    def _decoded(self, _: object, buffer: "Gst.Buffer", __: object) -> None:
        picture = buffer.extract_dup(0, buffer.get_size())
        say(frame=hashlib.md5(picture).hexdigest(), key=self._is_key[self._n_decoded])
        self._n_decoded += 1

    def watch_reports(self) -> None:
        """For the camera: prints what receivers report."""
        # Without this, the payloader would take another SSRC, and the session would use both.
        self._named("pay").set_property("ssrc", self._session.props.internal_ssrc)
        self._session.connect("on-feedback-rtcp", self._feedback)
        self._session.connect("on-ssrc-active", self._reported)

    def _feedback(self, _: object, kind: int, format_: int, *__: object) -> None:
        # GStreamer calls RTCP's packet types by their numbers: 206 is PSFB.
        if (int(kind), int(format_)) == (206, PSFB_PLI):
            say(pli=len(self._is_key))

    def _reported(self, _: object, source: "GObject.Object") -> None:
        has = source.props.stats.get_value
        if has("have-rb"):
            say(
                report=source.props.ssrc,
                of=has("rb-ssrc"),
                highest=has("rb-exthighestseq"),
                lost=has("rb-packetslost"),
            )

    def answer_reports(self) -> None:
        """For the viewer: makes it send RTCP to the address from which it receives RTCP."""
        self._named("from").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, self._came)

    def _came(self, _: object, info: "Gst.PadProbeInfo") -> "Gst.PadProbeReturn":
        address = GstNet.buffer_get_net_address_meta(info.get_buffer()).addr
        to = self._named("to")
        to.set_property("host", address.get_address().to_string())
        to.set_property("port", address.get_port())
        return Gst.PadProbeReturn.REMOVE

    def _command(self, line: str) -> None:
        if line == "pli":
            event = GstVideo.video_event_new_upstream_force_key_unit(Gst.CLOCK_TIME_NONE, True, 0)
            self._named("decoder").get_static_pad("sink").push_event(event)

    def run(self) -> None:
        loop = GLib.MainLoop()
        bus = self._pipeline.get_bus()
        bus.add_signal_watch()
        bus.connect("message::error", self._failed)

        def read(channel: "GLib.IOChannel", _: object) -> bool:
            line = channel.readline()
            if not line:
                loop.quit()
                return False
            self._command(line.strip())
            return True

        standard_input = GLib.IOChannel.unix_new(0)
        GLib.io_add_watch(standard_input, GLib.PRIORITY_DEFAULT, GLib.IOCondition.IN, read)
        self._pipeline.set_state(Gst.State.PLAYING)
        loop.run()

    def _failed(self, _: object, message: "Gst.Message") -> None:
        error, details = message.parse_error()
        sys.exit(f"{error.message} ({details})")


def main() -> None:
    Gst.init(None)
    match sys.argv[1:]:
        case ["camera", pattern, port]:
            text = CAMERA.format(pattern=pattern, port=port, next=int(port) + 1)
            program = Program(text, 0)
            program.watch_reports()
        case ["viewer", port]:
            program = Program(VIEWER.format(port=port), int(port) + 1)
            program.answer_reports()
        case words:
            sys.exit(f"expected camera PATTERN PORT, or viewer PORT; got {' '.join(words)!r}")
    program.run()


if __name__ == "__main__":
    main()
