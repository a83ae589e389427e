"""BMv2's simple_switch, for comparison. `--bmv2` or the variable REPRISE_BMV2 gives its path.

BMv2 runs our compiler's output for the SFU programs; this module writes entries over its Thrift
interface. The project does not depend on BMv2. In one variant BMv2's threads share the SFU's
processor, as our switch's threads do; in the other variant they have all processors.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lab.colours import ORANGE, SKY
from lab.controller import REPRISE
from lab.process import Child, ChildError, run
from lab.rows.row import ProcessRow, Variant
from lab.rows.thrift import (
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
from lab.sites import SFU_CPU, SFU_IP, Link, Participant, Stream, on_cpu
from lab.switch import READY_TIMEOUT_S, RECIRCULATION_PROGRAM, REPLICATION_PROGRAM

VARIABLE = "REPRISE_BMV2"
THRIFT_PORT = 9090
PORT, MIRROR_SESSION = 1, 100
QUEUE_PACKETS = 8192
"""The length of the queues, as in our switch.

With BMv2's default of 64 packets, larger groups would lose copies.
"""
L1_ENTRIES_MAX = 8192
ANY_CONTEXT = i32(0)
EXACT = i32(0)


@dataclass(frozen=True, slots=True)
class Runtime:
    """A running simple_switch: a Thrift client, and the program's JSON for names and widths."""

    client: Client
    program: Mapping[str, Any]

    def add_entry(
        self, table: str, keys: Sequence[int], action: str, parameters: Sequence[int]
    ) -> None:
        """Adds an entry with exact keys.

        `table` and `action` are the last parts of the full names in the program.
        """
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
        name = _named(self.program["register_arrays"], register)["name"]
        self._standard("bm_register_write", binary(name), i32(index), i64(value))

    def add_multicast_group(self, group: int, port: int, replica_ids: Sequence[int]) -> None:
        """Makes a group with a copy to `port` for each replica id, in this order."""
        service = "simple_pre_lag:bm_mc"
        handle = i32(self.client.call(f"{service}_mgrp_create", ANY_CONTEXT, i32(group)))
        ports = "1".ljust(port + 1, "0")
        for replica in replica_ids:
            arguments = (ANY_CONTEXT, i32(replica), binary(ports), binary(""))
            node = i32(self.client.call(f"{service}_node_create", *arguments))
            self.client.call(f"{service}_node_associate", ANY_CONTEXT, handle, node)

    def mirror(self, session: int, port: int) -> None:
        """Sets the port to which clones of a session go."""
        config = structure({1: i32(port)})
        self.client.call("simple_switch:mirroring_session_add", i32(session), config)

    def set_queues(self, n_packets: int) -> None:
        """Sets how many packets may wait at a port."""
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


Group = tuple[Stream, Sequence[Participant]]


def set_up(runtime: Runtime, link: Link, groups: Mapping[int, Group]) -> None:
    """Writes what `reprise apply` writes to our switch.

    A program keeps its viewers in registers or in a table.
    """
    runtime.set_queues(QUEUE_PACKETS)
    own_mac = _mac(link.sfu_mac)
    runtime.add_entry("own_addresses", [PORT, int(SFU_IP)], "set_own_mac", [own_mac])
    arrays = runtime.program["register_arrays"]
    in_registers = any(one["name"].endswith(".viewer_ips") for one in arrays)
    if in_registers:
        runtime.mirror(MIRROR_SESSION, PORT)
    first_slot = 0
    for number, (stream, viewers) in groups.items():
        sender_ip = int(stream.sender.ip)
        if in_registers:
            if first_slot:
                raise ChildError("BMv2 with the recirculation program: one stream is set up here")
            for slot, viewer in enumerate(viewers):
                runtime.write_register("viewer_ips", slot, int(viewer.ip))
                runtime.write_register("viewer_macs", slot, _mac(viewer.mac))
                runtime.write_register("viewer_ids", slot, slot)
            runtime.write_register("groups", number, len(viewers))
            runtime.add_entry("presenters", [sender_ip], "set_group", [number, 0])
            first_slot += len(viewers)
            continue
        for replica, viewer in enumerate(viewers, start=1):
            to = [_mac(viewer.mac), int(viewer.ip), stream.viewer_udp_port]
            runtime.add_entry("viewers", [number, replica], "send_to", to)
        runtime.add_multicast_group(number, PORT, range(1, len(viewers) + 1))
        runtime.add_entry("streams", [sender_ip, stream.udp_port], "set_group", [number, 0])


def _connected(switch: Child) -> Client:
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            return Client(("127.0.0.1", THRIFT_PORT), READY_TIMEOUT_S)
        except OSError as error:
            if switch.exit_code is not None or time.monotonic() > deadline_s:
                raise switch.fail(f"its Thrift port does not answer ({error})") from error
            time.sleep(0.05)


class Bmv2(ProcessRow):
    """simple_switch, which is started again with all entries for every change of viewers."""

    source = "BMv2"
    variants = (
        Variant("one processor", "afpacket", "sleep"),
        Variant("all processors", "afpacket", "sleep"),
    )
    fanout = overload = variants[:1]
    takes_turns = False
    is_optional = True
    program: ClassVar[Path]

    @classmethod
    def lacks(cls) -> str:
        """Says that a build of BMv2 is missing; empty if there is one."""
        if os.environ.get(VARIABLE):
            return ""
        return "a build of BMv2: --bmv2 PATH/simple_switch says where it is"

    def start(self) -> None:
        self._groups: dict[int, Group] = {}
        run([str(REPRISE), "compile", str(self.program), "-o", str(self.folder)])

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        self.subscribe_all([(stream, viewers)])

    def subscribe_all(self, subscriptions: Sequence[Group]) -> None:
        for stream, viewers in subscriptions:
            self._groups[stream.number] = (stream, viewers)
        self.stop()
        link = self.site.links[0]
        compiled = self.folder / f"{self.program.stem}.json"
        argv = [os.environ[VARIABLE], "-i", f"{PORT}@{link.sfu_interface}"]
        argv += ["--thrift-port", str(THRIFT_PORT), str(compiled)]
        argv += ["--", "--max-l1-entries", str(L1_ENTRIES_MAX)]
        if self.variant.engine == "one processor":
            argv = on_cpu(SFU_CPU, argv)
        switch = self.site.sfu.start(argv, self.folder / "simple_switch.log")
        self._child = switch

        def write() -> None:
            with _connected(switch) as client:
                set_up(Runtime(client, json.loads(compiled.read_text())), link, self._groups)

        self.site.sfu.call(write)


class Bmv2Replication(Bmv2):
    name = "bmv2_replication"
    label = "BMv2, replication"
    look = (ORANGE, "1")
    rank = 14
    program = REPLICATION_PROGRAM


class Bmv2Recirculation(Bmv2):
    name = "bmv2_recirculation"
    label = "BMv2, recirculation"
    look = (SKY, "2")
    rank = 15
    program = RECIRCULATION_PROGRAM
