"""Redirects streams to other ports of the SFU, for rows that cannot serve the original ports.

Such a row (an SFU) either identifies streams by port alone, or chooses its ports itself. Its users
would have to configure the port at each sender. Here the SFU's kernel rewrites the destination port
instead (iptables, DNAT). This costs a look-up for each incoming packet. Copies are exempt from
connection tracking, and without redirects nothing is tracked.
"""

from pathlib import Path

from lab.rows.row import ProcessRow, Variant
from lab.sites import SFU_IP, Site, Stream

_COPIES_ARE_NOT_TRACKED = ["-t", "raw", "-A", "OUTPUT", "-p", "udp", "-j", "CT", "--notrack"]

FURTHER_UDP_PORT = 20_000
"""The first of the ports for streams whose own port is already used by another stream."""


class Redirects:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._any = False
        self._ports: set[int] = set()

    def port_of_its_own(self, stream: Stream) -> int:
        """Returns a port that no other stream uses.

        The result is the stream's own port. If another stream uses this port already, the stream is
        redirected to a further port, which is the result.
        """
        udp_port = stream.udp_port
        if udp_port in self._ports:
            udp_port = FURTHER_UDP_PORT + stream.number
            self.add(stream, udp_port)
        self._ports.add(udp_port)
        return udp_port

    def add(self, stream: Stream, udp_port: int) -> None:
        if not self._any:
            self._any = True
            self._iptables(*_COPIES_ARE_NOT_TRACKED)
        self._iptables(
            *("-t", "nat", "-A", "PREROUTING", "-p", "udp"),
            *("-s", str(stream.sender.ip), "-d", str(SFU_IP), "--dport", str(stream.udp_port)),
            *("-j", "DNAT", "--to-destination", f"{SFU_IP}:{udp_port}"),
        )

    def remove(self) -> None:
        """Removes all redirects. Harmless when repeated, and when the site is gone."""
        if self._any and self._site.sfu.path.exists():
            for table in ("nat", "raw"):
                self._iptables("-t", table, "-F")
        self._any = False

    def _iptables(self, *arguments: str) -> None:
        self._site.sfu.run(["iptables", *arguments])


class RedirectedRow(ProcessRow):
    """A process that may need a port of its own for each stream."""

    source = "what a user would pick"
    topologies = ("one_port", "port_per_host")

    def __init__(self, site: Site, variant: Variant, folder: Path) -> None:
        super().__init__(site, variant, folder)
        self._redirects = Redirects(site)

    def stop(self) -> None:
        super().stop()
        self._redirects.remove()
