"""The traces of real media are valid. An invalid file is refused, and its wrong line is named."""

import gzip
import itertools
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from lab.media import (
    COLUMNS,
    FOLDER,
    FRAME_LEN_BYTES_MAX,
    Facts,
    MediaError,
    MediaTrace,
    Packet,
    names,
    read,
    read_file,
    write_file,
)
from lab.media.make import (
    KEY_FRAME_EVERY,
    RECIPES,
    RTP_PACKET_BYTES_MAX,
    Collector,
    Recipe,
    RtpPacket,
    timed,
)
from lab.meter import Trace
from lab.offered import packets_of
from tests.study.synthetic import cell_of, part_of

VIDEOS = [recipe.name for recipe in RECIPES if recipe.is_video]
FACTS = Facts("H.264", "RFC 6184", 3_000_000, 30, 100, "by hand")
FACTS_LINE = (
    '{"codec": "H.264", "payload_format": "RFC 6184", "bitrate_bps": 3000000, '
    '"frames_per_s": 30, "duration_ns": 100, "made": "by hand"}'
)


def frames_of(trace: MediaTrace) -> list[list[Packet]]:
    return [list(frame) for _, frame in itertools.groupby(trace.packets, lambda one: one.time_ns)]


def test_every_recipe_has_its_trace_and_they_are_small() -> None:
    assert names() == sorted(recipe.name for recipe in RECIPES)
    assert sum(path.stat().st_size for path in FOLDER.glob("*.gz")) < 100_000


@pytest.mark.parametrize("name", names())
def test_rates_are_near_the_nominal_ones(name: str) -> None:
    trace = read(name)
    duration_s = trace.facts.duration_ns / 1e9
    payload_bits = 8 * sum(one.frame_len_bytes - 54 for one in trace.packets)
    share = payload_bits / duration_s / trace.facts.bitrate_bps
    assert 0.95 < share < 1.05 if name in VIDEOS else 0.75 < share < 1  # a voice has pauses
    assert len(frames_of(trace)) == duration_s * trace.facts.frames_per_s


@pytest.mark.parametrize("name", names())
def test_packets_fit_into_ethernet_frames_and_rtp_packets(name: str) -> None:
    longest = max(packet.frame_len_bytes for packet in read(name).packets)
    assert longest <= RTP_PACKET_BYTES_MAX + 42 <= FRAME_LEN_BYTES_MAX


@pytest.mark.parametrize("name", VIDEOS)
def test_key_frames_are_bursts(name: str) -> None:
    frames = frames_of(read(name))
    is_key = [frame[0].is_keyframe for frame in frames]
    assert [number for number, key in enumerate(is_key) if key] == list(
        range(0, len(frames), KEY_FRAME_EVERY)
    )
    keys = [len(frame) for frame, key in zip(frames, is_key, strict=True) if key]
    others = [len(frame) for frame, key in zip(frames, is_key, strict=True) if not key]
    assert min(keys) > 2.5 * sum(others) / len(others)
    assert min(keys) > max(others)


@pytest.mark.parametrize("name", VIDEOS)
def test_a_frame_has_one_last_packet_and_is_whole_one_kind(name: str) -> None:
    for frame in frames_of(read(name)):
        assert [one.is_last_of_frame for one in frame] == [False] * (len(frame) - 1) + [True]
        assert len({one.is_keyframe for one in frame}) == 1


def test_audio_is_a_packet_each_20_ms_of_many_sizes() -> None:
    packets = read("opus").packets
    assert [one.time_ns for one in packets] == [20_000_000 * n for n in range(500)]
    sizes = [one.frame_len_bytes for one in packets]
    assert len(set(sizes)) > 20


@pytest.mark.parametrize("name", names())
def test_a_trace_follows_itself_without_a_jump(name: str) -> None:
    trace = read(name)
    packets = trace.lasting(25)
    times = [frame[0].time_ns for frame in frames_of(MediaTrace(trace.facts, packets))]
    steps = {after - before for before, after in itertools.pairwise(times)}
    interval_ns = 10**9 / trace.facts.frames_per_s
    assert all(abs(step - interval_ns) <= 1 for step in steps)
    assert times[-1] < 25 * 10**9 <= times[-1] + interval_ns + 1
    assert packets[: len(trace.packets)] == trace.packets
    assert packets[len(trace.packets)].is_keyframe


def test_a_shorter_run_is_the_beginning() -> None:
    trace = read("h264")
    short = trace.lasting(1)
    assert short == trace.packets[: len(short)]
    assert short[-1].time_ns < 10**9 <= trace.packets[len(short)].time_ns


def test_who_looks_in_later_sees_the_rest_and_then_all_again() -> None:
    trace = read("vp8")
    begin_ns = 4 * 10**9 + 1
    seen = trace.lasting(10, begin_ns)
    rest = [one for one in trace.packets if one.time_ns >= begin_ns]
    assert [replace(one, time_ns=one.time_ns + begin_ns) for one in seen[: len(rest)]] == rest
    again = seen[len(rest) :]
    assert [one.frame_len_bytes for one in again] == [
        one.frame_len_bytes for one in trace.packets[: len(again)]
    ]
    assert len(seen) == len(trace.packets)
    assert again[0].time_ns == trace.facts.duration_ns - begin_ns
    for outside in (-1, trace.facts.duration_ns):
        with pytest.raises(ValueError, match="expected to begin within the trace"):
            trace.lasting(10, outside)


@pytest.mark.parametrize("duration_s", [0, -1, float("nan"), float("inf")])
def test_a_run_lasts_for_some_time(duration_s: float) -> None:
    with pytest.raises(ValueError, match="expected a duration in seconds above 0"):
        read("opus").lasting(duration_s)


def test_a_written_trace_is_read_back_and_its_file_is_always_the_same(tmp_path: Path) -> None:
    trace = MediaTrace(FACTS, (Packet(0, 100, True, False), Packet(33, 1514, False, True)))
    one, other = tmp_path / "one.csv.gz", tmp_path / "other.csv.gz"
    write_file(one, trace)
    write_file(other, trace)
    assert read_file(one) == trace
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("name", ["../x", "mp3"])
def test_a_name_that_is_none_is_told_those_there_are(name: str) -> None:
    said = f"expected one of av1, h264, opus, vp8, found '{name}'"
    with pytest.raises(MediaError, match=re.escape(said)):
        read(name)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "expected facts, columns and packets, found 0 lines"),
        (f"{{}}\n{COLUMNS}\n0,1,1,1\n", "line 1: expected JSON with codec, payload_format"),
        (f"x\n{COLUMNS}\n0,1,1,1\n", "line 1: expected JSON"),
        (f"{FACTS_LINE.replace('100', '0')}\n{COLUMNS}\n0,1,1,1\n", "duration_ns above 0, found 0"),
        (f"{FACTS_LINE}\ntime\n0,1,1,1\n", "line 2: expected 'time_ns,"),
        (f"{FACTS_LINE}\n{COLUMNS}\n0,1,1\n", "line 3: expected four numbers, found '0,1,1'"),
        (f"{FACTS_LINE}\n{COLUMNS}\n0,x,1,1\n", "line 3: expected four numbers"),
        (f"{FACTS_LINE}\n{COLUMNS}\n0,0,1,1\n", "line 3: expected a payload of 1 to 1460 bytes"),
        (f"{FACTS_LINE}\n{COLUMNS}\n0,1461,1,1\n", "found 1461"),
        (f"{FACTS_LINE}\n{COLUMNS}\n0,1,2,1\n", "line 3: expected flags that are 0 or 1"),
        (f"{FACTS_LINE}\n{COLUMNS}\n1,1,1,1\n", "expected the first packet at 0, found 1 ns"),
        (
            f"{FACTS_LINE}\n{COLUMNS}\n0,1,1,1\n9,1,1,1\n8,1,1,1\n",
            "line 5: expected a time not before the line above",
        ),
        (f"{FACTS_LINE}\n{COLUMNS}\n0,1,1,1\n100,1,1,1\n", "expected packets before 100 ns"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "bad.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(MediaError, match=r"bad\.csv\.gz") as refused:
        read_file(path)
    assert complaint in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"time_ns", gzip.compress(b"x" * 999, mtime=0)[:-9]])
def test_a_file_that_is_no_whole_gzip_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad.csv.gz"
    path.write_bytes(data)
    with pytest.raises(MediaError, match=r"bad\.csv\.gz"):
        read_file(path)


def test_what_is_muxed_is_collected_without_rtcp() -> None:
    collector = Collector()
    rtp = bytes([0x80, 0x80 | 96]) + bytes(2) + (3000).to_bytes(4) + bytes(4) + b"payload"
    sender_report = bytes([0x80, 200]) + bytes(26)
    for packet in (rtp, sender_report, memoryview(rtp)):
        assert collector.write(packet) == len(packet)
    assert collector.packets == [RtpPacket(3000, 7, True)] * 2


@pytest.mark.parametrize(
    ("packets", "key_frames", "complaint"),
    [
        ([RtpPacket(0, 1, True)], [True], "expected 20 frames"),
        ([RtpPacket(n, 1, True) for n in range(20)], [False] * 20, "the first a key frame"),
        ([RtpPacket(n, 1, n != 7) for n in range(20)], [True] * 20, "frame 7 has its marker"),
    ],
)
def test_frames_that_are_not_whole_are_no_trace(
    packets: list[RtpPacket], key_frames: list[bool], complaint: str
) -> None:
    recipe = Recipe("test", "", "", "", "", frames_per_s=2)
    with pytest.raises(SystemExit, match=complaint):
        list(timed(packets, key_frames, recipe))


def test_a_stream_of_media_is_the_trace_for_as_long_as_the_part() -> None:
    of_media = part_of("viewers: 2\n    streams: [{media: h264}]\n    duration_s: 12")
    offered = packets_of(of_media.streams[0], of_media, random.Random(1), cell_of(2))
    assert isinstance(offered, Trace)
    whole = read("h264").lasting(12)
    assert offered.packets == tuple((one.time_ns, max(70, one.frame_len_bytes)) for one in whole)
    assert sum(one.frame_len_bytes < 70 for one in whole) < len(whole) / 500


def test_senders_of_the_same_media_have_their_key_frames_at_other_times() -> None:
    of_media = part_of("senders: everybody\n    participants: 3\n    streams: [{media: h264}]")
    one, other = (
        packets_of(of_media.streams[0], of_media, random.Random(seed), cell_of(3, senders=3))
        for seed in (1, 2)
    )
    assert isinstance(one, Trace)
    assert isinstance(other, Trace)
    assert one != other
    assert 0 <= one.packets[0][0] < 10**9 / 30
