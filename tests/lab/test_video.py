from pathlib import Path

import pytest

from lab import video
from lab.netns import Star
from lab.video import Video, Watched
from tests.lab.stand_in import stand_in

VIEWERS = [2, 3, 4]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Video:
    return video.make_video(3, tmp_path_factory.mktemp("video"))


def watch_through_stand_in(star: Star, logs: Path, clip: Video, *mistake: str) -> list[Watched]:
    with stand_in(star, VIEWERS, logs, *mistake):
        return video.watch(clip, star.host(1), [(n, star.host(n)) for n in VIEWERS], logs)


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
    watched = watch_through_stand_in(star, logs, clip, "--lose", "50")
    assert [one.frame_hashes == clip.frame_hashes for one in watched] == [True, True, False]


def test_an_sdp_is_addressed_to_a_viewer() -> None:
    sdp = "SDP:\nv=0\nc=IN IP4 127.0.0.1\nm=video 9 RTP/AVP 96\n"
    expected = "v=0\nc=IN IP4 10.0.1.2\nm=video 5004 RTP/AVP 96\n"
    assert video.sdp_for(sdp, "10.0.1.2", 5004) == expected
