"""Writes a network as OpenFlow rules for Open vSwitch, with the programs' tables. No I/O.

    L2         sources -> destinations
    L2L3(-ACL) vlan_ingress -> sources -> routable -> routes -> destinations (-> acl)
                 -> replication -> vlan_egress -> source_pruning

`reg0` has a packet's destination: a port, or 0x10000 plus a VLAN if all ports of this VLAN get the
packet. A packet from an unknown source goes to a controller, if there is one, and is also
forwarded, as in the P4 programs, which send a digest.
"""

from collections.abc import Iterator
from ipaddress import IPv4Network

from lab.frames import PROTOCOL_UDP
from lab.pisces.network import ANYWHERE, BROADCAST, PROTOCOL_TCP, Network, Rule

VLAN_INGRESS, SOURCES, ROUTABLE, ROUTES, DESTINATIONS, ACL, REPLICATION, VLAN_EGRESS, PRUNING = (
    range(9)
)
TAGGED = 0x1000
"""The bit that OpenFlow's VLAN fields have in addition to the VLAN id."""
IS_TAGGED = f"vlan_tci={TAGGED}/{TAGGED}"
"""A match that is true of every frame after the first table. Open vSwitch requires it in rules that
change a tag."""
FLOODS = 0x10000
LEARN = "controller"
LAST_PRIORITY, NOT_IP_PRIORITY, IP_PRIORITY, FIRST_RULE_PRIORITY = 0, 1, 2, 3
DIFFERENCES = (
    "A wrong IPv4 header checksum: the programs drop the packet, Open vSwitch looks at no "
    "checksum and routes it, still wrong.",
    "Ports behind IPv4 options: the access list of the program takes them for 0, as its parser "
    "goes behind a header of five words only; Open vSwitch reads them.",
    "Tags of IEEE 802.1ad (type 0x88a8): the programs know those of 802.1Q only, and take the "
    "frame for one without; Open vSwitch takes both for tags.",
    "An IPv4 total length beyond the frame: the programs do not look at it, Open vSwitch knows no "
    "IPv4 addresses then, and has no route.",
    "A tag's bit for frames that may be dropped first: Open vSwitch, which uses the bit to say "
    "that there is a tag, loses it on AF_PACKET.",
)
"""Cases in which the OpenFlow rules cannot do the same as the P4 programs.

In all other cases both forward the same bytes.
"""
_PROTOCOLS = {PROTOCOL_TCP: "tcp", PROTOCOL_UDP: "udp"}


def flows_of(program: str, network: Network) -> Iterator[str]:
    """The rules that do what one of `network.PROGRAMS` does, as ovs-ofctl reads them."""
    if program == "l2":
        yield from _switching(network)
        return
    yield from _vlan_ingress(network)
    yield from _sources(network)
    yield from _routing(network)
    yield from _destinations(network, ACL if program == "l2l3_acl" else REPLICATION)
    if program == "l2l3_acl":
        yield from _acl(network)
    yield from _egress(network)


def groups_of(program: str, network: Network) -> Iterator[str]:
    if program == "l2":
        return
    for vlan in network.flooded_vlans:
        buckets = "".join(
            f",bucket=actions=set_field:{port.number}->reg0,resubmit(,{VLAN_EGRESS})"
            for port in network.ports_of(vlan)
        )
        yield f"group_id={vlan},type=all{buckets}"


def _flow(table: int, match: str, actions: str, priority: int = 10) -> str:
    said = f"table={table},priority={priority}" + (f",{match}" if match else "")
    return f"{said},actions={actions}"


def _miss(table: int, actions: str) -> str:
    return _flow(table, "", actions, LAST_PRIORITY)


def _goto(table: int) -> str:
    return f"goto_table:{table}"


def _switching(network: Network) -> Iterator[str]:
    sources, destinations = 0, 1
    for station in network.stations:
        source = f"in_port={station.port},dl_src={station.mac}"
        yield _flow(sources, source, _goto(destinations))
        yield _flow(destinations, f"dl_dst={station.mac}", f"output:{station.port}")
    yield _miss(sources, f"{LEARN},{_goto(destinations)}")
    yield _miss(destinations, "flood")


def _vlan_ingress(network: Network) -> Iterator[str]:
    for port in network.ports:
        for vlan in port.vlans:
            match, tag = f"vlan_tci=0,in_port={port.number}", ""
            if port.is_tagged:
                match = f"dl_vlan={vlan},in_port={port.number}"
            else:
                tag = f"push_vlan:0x8100,set_field:{TAGGED | vlan}->vlan_vid,"
            yield _flow(VLAN_INGRESS, match, tag + _goto(SOURCES))
    yield _miss(VLAN_INGRESS, "drop")


def _sources(network: Network) -> Iterator[str]:
    for station in network.stations:
        yield _flow(SOURCES, f"dl_src={station.mac}", _goto(ROUTABLE))
    yield _miss(SOURCES, f"{LEARN},{_goto(ROUTABLE)}")


def _routing(network: Network) -> Iterator[str]:
    for sender in network.senders:
        match = f"ip,dl_src={sender.mac},dl_dst={sender.router},dl_vlan={sender.vlan}"
        yield _flow(ROUTABLE, match, _goto(ROUTES))
    yield _miss(ROUTABLE, _goto(DESTINATIONS))
    for route in network.routes:
        # A packet whose TTL runs out is dropped at `dec_ttl`.
        actions = (
            f"dec_ttl,set_field:{route.router}->eth_src,set_field:{route.next_hop}->eth_dst,"
            f"set_field:{TAGGED | route.vlan}->vlan_vid,{_goto(DESTINATIONS)}"
        )
        longest_first = 1 + route.prefix.prefixlen
        match = f"ip,{IS_TAGGED},nw_dst={route.prefix}"
        yield _flow(ROUTES, match, actions, longest_first)
    yield _miss(ROUTES, "drop")


def _destinations(network: Network, then: int) -> Iterator[str]:
    for station in network.stations:
        match = f"dl_dst={station.mac},dl_vlan={station.vlan}"
        yield _flow(DESTINATIONS, match, f"set_field:{station.port}->reg0,{_goto(then)}")
    for vlan in network.flooded_vlans:
        match = f"dl_dst={BROADCAST},dl_vlan={vlan}"
        yield _flow(DESTINATIONS, match, f"set_field:{FLOODS | vlan}->reg0,{_goto(then)}")
    yield _miss(DESTINATIONS, "drop")


def _acl(network: Network) -> Iterator[str]:
    last = FIRST_RULE_PRIORITY + len(network.rules) - 1
    for number, rule in enumerate(network.rules):
        actions = _goto(REPLICATION) if rule.permits else "drop"
        yield _flow(ACL, _match_of(rule), actions, last - number)
    yield _flow(ACL, "ip", "drop", IP_PRIORITY)
    yield _flow(ACL, "", _goto(REPLICATION), NOT_IP_PRIORITY)


def _match_of(rule: Rule) -> str:
    named = _PROTOCOLS.get(rule.protocol or 0)
    parts = [named or "ip"]
    if rule.protocol is not None and named is None:
        parts.append(f"nw_proto={rule.protocol}")
    wanted: tuple[tuple[str, IPv4Network | int | None], ...] = (
        ("nw_src", rule.source if rule.source != ANYWHERE else None),
        ("nw_dst", rule.destination if rule.destination != ANYWHERE else None),
        ("tp_src", rule.source_port),
        ("tp_dst", rule.destination_port),
    )
    parts += [f"{name}={value}" for name, value in wanted if value is not None]
    return ",".join(parts)


def _egress(network: Network) -> Iterator[str]:
    for vlan in network.flooded_vlans:
        yield _flow(REPLICATION, f"reg0={FLOODS | vlan}", f"group:{vlan}")
    yield _miss(REPLICATION, _goto(VLAN_EGRESS))
    for port in network.ports:
        if not port.is_tagged:
            actions = f"pop_vlan,{_goto(PRUNING)}"
            yield _flow(VLAN_EGRESS, f"{IS_TAGGED},reg0={port.number}", actions)
        match = f"in_port={port.number},reg0={port.number}"
        yield _flow(PRUNING, match, "drop")
    yield _miss(VLAN_EGRESS, _goto(PRUNING))
    yield _miss(PRUNING, "output:NXM_NX_REG0[]")
