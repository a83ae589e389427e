"""A JACK client: plays known sounds, and records what comes, sample by sample.

    jack_sounds.py FOLDER N_BLOCKS NAME...

For each name it connects its port to NAME:send_1 and NAME:receive_1 to its port. A block is a
period of JACK: `sound` says what is in it. It ends when each recording has N_BLOCKS new blocks, or
after a limit, and then writes FOLDER/NAME.f32.
"""

import ctypes
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

BLOCK = 128
"""The samples of a period."""
LIMIT_S = 120.0
N_BLOCKS_MAX = int(LIMIT_S * 48_000 / BLOCK)
OUTPUT, INPUT = 2, 1
AUDIO = b"32 bit float mono audio"
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)


def sound(which: int) -> npt.NDArray[np.int16]:
    """Noise without a block that comes twice: N_BLOCKS_MAX blocks of 16 bits a sample."""
    chance = np.random.default_rng(which)
    return chance.integers(-32_000, 32_000, (N_BLOCKS_MAX, BLOCK), dtype=np.int16)


def n_new(blocks: npt.NDArray[np.float32]) -> int:
    """How many blocks are neither silence nor the block before them."""
    return int((blocks[1:].any(axis=1) & (blocks[1:] != blocks[:-1]).any(axis=1)).sum())


def main(folder: Path, n_blocks: int, names: list[str]) -> None:
    jack = ctypes.CDLL("libjack.so.0")
    for function in ("jack_client_open", "jack_port_register", "jack_port_get_buffer"):
        getattr(jack, function).restype = ctypes.c_void_p
    jack.jack_port_name.restype = ctypes.c_char_p
    # JackNoStartServer.
    client = ctypes.c_void_p(jack.jack_client_open(b"sounds", 1, None))
    if not client:
        raise SystemExit("jack_sounds: expected a JACK server, found none: see its log")

    def port(name: str, kind: int) -> ctypes.c_void_p:
        size = ctypes.c_ulong(0)
        made = jack.jack_port_register(client, name.encode(), AUDIO, ctypes.c_ulong(kind), size)
        return ctypes.c_void_p(made)

    outputs = [port(f"to-{name}", OUTPUT) for name in names]
    inputs = [port(f"from-{name}", INPUT) for name in names]
    # JACK's samples are floating-point, which has room for 16 bits.
    played = [sound(which).astype(np.float32) / 32_768 for which in range(len(names))]
    recorded = [np.zeros((N_BLOCKS_MAX, BLOCK), np.float32) for _ in names]
    at = 0

    def process(n_frames: int, _: object) -> int:
        nonlocal at
        if n_frames != BLOCK or at == N_BLOCKS_MAX:
            return 0
        n_bytes = 4 * BLOCK
        for which, (output, into) in enumerate(zip(outputs, inputs, strict=True)):
            buffer = jack.jack_port_get_buffer(output, n_frames)
            ctypes.memmove(buffer, played[which][at].ctypes.data, n_bytes)
            buffer = jack.jack_port_get_buffer(into, n_frames)
            ctypes.memmove(recorded[which][at].ctypes.data, buffer, n_bytes)
        at += 1
        return 0

    callback = CALLBACK(process)
    jack.jack_set_process_callback(client, callback, None)
    if jack.jack_activate(client) != 0:
        raise SystemExit("jack_sounds: JACK does not let it take part")
    until_s = time.monotonic() + LIMIT_S
    for name, output, into in zip(names, outputs, inputs, strict=True):
        for source, to in (
            (jack.jack_port_name(output), f"{name}:send_1".encode()),
            (f"{name}:receive_1".encode(), jack.jack_port_name(into)),
        ):
            # JackTrip makes its ports when it has started, or when its peer answers.
            while jack.jack_connect(client, source, to) != 0:
                if time.monotonic() > until_s:
                    raise SystemExit(f"jack_sounds: no ports {source!r} and {to!r}")
                time.sleep(0.05)
    while time.monotonic() < until_s and at < N_BLOCKS_MAX:
        if all(n_new(one[:at]) >= n_blocks for one in recorded):
            break
        time.sleep(0.2)
    jack.jack_deactivate(client)
    jack.jack_client_close(client)
    for name, one in zip(names, recorded, strict=True):
        one[:at].tofile(folder / f"{name}.f32")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
