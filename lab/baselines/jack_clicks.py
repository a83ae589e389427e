"""A JACK client: clicks at a talker's input, and says when each click comes out at listeners.

    python -m lab.baselines.jack_clicks N_CLICKS TALKER LISTENER...

TALKER and LISTENER are names of JACK ports. For each click it prints a line: the delay at each
listener in samples, in order, -1 where it did not come. Times are those of JACK's server, so that a
cycle which it skips counts.
"""

import ctypes
import random
import sys
import time

import numpy as np

CLICK_SAMPLES = 48
LOUD = 0.2
"""What begins a click: Opus rings before and behind one, but not so loud."""
SPACING_SAMPLES = 9_600
"""Between clicks, and the longest delay: 200 ms."""
LIMIT_S = 120.0
OUTPUT, INPUT = 2, 1
AUDIO = b"32 bit float mono audio"
PROCESS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)


class Clicks:
    def __init__(self, n_clicks: int, n_listeners: int) -> None:
        self.sent: list[int] = []
        self.came: list[list[int]] = [[-1] * n_listeners for _ in range(n_clicks)]
        self._n_clicks = n_clicks
        self._next = 0
        self._chance = random.Random(1)
        self.is_on = False

    @property
    def is_done(self) -> bool:
        return len(self.sent) > self._n_clicks

    def play(self, now: int, out: "np.ndarray[tuple[int], np.dtype[np.float32]]") -> None:
        """Fills a period that begins at a time, in samples."""
        out[:] = 0
        if not self.is_on or now < self._next or self.is_done:
            return
        at = self._chance.randrange(len(out) - CLICK_SAMPLES)
        out[at : at + CLICK_SAMPLES] = 0.9
        self.sent.append(now + at)
        self._next = now + SPACING_SAMPLES

    def hear(
        self, now: int, listener: int, heard: "np.ndarray[tuple[int], np.dtype[np.float32]]"
    ) -> None:
        loud = np.abs(heard) > LOUD
        if not loud.any() or not self.sent:
            return
        at = now + int(loud.argmax())
        click = len(self.sent) - 1
        if self.sent[click] > at:
            click -= 1
        if 0 <= click < self._n_clicks and self.came[click][listener] < 0:
            self.came[click][listener] = at - self.sent[click]


def main(n_clicks: int, talker: str, listeners: list[str]) -> None:
    jack = ctypes.CDLL("libjack.so.0")
    for function in ("jack_client_open", "jack_port_register", "jack_port_get_buffer"):
        getattr(jack, function).restype = ctypes.c_void_p
    jack.jack_port_name.restype = ctypes.c_char_p
    jack.jack_last_frame_time.restype = ctypes.c_uint32
    # JackNoStartServer.
    client = ctypes.c_void_p(jack.jack_client_open(b"clicks", 1, None))
    if not client:
        raise SystemExit("jack_clicks: expected a JACK server, found none")

    def port(name: str, kind: int) -> ctypes.c_void_p:
        size = ctypes.c_ulong(0)
        made = jack.jack_port_register(client, name.encode(), AUDIO, ctypes.c_ulong(kind), size)
        return ctypes.c_void_p(made)

    mouth = port("mouth", OUTPUT)
    ears = [port(f"ear-{number}", INPUT) for number in range(len(listeners))]
    clicks = Clicks(n_clicks, len(listeners))

    def process(n_frames: int, _: object) -> int:
        def samples(of: ctypes.c_void_p) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
            at = jack.jack_port_get_buffer(of, n_frames)
            return np.ctypeslib.as_array((ctypes.c_float * n_frames).from_address(at))

        now = jack.jack_last_frame_time(client)
        clicks.play(now, samples(mouth))
        for number, ear in enumerate(ears):
            clicks.hear(now, number, samples(ear))
        return 0

    callback = PROCESS(process)
    jack.jack_set_process_callback(client, callback, None)
    if jack.jack_activate(client) != 0:
        raise SystemExit("jack_clicks: JACK does not let it take part")
    until_s = time.monotonic() + LIMIT_S
    pairs = [(jack.jack_port_name(mouth), talker.encode())]
    pairs += [
        (one.encode(), jack.jack_port_name(ear)) for one, ear in zip(listeners, ears, strict=True)
    ]
    for source, to in pairs:
        while jack.jack_connect(client, source, to) != 0:
            if time.monotonic() > until_s:
                raise SystemExit(f"jack_clicks: no ports {source!r} and {to!r}")
            time.sleep(0.05)
    # The mixers' and clients' buffers settle.
    time.sleep(3)
    clicks.is_on = True
    until_s = time.monotonic() + LIMIT_S + n_clicks * SPACING_SAMPLES / 48_000
    while not clicks.is_done:
        if time.monotonic() > until_s:
            raise SystemExit(f"jack_clicks: {len(clicks.sent)} of {n_clicks} clicks in time")
        time.sleep(0.1)
    jack.jack_deactivate(client)
    jack.jack_client_close(client)
    for delays in clicks.came:
        print(*delays)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
