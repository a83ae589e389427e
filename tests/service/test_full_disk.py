"""A store whose disk is full refuses changes, loses none, and goes on when there is room again."""

from pathlib import Path
from typing import Any

import pytest
from reprise_conference import Client, ProblemError

from tests.needs import need
from tests.service.site import Site, lacks

N_PARTICIPANTS_MAX = 4_000
SDP = "v=0\r\n" + "a=fmtp:96 " + "x" * 8_000
"""A session description that makes the store grow."""


def join(client: Client, name: str) -> dict[str, Any]:
    quality = {"name": "one", "max_kbps": 100}
    track = {"kind": "video", "sdp": SDP, "qualities": [quality]}
    path = ("conferences", "c", "participants", name)
    return client.request("PUT", path, {"tracks": {"cam": track}})


def test_what_was_answered_is_there_and_the_service_goes_on(tmp_path: Path) -> None:
    need(lacks(with_etcd=False))
    site = Site(tmp_path, with_etcd=False)
    with site.running():
        client = site.administrators[0]
        client.put_conference("c")
        pid = site.services[0].process.pid
        answered: list[str] = []

        def fill() -> None:
            for number in range(N_PARTICIPANTS_MAX):
                name = f"p{number}"
                join(client, name)
                answered.append(name)

        with site.full_disk(), pytest.raises((ProblemError, OSError)) as refused:
            fill()
        if isinstance(refused.value, ProblemError):
            assert refused.value.status == 503
        assert len(answered) < N_PARTICIPANTS_MAX
        # With room again, the next requests are done.
        site.ask(lambda client: join(client, "later"))
        there = site.ask(lambda client: client.conference("c"))["participants"]
        assert {*answered, "later"} <= there.keys()
        log = site.services[0].process.said
        assert log.count("ERROR the store failed") == 1
        assert "the store takes writes again" in log
        assert site.services[0].process.pid == pid
        site.services[0].process.stop()
        site.services[0].process.start()
        there = site.ask(lambda client: client.conference("c"))["participants"]
        assert {*answered, "later"} <= there.keys()
