import sys
from pathlib import Path

import pytest

from lab import netns, video
from lab.addresses import SFU_IP, SFU_MAC
from lab.netns import SFU_INTERFACE, Star
from lab.video import Video, Watched

VIEWERS = [2, 3, 4]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Video:
    return video.make_video(3, tmp_path_factory.mktemp("video"))


def watch_through_stand_in(star: Star, logs: Path, clip: Video, *mistake: str) -> list[Watched]:
    star.host(1).run(
        ["ip", "neighbour", "add", SFU_IP, "lladdr", SFU_MAC, "dev", netns.HOST_INTERFACE]
    )
    stand_in = [sys.executable, "-m", "tests.lab.replicator", SFU_INTERFACE, *map(str, VIEWERS)]
    with star.sfu.start([*stand_in, *mistake], logs / "replicator.log") as replicator:
        replicator.wait_for_line("ready:", 120.0)
        viewers = [(n, star.host(n)) for n in VIEWERS]
        return video.watch(clip, star.host(1), viewers, logs)


def test_viewers_of_a_right_stream_decode_every_frame_up_to_the_last(
    star: Star, logs: Path, clip: Video
) -> None:
    watched = watch_through_stand_in(star, logs, clip)
    assert len(clip.frame_hashes) == 90
    assert len(set(clip.frame_hashes)) == 90
    assert [one.viewer for one in watched] == VIEWERS
    for one in watched:
        assert one.frame_hashes == clip.frame_hashes


def test_a_viewer_that_lost_packets_does_not_decode_the_same_frames(
    star: Star, logs: Path, clip: Video
) -> None:
    watched = watch_through_stand_in(star, logs, clip, "--mistake", "lose", "--every", "50")
    assert [one.frame_hashes == clip.frame_hashes for one in watched] == [True, True, False]


def test_an_sdp_is_addressed_to_a_viewer() -> None:
    sdp = "SDP:\nv=0\nc=IN IP4 127.0.0.1\nm=video 9 RTP/AVP 96\n"
    expected = "v=0\nc=IN IP4 10.0.1.2\nm=video 5004 RTP/AVP 96\n"
    assert video.sdp_for(sdp, "10.0.1.2", 5004) == expected
