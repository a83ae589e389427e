"""An SFU of GStreamer's elements `udpsrc ! multiudpsink`.

Debian's own Python runs this file, because PyGObject is installed there.

The sink's action signals `add` and `remove` add and remove viewers. Each line of standard input is
the new state of one stream, `{"udp_port": 5004, "viewers": [["10.1.0.2", 6000]]}`. After the nth
line the program prints `done n`. Python only controls: each stream has a thread of GStreamer's,
which receives and sends. Two options differ from the elements' defaults: `sync=false`, since a sink
that waits for the clock delays each packet by its `processing-deadline`, 20 ms, and `async=false`,
so that the sink does not wait for a first packet before it starts.
"""

import json
import os
import sys

import gi  # type: ignore[import-not-found]

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # type: ignore[import-not-found]  # noqa: E402


class Stream:
    def __init__(self, ip: str, udp_port: int) -> None:
        self._viewers: set[tuple[str, int]] = set()
        self._pipeline = Gst.parse_launch(
            f"udpsrc address={ip} port={udp_port} ! "
            "multiudpsink name=viewers sync=false async=false"
        )
        self._sink = self._pipeline.get_by_name("viewers")
        self._pipeline.get_bus().set_sync_handler(end_at_error)
        self._pipeline.set_state(Gst.State.PLAYING)
        # A live source has nothing to preroll: when this call returns, the pipeline plays or has
        # failed.
        change, _, _ = self._pipeline.get_state(Gst.CLOCK_TIME_NONE)
        if change == Gst.StateChangeReturn.FAILURE:
            sys.exit(f"udpsrc address={ip} port={udp_port} did not start")

    def set_viewers(self, viewers: set[tuple[str, int]]) -> None:
        for ip, udp_port in self._viewers - viewers:
            self._sink.emit("remove", ip, udp_port)
        for ip, udp_port in viewers - self._viewers:
            self._sink.emit("add", ip, udp_port)
        self._viewers = viewers


def end_at_error(_bus: object, message: "Gst.Message") -> "Gst.BusSyncReply":
    """Ends the process at an error.

    The thread that posts the message calls this function, so the process ends even while the main
    thread waits for input.
    """
    if message.type == Gst.MessageType.ERROR:
        error, details = message.parse_error()
        print(f"{error.message} ({details})", file=sys.stderr, flush=True)
        os._exit(1)
    return Gst.BusSyncReply.DROP


def main() -> None:
    Gst.init(None)
    ip = sys.argv[1]
    streams: dict[int, Stream] = {}
    print(f"ready: {Gst.version_string()}", flush=True)
    for number, line in enumerate(sys.stdin, 1):
        told = json.loads(line)
        udp_port = told["udp_port"]
        if udp_port not in streams:
            streams[udp_port] = Stream(ip, udp_port)
        streams[udp_port].set_viewers({(ip, port) for ip, port in told["viewers"]})
        print(f"done {number}", flush=True)


if __name__ == "__main__":
    main()
