"""A client of a running JACK server through JACK's library, with ports, a callback and connections.

The header jack/jack.h documents the functions of JACK's library.
"""

import ctypes
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

LIMIT_S = 120.0
"""How long `JackClient.connect` waits for the two ports to exist."""
_OUTPUT, _INPUT = 2, 1
_AUDIO = b"32 bit float mono audio"
_NO_START_SERVER = 1
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)

Samples = npt.NDArray[np.float32]


class Port:
    def __init__(self, jack: ctypes.CDLL, port: ctypes.c_void_p) -> None:
        self._jack = jack
        self._port = port
        self.name: bytes = jack.jack_port_name(port)

    def samples(self, n: int) -> Samples:
        """The port's samples of this period, which the callback reads or writes."""
        at = self._jack.jack_port_get_buffer(self._port, n)
        return np.ctypeslib.as_array((ctypes.c_float * n).from_address(at))


class JackClient:
    """A client of the JACK server. The end of the client's context (`with`) ends the client."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jack = ctypes.CDLL("libjack.so.0")
        for function in ("jack_client_open", "jack_port_register", "jack_port_get_buffer"):
            getattr(self._jack, function).restype = ctypes.c_void_p
        self._jack.jack_port_name.restype = ctypes.c_char_p
        self._jack.jack_last_frame_time.restype = ctypes.c_uint32
        opened = self._jack.jack_client_open(name.encode(), _NO_START_SERVER, None)
        self._client = ctypes.c_void_p(opened)
        if not self._client:
            raise SystemExit(f"{name}: expected a JACK server, found none: see its log")

    def output(self, name: str) -> Port:
        """Registers a port that this client writes."""
        return self._port(name, _OUTPUT)

    def input(self, name: str) -> Port:
        """Registers a port that this client reads."""
        return self._port(name, _INPUT)

    def _port(self, name: str, kind: int) -> Port:
        size = ctypes.c_ulong(0)
        made = self._jack.jack_port_register(
            self._client, name.encode(), _AUDIO, ctypes.c_ulong(kind), size
        )
        return Port(self._jack, ctypes.c_void_p(made))

    def now(self) -> int:
        """Returns the time at which the current period began, in samples."""
        now: int = self._jack.jack_last_frame_time(self._client)
        return now

    def start(self, process: Callable[[int], None]) -> None:
        """Makes JACK call `process` in each period from now on, with the number of samples."""

        def callback(n_samples: int, _: object) -> int:
            process(n_samples)
            return 0

        # JACK's library holds no reference to the callback, so this object keeps one.
        self._callback = _CALLBACK(callback)
        self._jack.jack_set_process_callback(self._client, self._callback, None)
        if self._jack.jack_activate(self._client) != 0:
            raise SystemExit(f"{self._name}: JACK does not let it take part")

    def connect(self, source: bytes, to: bytes) -> None:
        """Connects two ports; waits until both exist."""
        until_s = time.monotonic() + LIMIT_S
        while self._jack.jack_connect(self._client, source, to) != 0:
            if time.monotonic() > until_s:
                raise SystemExit(f"{self._name}: no ports {source!r} and {to!r}")
            time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._jack.jack_deactivate(self._client)
        self._jack.jack_client_close(self._client)
