"""Makes the traces: ffmpeg generates and encodes a picture and a voice.

FFmpeg's RTP muxer makes the packets.

The picture resembles a person in front of a camera that does not move: a detailed, still
background, something that moves in the middle, and a sensor's noise. The voice is noise in
syllables, with pauses. Encoders get a conference's settings: no B-frames, no look-ahead, a constant
bitrate, a key frame every 2.5 s. The first 5 s, in which rate control settles, are left out.

The muxer is that of PyAV's FFmpeg, which writes to memory. It is used for two reasons: Debian 12's
ffmpeg cannot put AV1 into RTP, and with PyAV the frame to which each packet belongs is known. RTP
packets have at most 1200 bytes, as in WebRTC.
"""

import io
import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from lab.media import (
    FOLDER,
    HEADERS_BYTES,
    RTP_HEADER_BYTES,
    SUFFIX,
    Facts,
    MediaTrace,
    Packet,
    write_file,
)
from lab.process import run

PYAV = "av==18.1.0"
RTP_PACKET_BYTES_MAX = 1200
# FFmpeg treats AV1 in RTP as experimental, because its payload format is not an RFC yet.
MUXER_OPTIONS = {"packetsize": str(RTP_PACKET_BYTES_MAX), "strict": "experimental"}
SETTLING_S = 5
DURATION_S = 10
VIDEO_BPS = 3_000_000
AUDIO_BPS = 40_000
VIDEO_FPS = 30
AUDIO_FPS = 50
KEY_FRAME_EVERY = 75
ENCODING_TIMEOUT_S = 1800.0


def _picture(width: int, height: int) -> str:
    return (
        f"mandelbrot=size={width}x{height}:rate={VIDEO_FPS}:start_scale=0.3:end_scale=0.3,"
        f"loop=loop=-1:size=1,setpts=N/({VIDEO_FPS}*TB)[room];"
        f"testsrc2=size={width // 4}x{height // 2}:rate={VIDEO_FPS}[head];"
        "[room][head]overlay=x='(W-w)/2+W/40*sin(2*t)':y='H-h+H/80*sin(5*t)',"
        "noise=all_seed=1:alls=6:allf=t,format=yuv420p"
    )


# Four syllables a second, over a room's noise. Every fourth second is silent.
_VOICE = (
    "anoisesrc=color=pink:sample_rate=48000:amplitude=0.5:seed=1,"
    "volume='if(lt(mod(t,4),3),0.1+0.9*pow(sin(PI*4*t),2),0.005)':eval=frame"
)
_GROUP = f"-g {KEY_FRAME_EVERY} -b:v {VIDEO_BPS}"


@dataclass(frozen=True, slots=True)
class Recipe:
    name: str
    codec: str
    payload_format: str
    source: str
    options: str
    """ffmpeg's options for the encoder."""
    is_video: bool = True
    frames_per_s: int = VIDEO_FPS


RECIPES = (
    Recipe(
        "h264",
        "H.264, 1920x1080",
        "RFC 6184",
        _picture(1920, 1080),
        f"-c:v libx264 -threads 1 -preset veryfast -tune zerolatency -profile:v main {_GROUP} "
        f"-keyint_min {KEY_FRAME_EVERY} -sc_threshold 0 -maxrate {VIDEO_BPS} "
        f"-bufsize {VIDEO_BPS // 2} -x264-params sliced-threads=0:repeat-headers=1",
    ),
    Recipe(
        "vp8",
        "VP8, 1280x720",
        "RFC 7741",
        _picture(1280, 720),
        f"-c:v libvpx -deadline realtime -cpu-used -6 -lag-in-frames 0 -error-resilient 1 {_GROUP} "
        f"-keyint_min {KEY_FRAME_EVERY} -minrate {VIDEO_BPS} -maxrate {VIDEO_BPS} "
        f"-bufsize {VIDEO_BPS // 2}",
    ),
    Recipe(
        "av1",
        "AV1, 1280x720",
        "RTP Payload Format For AV1, version 1.0",
        _picture(1280, 720),
        f"-c:v libaom-av1 -usage realtime -cpu-used 8 -lag-in-frames 0 -row-mt 1 {_GROUP} "
        f"-keyint_min {KEY_FRAME_EVERY} -minrate {VIDEO_BPS} -maxrate {VIDEO_BPS} "
        f"-bufsize {VIDEO_BPS // 2}",
    ),
    Recipe(
        "opus",
        "Opus, 48 kHz, mono",
        "RFC 7587",
        _VOICE,
        f"-ac 1 -c:a libopus -application voip -frame_duration 20 -vbr on -b:a {AUDIO_BPS}",
        is_video=False,
        frames_per_s=AUDIO_FPS,
    ),
)


def make(recipe: Recipe) -> Path:
    with tempfile.TemporaryDirectory(prefix="reprise-media-") as folder:
        encoded = Path(folder, "encoded.mkv")
        _encode(recipe, encoded)
        packets, muxer = _rtp_packets(encoded, recipe)
    facts = Facts(
        codec=recipe.codec,
        payload_format=recipe.payload_format,
        bitrate_bps=VIDEO_BPS if recipe.is_video else AUDIO_BPS,
        frames_per_s=recipe.frames_per_s,
        duration_ns=DURATION_S * 10**9,
        made=f"{_ffmpeg_version()}: {recipe.options}; RTP by {muxer}",
    )
    path = FOLDER / f"{recipe.name}{SUFFIX}"
    write_file(path, MediaTrace(facts, tuple(packets)))
    return path


def _ffmpeg_version() -> str:
    return " ".join(run(["ffmpeg", "-version"]).splitlines()[0].split()[:3])


def _encode(recipe: Recipe, file: Path) -> None:
    argv = ["ffmpeg", "-hide_banner", "-loglevel", "error", "-nostdin", "-y"]
    argv += ["-f", "lavfi", "-i", recipe.source, "-t", str(SETTLING_S + DURATION_S)]
    run([*argv, *recipe.options.split(), str(file)], timeout_s=ENCODING_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class RtpPacket:
    timestamp: int
    payload_bytes: int
    marker: bool


class Collector(io.RawIOBase):
    """Collects the RTP packets of the muxer, which writes one RTP or RTCP packet at a time."""

    def __init__(self) -> None:
        self.packets: list[RtpPacket] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        """Takes RTP and ignores RTCP. RFC 5761, section 4, says how to tell them apart."""
        packet = bytes(memoryview(data))  # type: ignore[arg-type]
        payload_type = packet[1] & 0x7F
        if not 64 <= payload_type <= 95:
            timestamp = int.from_bytes(packet[4:8])
            marker = bool(packet[1] & 0x80)
            self.packets.append(RtpPacket(timestamp, len(packet) - RTP_HEADER_BYTES, marker))
        return len(packet)


def _rtp_packets(encoded: Path, recipe: Recipe) -> tuple[list[Packet], str]:
    """The packets of the frames after the first seconds, and the muxer's version."""
    try:
        import av  # type: ignore[import-not-found]  # noqa: PLC0415  only who makes traces has it
    except ModuleNotFoundError:
        raise SystemExit(f"making traces needs PyAV: .venv/bin/pip install {PYAV}") from None
    collector = Collector()
    key_frames: list[bool] = []
    with (
        av.open(str(encoded)) as source,
        av.open(collector, "w", format="rtp", options=MUXER_OPTIONS) as muxer,
    ):
        # With `opaque`, PyAV passes packets on unchanged and opens no codec. Without `opaque` it
        # would open a decoder for AV1.
        stream = muxer.add_stream_from_template(source.streams[0], opaque=True)
        for packet in source.demux(source.streams[0]):
            if packet.dts is None or not _is_wanted(packet.pts * packet.time_base):
                continue
            key_frames.append(bool(packet.is_keyframe))
            packet.stream = stream
            muxer.mux(packet)
    version = f"FFmpeg {av.ffmpeg_version_info} of PyAV {av.__version__}"
    return list(timed(collector.packets, key_frames, recipe)), version


def _is_wanted(time_s: Fraction) -> bool:
    # Half a millisecond of tolerance, far less than a frame lasts: Matroska rounds times to
    # milliseconds, and Opus begins before 0.
    return SETTLING_S <= time_s + Fraction(1, 2000) < SETTLING_S + DURATION_S


def timed(packets: list[RtpPacket], key_frames: list[bool], recipe: Recipe) -> Iterator[Packet]:
    """Yields the muxer's packets with their times.

    Packets with the same RTP timestamp are one frame; the nth frame has the time at which it is
    captured at the frame rate.
    """
    frames = [list(group) for _, group in itertools.groupby(packets, lambda one: one.timestamp)]
    n_due = DURATION_S * recipe.frames_per_s
    if not len(frames) == len(key_frames) == n_due or not key_frames[0]:
        raise SystemExit(
            f"{recipe.name}: expected {n_due} frames, the first a key frame, "
            f"found {len(key_frames)} encoded and {len(frames)} in RTP"
        )
    for number, (frame, is_keyframe) in enumerate(zip(frames, key_frames, strict=True)):
        time_ns = number * 10**9 // recipe.frames_per_s
        for at, one in enumerate(frame, 1):
            is_last = at == len(frame)
            if recipe.is_video and one.marker != is_last:
                raise SystemExit(f"{recipe.name}: frame {number} has its marker elsewhere")
            yield Packet(time_ns, one.payload_bytes + HEADERS_BYTES, is_keyframe, is_last)
