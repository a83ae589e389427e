"""Tests gNMI with finsy, at P4Runtime's address: finsy reads, follows and disables ports."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable

import finsy as fy
import pytest
from controller import EVERY_ENTITY, PATIENCE_S, controller
from finsy.gnmiclient import GNMIClientError
from finsy.grpcutil import GRPCStatusCode
from finsy.ports import OperStatus
from finsy.proto import gnmi

INTERFACE = fy.GNMIPath("interfaces/interface[name=*]")
MS = 1_000_000
FRAME = (7).to_bytes(6) + (9).to_bytes(6) + b"\x08\x00" + bytes(50)


def run(address: str, check: Callable[[fy.GNMIClient], Awaitable[None]]) -> None:
    """Calls `check` with a connected client."""

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), fy.GNMIClient(address) as client:
            await check(client)

    asyncio.run(main())


async def first_port(client: fy.GNMIClient) -> tuple[str, int]:
    """The name and the number of the first port."""
    update = (await client.get(INTERFACE / "state/ifindex"))[0]
    return update.path["name"], update.value


def of(name: str, leaf: str) -> fy.GNMIPath:
    return INTERFACE.set("interface", name=name) / leaf


async def value(client: fy.GNMIClient, name: str, leaf: str) -> object:
    """Reads the value of a leaf of an interface."""
    (update,) = await client.get(of(name, leaf))
    assert update.path == of(name, leaf)
    return update.value


def test_capabilities(address: str) -> None:
    async def check(client: fy.GNMIClient) -> None:
        told = await client.capabilities()
        assert told.gNMI_version == "0.10.0"
        names = [model.name for model in told.supported_models]
        assert names == ["openconfig-interfaces", "openconfig-p4rt"]
        assert gnmi.Encoding.PROTO in told.supported_encodings

    run(address, check)


def test_names_are_mapped_to_port_numbers(address: str, in_memory: bool) -> None:
    async def check(client: fy.GNMIClient) -> None:
        expected = {f"veth{port}": port for port in range(4)} if in_memory else {"sfu0": 1}
        for leaf in ("state/ifindex", "state/id", "config/id"):
            found = await client.get(INTERFACE / leaf)
            assert {update.path["name"]: update.value for update in found} == expected
        kinds = await client.get(INTERFACE / "state/type", config=False)
        assert {update.value for update in kinds} == {"iana-if-type:ethernetCsmacd"}

    run(address, check)


def test_a_port_is_disabled_and_told_so(address: str) -> None:
    async def check(client: fy.GNMIClient) -> None:
        name, _ = await first_port(client)
        subscription = client.subscribe()
        subscription.on_change(of(name, "state/oper-status"))
        async for update in subscription.synchronize():
            assert update.value == "UP"
        updates = subscription.updates()
        for enabled, status in ((False, "DOWN"), (True, "UP")):
            await client.set(update=[(of(name, "config/enabled"), enabled)])
            assert (await anext(updates)).value == status
            assert await value(client, name, "config/enabled") is enabled
            assert await value(client, name, "state/admin-status") == status
        await client.set(replace=[(of(name, "config/enabled"), False)])
        assert (await anext(updates)).value == "DOWN"
        await client.set(delete=[of(name, "config/enabled")])
        assert (await anext(updates)).value == "UP"
        subscription.cancel()

    run(address, check)


def test_a_subscription_once_and_samples(address: str) -> None:
    async def check(client: fy.GNMIClient) -> None:
        name, number = await first_port(client)
        subscription = client.subscribe()
        subscription.once(of(name, "state"))
        found = {update.path.last: update.value async for update in subscription.synchronize()}
        assert (found["name"], found["ifindex"], found["enabled"]) == (name, number, True)
        assert {"in-octets", "out-pkts", "out-discards"} < set(found)

        subscription = client.subscribe()
        subscription.sample(of(name, "state/counters/in-octets"), sample_interval=100 * MS)
        octets = [update.value async for update in subscription.synchronize()]
        assert len(octets) == 1
        updates = subscription.updates()
        for _ in range(3):
            assert (await anext(updates)).value >= octets[0]
        subscription.cancel()

    run(address, check)


def test_a_poll_is_answered_each_time(address: str) -> None:
    async def check(client: fy.GNMIClient) -> None:
        name, _ = await first_port(client)
        # finsy's client cannot poll, so this uses its stubs.
        stub = client._stub
        assert stub is not None
        paths = gnmi.SubscriptionList(
            mode=gnmi.SubscriptionList.Mode.POLL,
            subscription=[gnmi.Subscription(path=of(name, "state/ifindex").path)],
        )
        stream = stub.Subscribe()
        await stream.write(gnmi.SubscribeRequest(subscribe=paths))
        for times in range(4):
            if times:
                await stream.write(gnmi.SubscribeRequest(poll=gnmi.Poll()))
            update, sync = await stream.read(), await stream.read()
            assert len(update.update.update) == 1
            assert sync.sync_response
        stream.cancel()

    run(address, check)


def test_counters_are_the_frames_of_packet_outs(address: str, in_memory: bool) -> None:
    async def check(client: fy.GNMIClient) -> None:
        async with controller(address, EVERY_ENTITY) as switch:
            # In the switch in memory, frames out of port 3 (veth3) come in at port 0 (veth0).
            out, back = ("veth3", "veth0") if in_memory else ("sfu0", None)
            assert all(port.oper_status == OperStatus.UP for port in switch.ports)
            number = int(str(await value(client, out, "state/ifindex")))
            names = [(out, "out-pkts"), (out, "out-octets")]
            names += [(back, "in-pkts"), (back, "in-octets")] if back else []

            async def counters() -> list[int]:
                found = []
                for name, leaf in names:
                    found.append(int(str(await value(client, name, f"state/counters/{leaf}"))))
                return found

            before = await counters()
            packet = fy.P4PacketOut(FRAME, egress_port=number, _pad=0)
            await switch.write([packet] * 5)
            while (await counters())[-1] < before[-1] + 5 * (len(FRAME) if back else 1):
                await asyncio.sleep(0.01)
            grown = [after - was for was, after in zip(before, await counters(), strict=True)]
            assert grown == [5, 5 * len(FRAME)] * (len(names) // 2)

    run(address, check)


def test_the_controller_s_port_follows_a_link_that_goes_down(address: str, in_memory: bool) -> None:
    if in_memory:
        pytest.skip("NOT TESTED, a switch in memory has no interfaces")

    def link(state: str) -> None:
        subprocess.run(["ip", "link", "set", "sfu0", state], check=True)

    async def check(client: fy.GNMIClient) -> None:
        async with controller(address, EVERY_ENTITY) as switch:
            # finsy's P4Runtime controller follows the ports by gNMI, on the same connection.
            (port,) = switch.ports
            subscription = client.subscribe()
            subscription.on_change(of("sfu0", "state/oper-status"))
            assert [update.value async for update in subscription.synchronize()] == ["UP"]
            updates = subscription.updates()
            try:
                for state in ("down", "up"):
                    link(state)
                    assert (await anext(updates)).value == state.upper()
                    while port.oper_status != OperStatus(state.upper()):
                        await asyncio.sleep(0.01)
            finally:
                link("up")
            subscription.cancel()

    run(address, check)


def test_mistakes_are_told_by_their_path(address: str) -> None:
    async def check(client: fy.GNMIClient) -> None:
        name, _ = await first_port(client)

        async def refused(call: Awaitable[object], word: str) -> GRPCStatusCode:
            with pytest.raises(GNMIClientError) as error:
                await call
            assert word in error.value.message
            return error.value.code

        codes = GRPCStatusCode
        unknown = fy.GNMIPath("system/state/hostname")
        assert await refused(client.get(unknown), "/system") == codes.INVALID_ARGUMENT
        missing = of("eth99", "state/id")
        assert await refused(client.get(missing), "eth99") == codes.NOT_FOUND
        setting = client.set(update=[(of("eth99", "config/enabled"), False)])
        assert await refused(setting, "eth99") == codes.NOT_FOUND
        setting = client.set(update=[(of(name, "config/enabled"), "no")])
        assert await refused(setting, "true or false") == codes.INVALID_ARGUMENT

    run(address, check)
