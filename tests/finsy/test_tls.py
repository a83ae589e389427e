"""P4Runtime over TLS, as finsy and gRPC's own library for Python speak it."""

import asyncio
from pathlib import Path

import finsy as fy
import pytest
from controller import BRIDGE, PATIENCE_S, controller, read_all, run
from finsy.grpcutil import GRPCCredentialsTLS, GRPCStatusCode
from finsy.p4client import P4ClientError

OverTls = tuple[str, Path]


def credentials(
    folder: Path, client: str | None, authority: str = "ca", name: str = ""
) -> GRPCCredentialsTLS:
    """Makes a controller's credentials: the certificate it shows, and the authority it trusts."""
    return GRPCCredentialsTLS(
        cacert=folder / f"{authority}.pem",
        cert=folder / f"{client}.pem" if client else None,
        private_key=folder / f"{client}.key" if client else None,
        target_name_override=name,
    )


def refused(address: str, shown: GRPCCredentialsTLS | None) -> None:
    """Checks that a controller with these credentials can't connect, even with a high election
    id."""

    async def main() -> None:
        stranger = controller(address, BRIDGE, channel_credentials=shown, initial_election_id=1000)
        async with asyncio.timeout(PATIENCE_S), stranger:
            pass

    with pytest.raises(P4ClientError) as error:
        asyncio.run(main())
    assert error.value.code == GRPCStatusCode.UNAVAILABLE


# spec: tls.mutual
def test_a_controller_with_a_certificate_writes_and_the_others_do_not(over_tls: OverTls) -> None:
    address, folder = over_tls

    async def check(primary: fy.Switch) -> None:
        entry = fy.P4TableEntry(
            "routes",
            match=fy.Match({"src": (0x0200 << 32, 16)}),
            action=fy.Action("set_port", port=2),
        )
        await primary.insert([entry])
        assert len(await read_all(primary, fy.P4TableEntry("routes"))) == 1

    run(address, BRIDGE, check, channel_credentials=credentials(folder, "client"))
    for stranger in (None, "expired", "other"):
        refused(address, credentials(folder, stranger))


# spec: tls.only
def test_a_controller_without_tls_is_not_let_in(over_tls: OverTls) -> None:
    refused(over_tls[0], None)


def test_a_controller_that_does_not_trust_the_switch_does_not_connect(over_tls: OverTls) -> None:
    address, folder = over_tls
    refused(address, credentials(folder, "client", authority="other-ca"))
    refused(address, credentials(folder, "client", name="another.example"))
