"""Writes a network as table entries for the P4 programs: a P4Runtime WriteRequest as text. No I/O.

This module uses the names of tables and actions in the P4 programs. Their ids come from the P4Info
that the compiler writes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network

from lab.frames import mac_bytes
from lab.pisces.network import ANYWHERE, BROADCAST, Network, Rule

L2_FLOOD_GROUP = 1
"""The value of the constant FLOOD_GROUP in p4/bench/l2.p4."""

Exact = int | str
Value = Exact | IPv4Network
"""The value of a key field: a number, an Ethernet address or a prefix."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry with names instead of ids. Fields that are missing in its key match anything."""

    table: str
    key: Mapping[str, Value]
    action: str
    arguments: tuple[Exact, ...] = ()
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """A multicast group, whose packets leave once by each of its ports."""

    number: int
    ports: tuple[int, ...]


def entries_of(program: str, network: Network) -> Iterator[Entry | Group]:
    """The table entries of one of `network.PROGRAMS`."""
    if program == "l2":
        yield from _switching(network)
        return
    yield from _vlans(network)
    yield from _stations(network)
    yield from _routing(network)
    if program == "l2l3_acl":
        for number, rule in enumerate(network.rules):
            # The entry with the highest priority wins, so the first rule gets the highest.
            yield _rule(rule, priority=len(network.rules) - number)


def _switching(network: Network) -> Iterator[Entry | Group]:
    yield Group(L2_FLOOD_GROUP, tuple(port.number for port in network.ports))
    for station in network.stations:
        yield Entry("sources", {"src_addr": station.mac, "port": station.port}, "known")
        yield Entry("destinations", {"dst_addr": station.mac}, "forward", (station.port,))


def _vlans(network: Network) -> Iterator[Entry]:
    for port in network.ports:
        if port.is_tagged:
            for vlan in port.vlans:
                key: dict[str, Value] = {"port": port.number, "is_tagged": 1, "vlan_id": vlan}
                yield Entry("vlan_ingress", key, "accept_tag")
        else:
            key = {"port": port.number, "is_tagged": 0, "vlan_id": 0}
            yield Entry("vlan_ingress", key, "add_tag", port.vlans)
            yield Entry("vlan_egress", {"port": port.number}, "strip_tag")
        ports: dict[str, Value] = {"ingress_port": port.number, "egress_port": port.number}
        yield Entry("source_pruning", ports, "prune")


def _stations(network: Network) -> Iterator[Entry | Group]:
    for station in network.stations:
        yield Entry("sources", {"src_addr": station.mac}, "known")
        key: dict[str, Value] = {"dst_addr": station.mac, "vlan_id": station.vlan}
        yield Entry("destinations", key, "forward", (station.port,))
    for vlan in network.flooded_vlans:
        yield Group(vlan, tuple(port.number for port in network.ports_of(vlan)))
        key = {"dst_addr": BROADCAST, "vlan_id": vlan}
        yield Entry("destinations", key, "flood", (vlan,))


def _routing(network: Network) -> Iterator[Entry]:
    for sender in network.senders:
        key: dict[str, Value] = {
            "src_addr": sender.mac,
            "dst_addr": sender.router,
            "vlan_id": sender.vlan,
        }
        yield Entry("routable", key, "route")
    for route in network.routes:
        arguments = (route.router, route.next_hop, route.vlan)
        yield Entry("routes", {"dst_addr": route.prefix}, "set_next_hop", arguments)


def _rule(rule: Rule, priority: int) -> Entry:
    key: dict[str, Value | None] = {
        "src_addr": rule.source if rule.source != ANYWHERE else None,
        "dst_addr": rule.destination if rule.destination != ANYWHERE else None,
        "protocol": rule.protocol,
        "src_port": rule.source_port,
        "dst_port": rule.destination_port,
    }
    known = {name: value for name, value in key.items() if value is not None}
    return Entry("acl", known, "permit" if rule.permits else "deny", priority=priority)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a key, or a parameter of an action."""

    number: int
    width_bits: int
    match: str = ""


@dataclass(slots=True)
class Object:
    number: int
    fields: dict[str, Field] = field(default_factory=dict)


class P4InfoError(ValueError):
    """A program lacks an object that an entry names."""


@dataclass(slots=True)
class P4Info:
    """Tables and actions by their aliases, as `reprise compile` writes them."""

    tables: dict[str, Object]
    actions: dict[str, Object]

    def find(self, kind: str, name: str) -> Object:
        known = self.tables if kind == "table" else self.actions
        if name not in known:
            raise P4InfoError(f"expected a {kind} {name}, the program has {', '.join(known)}")
        return known[name]


_BLOCK = re.compile(r"^(tables|actions) \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_PREAMBLE = re.compile(r'^    id: (\d+)$.*?^    alias: "([^"]+)"$', re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (?:match_fields|params) \{$(.*?)^  \}$", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r'^    (\w+): "?([^"\n]*)"?$', re.MULTILINE)


def p4info_of(text: str) -> P4Info:
    """Parses a P4Info in protobuf's text format with one field in each line."""
    found: dict[str, dict[str, Object]] = {"tables": {}, "actions": {}}
    for kind, body in _BLOCK.findall(text):
        preamble = _PREAMBLE.search(body)
        if preamble is None:
            raise P4InfoError(f"expected a preamble with id and alias, found {body!r}")
        one = found[kind][preamble[2]] = Object(int(preamble[1]))
        for part in _FIELD.findall(body):
            said = dict(_LINE.findall(part))
            one.fields[said["name"]] = Field(
                int(said["id"]), int(said["bitwidth"]), said.get("match_type", "")
            )
    return P4Info(found["tables"], found["actions"])


def write_request(program: str, network: Network, p4info: P4Info) -> str:
    updates = (
        f"updates {{ type: INSERT entity {{ {_entity(one, p4info)} }} }}\n"
        for one in entries_of(program, network)
    )
    return "device_id: 1\n" + "".join(updates)


def _entity(one: Entry | Group, p4info: P4Info) -> str:
    if isinstance(one, Group):
        replicas = " ".join(f"replicas {{ egress_port: {port} instance: 1 }}" for port in one.ports)
        group = f"multicast_group_entry {{ multicast_group_id: {one.number} {replicas} }}"
        return f"packet_replication_engine_entry {{ {group} }}"
    table, action = p4info.find("table", one.table), p4info.find("action", one.action)
    parts = [f"table_id: {table.number}"]
    for name, value in one.key.items():
        if name not in table.fields:
            raise P4InfoError(f"table {one.table}: expected a field {name}, it has {table.fields}")
        parts.append(f"match {{ {_match(table.fields[name], value)} }}")
    parameters = zip(action.fields.values(), one.arguments, strict=True)
    params = "".join(
        f" params {{ param_id: {param.number} value: {_bytes(value)} }}"
        for param, value in parameters
    )
    parts.append(f"action {{ action {{ action_id: {action.number}{params} }} }}")
    if one.priority:
        parts.append(f"priority: {one.priority}")
    return f"table_entry {{ {' '.join(parts)} }}"


def _match(field_: Field, value: Value) -> str:
    said = f"field_id: {field_.number} "
    if field_.match == "EXACT" and not isinstance(value, IPv4Network):
        return said + f"exact {{ value: {_bytes(value)} }}"
    if field_.match == "LPM" and isinstance(value, IPv4Network):
        address = _bytes(int(value.network_address))
        return said + f"lpm {{ value: {address} prefix_len: {value.prefixlen} }}"
    if field_.match == "TERNARY" and not isinstance(value, str):
        number, mask = _masked(field_, value)
        return said + f"ternary {{ value: {_bytes(number)} mask: {_bytes(mask)} }}"
    raise P4InfoError(f"expected a value for a match of kind {field_.match}, found {value!r}")


def _masked(field_: Field, value: int | IPv4Network) -> tuple[int, int]:
    if isinstance(value, IPv4Network):
        return int(value.network_address), int(value.netmask)
    return value, (1 << field_.width_bits) - 1


def _bytes(value: Exact | IPv4Address) -> str:
    """A value as protobuf text, in the shortest byte string, as P4Runtime specifies."""
    number = int.from_bytes(mac_bytes(value)) if isinstance(value, str) else int(value)
    data = number.to_bytes(max(1, (number.bit_length() + 7) // 8))
    return '"' + "".join(f"\\{byte:03o}" for byte in data) + '"'
