"""BMv2's simple_switch as a peer, where `--bmv2` (or the variable REPRISE_BMV2) says where it is.

It runs what our compiler makes of the SFU programs; entries are written over its Thrift interface.
The project does not depend on it. Its threads share the forwarder's processor, as the switch does.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from lab.bench.pair import (
    FORWARDER_CPU,
    FORWARDER_INTERFACE,
    FORWARDER_IP,
    FORWARDER_MAC,
    HOST_IP,
    HOST_MAC,
    SFU_UDP_PORT,
    VIEWER_UDP_PORT,
    Pair,
    on_cpu,
    viewer_ips,
)
from lab.bench.thrift import (
    STRING,
    STRUCT,
    Client,
    Value,
    binary,
    i32,
    i64,
    list_of,
    structure,
)
from lab.controller import REPRISE
from lab.process import Child, ChildError, run
from lab.switch import READY_TIMEOUT_S, RECIRCULATION_PROGRAM, REPLICATION_PROGRAM

VARIABLE = "REPRISE_BMV2"
PROGRAMS = {"bmv2_recirculation": RECIRCULATION_PROGRAM, "bmv2_replication": REPLICATION_PROGRAM}
THRIFT_PORT = 9090
PORT, GROUP, MIRROR_SESSION = 1, 1, 100
QUEUE_PACKETS = 8192
"""As the switch's; BMv2's own 64 would lose copies of the larger groups."""
L1_ENTRIES_MAX = 8192
ANY_CONTEXT = i32(0)
EXACT = i32(0)


def binary_path() -> Path | None:
    """Where simple_switch is, if it was said."""
    said = os.environ.get(VARIABLE)
    return Path(said) if said else None


@dataclass(frozen=True, slots=True)
class Runtime:
    """A running simple_switch: its client, and its program for names and widths."""

    client: Client
    program: Mapping[str, Any]

    def add_entry(
        self, table: str, keys: Sequence[int], action: str, parameters: Sequence[int]
    ) -> None:
        """An entry of exact keys; names are the last part of those in the program."""
        found = self._table(table)
        widths = [self._width(key["target"]) for key in found["key"]]
        match = [
            structure({1: EXACT, 2: structure({1: binary(_bytes(value, bits))})})
            for value, bits in zip(keys, widths, strict=True)
        ]
        made = _named(self.program["actions"], action, found["actions"])
        data = [
            binary(_bytes(value, parameter["bitwidth"]))
            for value, parameter in zip(parameters, made["runtime_data"], strict=True)
        ]
        self._standard(
            "bm_mt_add_entry",
            binary(found["name"]),
            list_of(STRUCT, match),
            binary(made["name"]),
            list_of(STRING, data),
            structure({}),
        )

    def write_register(self, register: str, index: int, value: int) -> None:
        """One cell."""
        name = _named(self.program["register_arrays"], register)["name"]
        self._standard("bm_register_write", binary(name), i32(index), i64(value))

    def add_multicast_group(self, group: int, port: int, replica_ids: Sequence[int]) -> None:
        """One copy to `port` for each replica id, in their order."""
        service = "simple_pre_lag:bm_mc"
        handle = i32(self.client.call(f"{service}_mgrp_create", ANY_CONTEXT, i32(group)))
        ports = "1".ljust(port + 1, "0")
        for replica in replica_ids:
            arguments = (ANY_CONTEXT, i32(replica), binary(ports), binary(""))
            node = i32(self.client.call(f"{service}_node_create", *arguments))
            self.client.call(f"{service}_node_associate", ANY_CONTEXT, handle, node)

    def mirror(self, session: int, port: int) -> None:
        """Where clones of a session go."""
        config = structure({1: i32(port)})
        self.client.call("simple_switch:mirroring_session_add", i32(session), config)

    def set_queues(self, n_packets: int) -> None:
        """How many packets wait at most at a port."""
        self.client.call("simple_switch:set_all_egress_queue_depths", i32(n_packets))

    def _standard(self, method: str, *arguments: Value) -> None:
        self.client.call(f"standard:{method}", ANY_CONTEXT, *arguments)

    def _table(self, name: str) -> Mapping[str, Any]:
        return _named([t for p in self.program["pipelines"] for t in p["tables"]], name)

    def _width(self, target: Sequence[str]) -> int:
        header = next(one for one in self.program["headers"] if one["name"] == target[0])
        kinds = self.program["header_types"]
        fields = next(one for one in kinds if one["name"] == header["header_type"])["fields"]
        return next(int(field[1]) for field in fields if field[0] == target[1])


def _named(
    objects: Sequence[Mapping[str, Any]], name: str, among: Sequence[str] | None = None
) -> Mapping[str, Any]:
    found = [
        one
        for one in objects
        if one["name"].rpartition(".")[2] == name and (among is None or one["name"] in among)
    ]
    if len(found) != 1:
        raise ChildError(f"the program has {len(found)} objects {name!r}, expected one")
    return found[0]


def _bytes(value: int, bits: int) -> bytes:
    return value.to_bytes((bits + 7) // 8, "big")


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)


def set_up(runtime: Runtime, viewers: Sequence[IPv4Address]) -> None:
    """What `reprise apply` writes for one group; each program has the one or the other."""
    own_mac, host_mac = _mac(FORWARDER_MAC), _mac(HOST_MAC)
    host_ip = int(HOST_IP)
    runtime.set_queues(QUEUE_PACKETS)
    runtime.add_entry("own_addresses", [PORT, int(FORWARDER_IP)], "set_own_mac", [own_mac])
    if runtime.program["register_arrays"]:
        runtime.mirror(MIRROR_SESSION, PORT)
        for slot, ip in enumerate(viewers):
            runtime.write_register("viewer_ips", slot, int(ip))
            runtime.write_register("viewer_macs", slot, host_mac)
            runtime.write_register("viewer_ids", slot, slot)
        runtime.write_register("groups", GROUP, len(viewers))
        runtime.add_entry("presenters", [host_ip], "set_group", [GROUP, 0])
        return
    for replica, ip in enumerate(viewers, start=1):
        to = [host_mac, int(ip), VIEWER_UDP_PORT]
        runtime.add_entry("viewers", [GROUP, replica], "send_to", to)
    runtime.add_multicast_group(GROUP, PORT, range(1, len(viewers) + 1))
    runtime.add_entry("streams", [host_ip, SFU_UDP_PORT], "set_group", [GROUP, 0])


def _connected(switch: Child) -> Client:
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            return Client(("127.0.0.1", THRIFT_PORT), READY_TIMEOUT_S)
        except OSError as error:
            if switch.exit_code is not None or time.monotonic() > deadline_s:
                raise switch.fail(f"its Thrift port does not answer ({error})") from error
            time.sleep(0.05)


@contextlib.contextmanager
def running_bmv2(name: str, pair: Pair, n_viewers: int, folder: Path) -> Iterator[Child]:
    """simple_switch in the forwarder's namespace, set up for so many viewers."""
    path, source = binary_path(), PROGRAMS[name]
    if path is None:
        raise ChildError(f"{name}: {VARIABLE} does not say where simple_switch is")
    run([str(REPRISE), "compile", str(source), "-o", str(folder)])
    compiled = folder / f"{source.stem}.json"
    argv = [str(path), "-i", f"{PORT}@{FORWARDER_INTERFACE}", "--thrift-port", str(THRIFT_PORT)]
    argv += [str(compiled), "--", "--max-l1-entries", str(L1_ENTRIES_MAX)]
    run(["ip", "-n", pair.forwarder.name, "link", "set", "lo", "up"])
    with pair.forwarder.start(on_cpu(FORWARDER_CPU, argv), folder / "simple_switch.log") as switch:

        def write() -> None:
            with _connected(switch) as client:
                program = json.loads(compiled.read_text())
                set_up(Runtime(client, program), viewer_ips(n_viewers))

        pair.forwarder.call(write)
        yield switch
