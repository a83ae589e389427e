"""Commands that set up Linux' own forwarding for a network: the bridge for L2, routing for L2L3.

This module does no I/O.

The commands enter every station and route, so that neither the bridge nor the routing learns
anything from packets. L2L3-ACL has no counterpart: for its access list Linux would need a further
program.
"""

from collections.abc import Iterator, Sequence

from lab.pisces.network import Network, Port

BRIDGE = "br0"


def bridge_of(network: Network, interfaces: Sequence[str]) -> Iterator[str]:
    yield f"link add {BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
    for port in network.ports:
        yield f"link set {interfaces[port.number - 1]} master {BRIDGE}"
    yield f"link set {BRIDGE} up"


def stations_of(network: Network, interfaces: Sequence[str]) -> Iterator[str]:
    for station in network.stations:
        interface = interfaces[station.port - 1]
        yield f"fdb replace {station.mac} dev {interface} master static"


def routes_of(network: Network, interfaces: Sequence[str]) -> Iterator[str]:
    """Yields ip(8) commands that make each port its VLAN's router and each next hop a neighbour."""
    by_vlan = {port.vlans[0]: interfaces[port.number - 1] for port in network.ports}
    for port in network.ports:
        interface = interfaces[port.number - 1]
        yield f"link set {interface} address {_router_of(network, port)}"
    for route in network.routes:
        interface, host = by_vlan[route.vlan], route.prefix.network_address
        yield f"route replace {route.prefix} dev {interface}"
        yield f"neighbour replace {host} lladdr {route.next_hop} dev {interface} nud permanent"


def _router_of(network: Network, port: Port) -> str:
    """The Ethernet address of a port's router."""
    return next(one.router for one in network.senders if one.vlan in port.vlans)
