"""`python -m lab.operation.foreign SWITCH SECONDS [--spoil N|--mend N]`: a foreign controller.

A foreign controller knows nothing of the SFU: it uses only P4Runtime's protocol definitions, which
the package finsy contains, so it runs in finsy's environment. It becomes primary against any other
controller, prints this, stays primary for a while, and ends. Before it ends, it may change
multicast group N: with `--spoil` it adds a replica that no controller of an SFU would write, and
with `--mend` it removes this replica. Exit code 0: done; 3: another controller became primary.
"""

import argparse
import queue
import sys
import threading
import time
from collections.abc import Iterator

import grpc
from finsy.proto import U128, p4r, p4r_grpc, rpc_code

PRIMARY = "primary"
EXIT_OUTBID = 3
REPLICA = 64_000
"""The instance (rid) of the replica that this controller adds. No viewer's replica has it."""
DEVICE_ID = 1
MARGIN = 100
"""How far above the highest election id this controller bids. If two controllers bid the same id at
once, the later bid is refused (P4Runtime, section 5.3)."""
PATIENCE_S = 120.0


class Controller:
    """A controller with a stream channel, on which it bids to become primary."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.stub = p4r_grpc.P4RuntimeStub(channel)
        self.election_id = 0
        self._requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self._updates: queue.Queue[p4r.MasterArbitrationUpdate] = queue.Queue()
        answers = self.stub.StreamChannel(iter(self._requests.get, None))
        threading.Thread(target=self._listen, args=(answers,), daemon=True).start()

    def _listen(self, answers: Iterator[p4r.StreamMessageResponse]) -> None:
        for answer in answers:
            if answer.HasField("arbitration"):
                self._updates.put(answer.arbitration)

    def become_primary(self) -> None:
        """Bids above the highest election id until this controller is primary."""
        deadline_s = time.monotonic() + PATIENCE_S
        self._bid(1)
        while True:
            update = self._updates.get(timeout=deadline_s - time.monotonic())
            highest = U128.decode(update.election_id)
            if update.status.code == rpc_code.OK and highest == self.election_id:
                return
            if highest >= self.election_id:
                self._bid(highest + MARGIN)

    def _bid(self, election_id: int) -> None:
        self.election_id = election_id
        bid = p4r.MasterArbitrationUpdate(device_id=DEVICE_ID, election_id=U128.encode(election_id))
        self._requests.put(p4r.StreamMessageRequest(arbitration=bid))

    def is_outbid_within(self, seconds: float) -> bool:
        """Whether another controller becomes primary within this time."""
        try:
            return bool(self._updates.get(timeout=seconds).status.code != rpc_code.OK)
        except queue.Empty:
            return False

    def set_replica(self, number: int, *, there: bool) -> None:
        """Adds the foreign replica to a group, or removes it. The other replicas stay."""
        entity = self._read(number)
        group = entity.packet_replication_engine_entry.multicast_group_entry
        others = [one for one in group.replicas if one.instance != REPLICA]
        del group.replicas[:]
        group.replicas.extend(others)
        if there:
            group.replicas.append(p4r.Replica(instance=REPLICA, egress_port=1))
        self.stub.Write(
            p4r.WriteRequest(
                device_id=DEVICE_ID,
                election_id=U128.encode(self.election_id),
                updates=[p4r.Update(type=p4r.Update.MODIFY, entity=entity)],
            ),
            timeout=PATIENCE_S,
        )

    def _read(self, number: int) -> p4r.Entity:
        group = p4r.MulticastGroupEntry(multicast_group_id=number)
        entry = p4r.PacketReplicationEngineEntry(multicast_group_entry=group)
        wanted = p4r.Entity(packet_replication_engine_entry=entry)
        request = p4r.ReadRequest(device_id=DEVICE_ID, entities=[wanted])
        answers = list(self.stub.Read(request, timeout=PATIENCE_S))
        entities: list[p4r.Entity] = [one for answer in answers for one in answer.entities]
        return entities[0]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("switch")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--spoil", type=int, metavar="GROUP")
    parser.add_argument("--mend", type=int, metavar="GROUP")
    arguments = parser.parse_args()
    with grpc.insecure_channel(arguments.switch) as channel:
        controller = Controller(channel)
        controller.become_primary()
        print(PRIMARY, controller.election_id, flush=True)
        if controller.is_outbid_within(arguments.seconds):
            return EXIT_OUTBID
        if arguments.spoil is not None:
            controller.set_replica(arguments.spoil, there=True)
        if arguments.mend is not None:
            controller.set_replica(arguments.mend, there=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
