"""A TCP connection that a test can cut, as a network does: nothing passes, nothing is closed."""

import selectors
import socket
import threading
from typing import Self

PIECE_BYTES = 65_536
LIMIT_S = 120.0
"""The most time that something may take. It matters only if something hangs."""


class Relay:
    """Takes connections on a port of its own and passes their bytes to another port."""

    def __init__(self, to: int) -> None:
        self._to = ("127.0.0.1", to)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._is_whole = threading.Event()
        self._is_whole.set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def cut(self) -> None:
        self._is_whole.clear()

    def mend(self) -> None:
        self._is_whole.set()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ, None)
            while not self._ended.is_set():
                if not self._is_whole.wait(0.1):
                    continue
                for key, _ in selector.select(0.1):
                    if not self._is_whole.is_set():
                        break
                    if key.data is None:
                        self._accept(selector)
                    else:
                        self._pass(selector, key)
            for key in list(selector.get_map().values()):
                if isinstance(key.fileobj, socket.socket):
                    key.fileobj.close()

    def _accept(self, selector: selectors.BaseSelector) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(self._to, timeout=LIMIT_S)
        except OSError:
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            one.settimeout(LIMIT_S)
            selector.register(one, selectors.EVENT_READ, other)

    def _pass(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        source, other = key.fileobj, key.data
        assert isinstance(source, socket.socket)
        try:
            if piece := source.recv(PIECE_BYTES):
                other.sendall(piece)
                return
        except OSError:
            pass
        for one in (source, other):
            if one.fileno() >= 0 and one in selector.get_map():
                selector.unregister(one)
            one.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(10)
