"""The P4 rows, with real packets."""

from pathlib import Path

import pytest

from lab.rows import in_kernel
from lab.rows.p4 import ConferenceRow, P4Recirculation, P4Replication
from lab.rows.row import Variant
from lab.sites import SITES
from tests.rows.exchange import serves_and_stops_serving

pytestmark = pytest.mark.usefixtures("namespaces")

CASES = [
    (row, topology, Variant(engine, port, "sleep"))
    for row, topology, engine, port in (
        (P4Replication, "one_port", "native", "afpacket"),
        (P4Replication, "one_port", "interpreter", "udp"),
        (P4Replication, "port_per_host", "native", "afxdp"),
        (P4Recirculation, "one_port", "native", "afpacket"),
    )
] + [
    (P4Replication, "one_port", Variant("kernel", in_kernel.PORT, in_kernel.SHARED)),
    (P4Replication, "port_per_host", Variant("kernel", in_kernel.PORT, in_kernel.THREAD)),
]


@pytest.mark.parametrize(("row", "topology", "variant"), CASES)
def test_it_serves(
    row: type[ConferenceRow],
    topology: str,
    variant: Variant,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if variant.port in ("afxdp", in_kernel.PORT):
        request.getfixturevalue("system_root")
    with SITES[topology](4) as site, row(site, variant, tmp_path) as running:
        serves_and_stops_serving(running)
