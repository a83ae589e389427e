"""A JACK client: plays known sounds, and records the received sound, sample by sample.

    jack_sounds.py FOLDER N_BLOCKS NAME...

For each name this client connects a port of its own to NAME:send_1, and NAME:receive_1 to another
port of its own. A block has the samples of one period of JACK; the function `sound` makes the
blocks that are played. The client ends when each recording has N_BLOCKS new blocks (see `n_new`),
or after a limit, and then writes FOLDER/NAME.f32.
"""

import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lab.baselines.jack_client import LIMIT_S, JackClient

BLOCK = 128
"""The samples of a period."""
N_BLOCKS_MAX = int(LIMIT_S * 48_000 / BLOCK)


def sound(which: int) -> npt.NDArray[np.int16]:
    """Makes noise in which no block comes twice: N_BLOCKS_MAX blocks of 16-bit samples."""
    chance = np.random.default_rng(which)
    return chance.integers(-32_000, 32_000, (N_BLOCKS_MAX, BLOCK), dtype=np.int16)


def n_new(blocks: npt.NDArray[np.float32]) -> int:
    """How many blocks are neither silent nor equal to the block before them."""
    return int((blocks[1:].any(axis=1) & (blocks[1:] != blocks[:-1]).any(axis=1)).sum())


def main(folder: Path, n_blocks: int, names: list[str]) -> None:
    with JackClient("sounds") as jack:
        outputs = [jack.output(f"to-{name}") for name in names]
        inputs = [jack.input(f"from-{name}") for name in names]
        # JACK's samples are floating-point, which has room for 16 bits.
        played = [sound(which).astype(np.float32) / 32_768 for which in range(len(names))]
        recorded = [np.zeros((N_BLOCKS_MAX, BLOCK), np.float32) for _ in names]
        at = 0

        def process(n_samples: int) -> None:
            nonlocal at
            if n_samples != BLOCK or at == N_BLOCKS_MAX:
                return
            for which, (output, into) in enumerate(zip(outputs, inputs, strict=True)):
                output.samples(n_samples)[:] = played[which][at]
                recorded[which][at] = into.samples(n_samples)
            at += 1

        jack.start(process)
        for name, output, into in zip(names, outputs, inputs, strict=True):
            # JackTrip makes its ports when it has started, or when its peer answers.
            jack.connect(output.name, f"{name}:send_1".encode())
            jack.connect(f"{name}:receive_1".encode(), into.name)
        until_s = time.monotonic() + LIMIT_S
        while time.monotonic() < until_s and at < N_BLOCKS_MAX:
            if all(n_new(one[:at]) >= n_blocks for one in recorded):
                break
            time.sleep(0.2)
    for name, one in zip(names, recorded, strict=True):
        one[:at].tofile(folder / f"{name}.f32")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
