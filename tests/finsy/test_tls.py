"""P4Runtime over TLS, as finsy and gRPC's own library for Python speak it."""

import asyncio
from pathlib import Path

import finsy as fy
import pytest
from finsy.grpcutil import GRPCCredentialsTLS, GRPCStatusCode
from finsy.p4client import P4ClientError
from test_finsy import FIXTURE, P4INFO, PATIENCE_S, read_all

OverTls = tuple[str, Path]


def credentials(
    folder: Path, client: str | None, authority: str = "ca", name: str = ""
) -> GRPCCredentialsTLS:
    """What a controller shows, and whom it trusts."""
    return GRPCCredentialsTLS(
        cacert=folder / f"{authority}.pem",
        cert=folder / f"{client}.pem" if client else None,
        private_key=folder / f"{client}.key" if client else None,
        target_name_override=name,
    )


def switch(address: str, shown: GRPCCredentialsTLS | None, election_id: int = 10) -> fy.Switch:
    """A switch that is spoken to so."""
    options = fy.SwitchOptions(
        p4info=P4INFO,
        p4blob=FIXTURE / "bridge.json",
        p4force=True,
        device_id=1,
        initial_election_id=election_id,
        channel_credentials=shown,
    )
    return fy.Switch("sw1", address, options)


def refused(address: str, shown: GRPCCredentialsTLS | None) -> None:
    """The switch is not reached, with a higher election id neither."""

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), switch(address, shown, election_id=1000):
            pass

    with pytest.raises(P4ClientError) as error:
        asyncio.run(main())
    assert error.value.code == GRPCStatusCode.UNAVAILABLE


# spec: tls.mutual
def test_a_controller_with_a_certificate_writes_and_the_others_do_not(over_tls: OverTls) -> None:
    address, folder = over_tls
    client = credentials(folder, "client")

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), switch(address, client) as primary:
            assert primary.is_primary
            entry = fy.P4TableEntry(
                "routes",
                match=fy.Match({"src": (0x0200 << 32, 16)}),
                action=fy.Action("set_port", port=2),
            )
            await primary.insert([entry])
            assert len(await read_all(primary, fy.P4TableEntry("routes"))) == 1

    asyncio.run(main())
    for stranger in (None, "expired", "other"):
        refused(address, credentials(folder, stranger))


# spec: tls.only
def test_a_controller_without_tls_is_not_let_in(over_tls: OverTls) -> None:
    refused(over_tls[0], None)


def test_a_controller_that_does_not_trust_the_switch_does_not_connect(over_tls: OverTls) -> None:
    address, folder = over_tls
    refused(address, credentials(folder, "client", authority="other-ca"))
    refused(address, credentials(folder, "client", name="another.example"))
