"""Sockets for whole frames at the ends of links."""

import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from lab.sites import Site
from lab.traffic import grow_receive_buffer

ETH_P_ALL = 3
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
FRAME_LEN_BYTES_MAX = 65536


def packet_socket(interface: str) -> socket.socket:
    """A socket that gets the frames that come to an interface, not those that leave by it."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    grow_receive_buffer(made)
    made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    made.bind((interface, ETH_P_ALL))
    return made


@contextmanager
def at_links(site: Site) -> Iterator[tuple[dict[int, socket.socket], selectors.BaseSelector]]:
    """Opens a socket at the hosts' end of each link.

    Yields the sockets by port number, and a selector whose data are the port numbers.
    """
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        ends = {link.port: link.host_interface for link in site.links}
        sockets = site.hosts.call(lambda: {port: packet_socket(end) for port, end in ends.items()})
        for port, one in sockets.items():
            selector.register(stack.enter_context(one), selectors.EVENT_READ, port)
        yield sockets, selector
