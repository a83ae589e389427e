"""A JACK client that clicks at a talker's input and measures when clicks come out at listeners.

    python -m lab.baselines.jack_clicks N_CLICKS TALKER LISTENER...

TALKER and LISTENER are names of JACK ports. For each click the program prints a line with the delay
at each listener, in samples and in the order of the listeners; a -1 says that the click did not
reach the listener. Times are frame times of the JACK server. They go on when the server skips a
cycle, so a skipped cycle counts as delay.
"""

import random
import sys
import time

import numpy as np

from lab.baselines.jack_client import LIMIT_S, JackClient, Samples

CLICK_SAMPLES = 48
LOUD = 0.2
"""A click begins with the first sample above this amplitude. The ringing of Opus around a click
stays below this amplitude."""
SPACING_SAMPLES = 9_600
"""The time between two clicks, 200 ms. It is also the longest delay that can be measured."""


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

    def play(self, now: int, out: Samples) -> None:
        """Fills the samples `out` of a period that begins at the time `now`, in samples."""
        out[:] = 0
        if not self.is_on or now < self._next or self.is_done:
            return
        at = self._chance.randrange(len(out) - CLICK_SAMPLES)
        out[at : at + CLICK_SAMPLES] = 0.9
        self.sent.append(now + at)
        self._next = now + SPACING_SAMPLES

    def hear(self, now: int, listener: int, heard: Samples) -> None:
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
    clicks = Clicks(n_clicks, len(listeners))
    with JackClient("clicks") as jack:
        mouth = jack.output("mouth")
        ears = [jack.input(f"ear-{number}") for number in range(len(listeners))]

        def process(n_samples: int) -> None:
            now = jack.now()
            clicks.play(now, mouth.samples(n_samples))
            for number, ear in enumerate(ears):
                clicks.hear(now, number, ear.samples(n_samples))

        jack.start(process)
        jack.connect(mouth.name, talker.encode())
        for listener, ear in zip(listeners, ears, strict=True):
            jack.connect(listener.encode(), ear.name)
        # During this time the mixers' and clients' buffers settle.
        time.sleep(3)
        clicks.is_on = True
        until_s = time.monotonic() + LIMIT_S + n_clicks * SPACING_SAMPLES / 48_000
        while not clicks.is_done:
            if time.monotonic() > until_s:
                raise SystemExit(f"clicks: {len(clicks.sent)} of {n_clicks} in time")
            time.sleep(0.1)
    for delays in clicks.came:
        print(*delays)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
