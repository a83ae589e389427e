"""Tests `reprise record`: its files have every packet, whichever process is killed."""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from reprise_conference import MediaSocket

from lab.controller import REPRISE
from tests.needs import need
from tests.service.running import (
    LIMIT_S,
    Process,
    Running,
    opened,
    participant_token,
    publish,
    rtp,
)

FRAMES_PER_S = 25


class Recorder(Process):
    """A process of `reprise record` that writes to `folder`. The words in `before` are put before
    its command."""

    def __init__(
        self, running: Running, folder: Path, *options: object, before: tuple[object, ...] = ()
    ) -> None:
        self.folder = folder
        token = participant_token("c", "rec", publish=[])
        record = (REPRISE, "record", running.url, "--token", token, "--to", folder, *options)
        super().__init__([*before, *record], folder.with_suffix(".log"))

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def begin(self) -> None:
        """Starts the recorder, and waits until it has read the conference and gets events."""
        self.start()
        self.until("records conference c")
        self.until_events(read=1)

    def end(self) -> None:
        """Waits until the recorder has ended by itself."""
        assert self._process is not None
        self._process.wait(LIMIT_S)
        self._process = None

    def until(self, text: str) -> None:
        """Waits until the recorder has printed this text."""
        until = time.monotonic() + LIMIT_S
        while text not in self.said:
            assert time.monotonic() < until, self.said
            time.sleep(0.02)

    def catalog(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "recording.json").read_text())
        return found

    def events(self) -> list[dict[str, Any]]:
        file = self.folder / "events.jsonl"
        text = file.read_text() if file.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def until_events(self, **counts: int) -> None:
        """Waits until the recorder's events contain this number of each kind."""
        until = time.monotonic() + LIMIT_S
        while True:
            kinds = [event["event"] for event in self.events()]
            if all(kinds.count(kind) == n for kind, n in counts.items()):
                return
            assert time.monotonic() < until, (kinds, self.said)
            time.sleep(0.1)

    def packets(self, file: str) -> list[bytes]:
        return packets_of(self.folder / file)


def packets_of(file: Path) -> list[bytes]:
    """Returns the UDP payloads of a pcapng file with IPv4 packets. All its blocks must be whole."""
    data = file.read_bytes()
    found = []
    while data:
        kind, length = struct.unpack_from("<II", data)
        assert len(data) >= length >= 12
        assert struct.unpack_from("<I", data, length - 4) == (length,)
        if kind == 1:
            # LINKTYPE_RAW
            assert struct.unpack_from("<H", data, 8) == (101,)
        if kind == 6:
            (captured,) = struct.unpack_from("<I", data, 20)
            packet = data[28 : 28 + captured]
            assert packet[0] == 0x45
            assert checksum(packet[:20]) == 0
            assert struct.unpack_from("!H", packet, 2) == (captured,)
            assert packet[9] == socket.IPPROTO_UDP
            found.append(packet[28:])
        data = data[length:]
    return found


def checksum(header: bytes) -> int:
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return int(total) ^ 0xFFFF


def sequence(packet: bytes) -> int:
    return int.from_bytes(packet[2:4], "big")


class Sender:
    """Sends numbered packets, 100 a second, from a thread."""

    def __init__(self, camera: MediaSocket) -> None:
        self._camera = camera
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self.sent = 0

    def _send(self) -> None:
        while not self._ends.is_set():
            try:
                self._camera.send(rtp(self.sent))
            except ConnectionRefusedError:
                continue
            self.sent += 1
            self._camera.receive(0.01)

    def __enter__(self) -> "Sender":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


def until_recorded(recorder: Recorder, n_packets: int, track: int = 0) -> None:
    """Waits until a track has at least `n_packets` packets in its file."""
    until = time.monotonic() + LIMIT_S
    while True:
        tracks = recorder.catalog()["tracks"]
        if len(tracks) > track and tracks[track]["packets"] >= n_packets:
            return
        assert time.monotonic() < until, recorder.said
        time.sleep(0.1)


def test_a_recorder_beside_a_load_has_every_packet(running: Running, tmp_path: Path) -> None:
    recorder = Recorder(running, tmp_path / "rec")
    recorder.begin()
    secret = ["--secret", str(tmp_path / "secret"), "--conference", "c"]
    who = ["--participants", "20", "--publishers", "4", "--seconds", "5", "--rate", "100"]
    words = [str(REPRISE), "load", running.url, "--json", *secret, *who]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    whole = json.loads(done.stdout.splitlines()[-1])
    assert (whole["lost"], whole["foreign"], whole["duplicated"]) == (0, 0, 0)
    recorder.until_events(joined=20, left=20, track_added=4, track_removed=4)
    recorder.stop(signal.SIGINT)
    catalog = recorder.catalog()
    assert (catalog["conference"], catalog["ended"]) == ("c", "interrupted")
    tracks = catalog["tracks"]
    assert len(tracks) == 4
    n_sent = 0
    for track in tracks:
        (source,) = track["sources"]
        assert (source["lost"], source["duplicated"], track["dropped_here"]) == (0, 0, 0)
        assert track["since_ms"] <= track["first_packet_ms"] <= track["last_packet_ms"]
        assert track["last_packet_ms"] <= track["until_ms"]
        numbers = [sequence(packet) for packet in recorder.packets(track["pcapng"])]
        first, last = source["first_sequence"], source["last_sequence"]
        assert numbers == list(range(first, last + 1))
        # The recorder subscribed before the 51st packet was sent.
        assert first < 50
        n_sent += last + 1
    assert n_sent == whole["sent"]
    joined = [event for event in recorder.events() if event["event"] == "joined"]
    assert all(event["display_name"] == event["participant"] for event in joined)
    assert running.administrator.conference("c")["participants"] == {}


def test_a_publisher_who_comes_back_gets_a_second_file(running: Running, tmp_path: Path) -> None:
    recorder = Recorder(running, tmp_path / "rec")
    recorder.begin()
    for time_of in range(2):
        ann = running.client("ann")
        with opened(publish(ann, "ann")) as camera, Sender(camera):
            recorder.until(f"records ann/cam: 000{time_of + 1}.ann.cam.pcapng")
            until_recorded(recorder, 20, time_of)
            ann.mute("c", "ann", "cam")
            ann.mute("c", "ann", "cam", muted=False)
            ann.leave("c", "ann")
        until = time.monotonic() + LIMIT_S
        while recorder.said.count("ann/cam has ended") <= time_of:
            assert time.monotonic() < until, recorder.said
            time.sleep(0.02)
    recorder.until_events(joined=2, left=2, muted=4)
    recorder.stop(signal.SIGINT)
    catalog = recorder.catalog()
    assert [track["pcapng"] for track in catalog["tracks"]] == [
        "0001.ann.cam.pcapng",
        "0002.ann.cam.pcapng",
    ]
    for track in catalog["tracks"]:
        packets = recorder.packets(track["pcapng"])
        assert len(packets) == track["packets"] >= 20
        assert track["until_ms"] >= track["last_packet_ms"]


def test_a_killed_service_and_a_killed_switch_are_waited_for(
    running: Running, tmp_path: Path
) -> None:
    recorder = Recorder(running, tmp_path / "rec")
    recorder.begin()
    ann = running.client("ann")
    with opened(publish(ann, "ann")) as camera, Sender(camera) as sender:
        until_recorded(recorder, 50)
        running.service.stop(signal.SIGKILL)
        time.sleep(2)
        running.service.start()
        running.wait()
        recorder.until("the service is back")
        n_before = recorder.catalog()["tracks"][0]["packets"]
        until_recorded(recorder, n_before + 50)
        (source,) = recorder.catalog()["tracks"][0]["sources"]
        assert source["lost"] == 0
        running.switch.stop(signal.SIGKILL)
        running.switch.start()
        n_before = recorder.catalog()["tracks"][0]["packets"]
        until_recorded(recorder, n_before + 50)
    recorder.stop(signal.SIGINT)
    (track,) = recorder.catalog()["tracks"]
    (source,) = track["sources"]
    numbers = {sequence(packet) for packet in recorder.packets(track["pcapng"])}
    assert len(numbers) == source["packets"]
    # The catalog lists the ranges of the sequence numbers of all packets that the switch has not
    # forwarded.
    listed = {
        number for first, last in source["lost_sequences"] for number in range(first, last + 1)
    }
    assert len(listed) == source["lost"]
    whole = range(source["first_sequence"], source["last_sequence"] + 1)
    assert numbers | listed == set(whole)
    assert not numbers & listed
    assert sender.sent > source["packets"]


def test_a_recording_goes_on_in_its_folder_after_a_kill(running: Running, tmp_path: Path) -> None:
    ann = running.client("ann")
    with opened(publish(ann, "ann")) as camera, Sender(camera):
        first = Recorder(running, tmp_path / "rec")
        first.start()
        until_there(first)
        until_recorded(first, 50)
        first.stop(signal.SIGKILL)
        killed = first.catalog()
        assert killed["ended"] is None
        # The file lacks at most the last second; all packets that it has are whole.
        assert len(first.packets("0001.ann.cam.pcapng")) >= killed["tracks"][0]["packets"]
        second = Recorder(running, tmp_path / "rec")
        second.start()
        second.until("records ann/cam: 0002.ann.cam.pcapng")
        until_recorded(second, 20, 1)
        third = Recorder(running, tmp_path / "rec")
        third.start()
        third.until("another `reprise record` writes to it")
        third.end()
        second.stop(signal.SIGINT)
    tracks = second.catalog()["tracks"]
    assert [track["number"] for track in tracks] == [1, 2]
    assert all(track["until_ms"] for track in tracks)
    assert len(second.packets("0002.ann.cam.pcapng")) == tracks[1]["packets"]


def until_there(recorder: Recorder) -> None:
    until = time.monotonic() + LIMIT_S
    while not (recorder.folder / "recording.json").exists():
        assert time.monotonic() < until, recorder.said
        time.sleep(0.02)


def test_a_full_disk_ends_it_with_files_that_can_be_read(running: Running, tmp_path: Path) -> None:
    need("" if os.geteuid() == 0 else "root, to mount a small file system")
    folder, kept = tmp_path / "rec", tmp_path / "kept"
    folder.mkdir()
    kept.mkdir()
    script = (
        'mount -t tmpfs -o size=256k tmpfs "$1"; kept=$2; to=$1; shift 2; "$@"; cp "$to"/* "$kept"'
    )
    before = ("unshare", "--mount", "sh", "-c", script, "sh", folder, kept)
    recorder = Recorder(running, folder, before=before)
    # The recorder's files are visible only in its own mount namespace.
    recorder.start()
    recorder.until("records conference c")
    ann = running.client("ann")
    with opened(publish(ann, "ann")) as camera:
        number = 0
        until = time.monotonic() + LIMIT_S
        while "no space left" not in recorder.said:
            assert time.monotonic() < until, recorder.said
            camera.send(rtp(number, bytes(1_000)))
            camera.receive(0.005)
            number += 1
    recorder.end()
    assert "what was written before can be read" in recorder.said
    packets = packets_of(kept / "0001.ann.cam.pcapng")
    assert len(packets) > 50
    assert [sequence(packet) for packet in packets] == list(
        range(sequence(packets[0]), sequence(packets[-1]) + 1)
    )
    catalog = json.loads((kept / "recording.json").read_text())
    assert catalog["tracks"][0]["packets"] > 0
    assert running.administrator.conference("c")["participants"].keys() == {"ann"}


def test_a_removed_recorder_and_an_ended_conference_end_a_recording(
    running: Running, tmp_path: Path
) -> None:
    recorder = Recorder(running, tmp_path / "rec")
    recorder.begin()
    running.administrator.leave("c", "rec")
    recorder.until("an administrator has removed it")
    recorder.end()
    other = Recorder(running, tmp_path / "other")
    other.begin()
    running.administrator.delete_conference("c")
    other.until("ended: the conference has ended")
    other.end()
    assert other.catalog()["ended"] == "the conference has ended"


PROBE = ("ffprobe", "-v", "error", "-count_packets", "-of", "json", "-show_streams")


def probe(file: Path) -> int:
    """How many packets the only stream of a media file has. The file must have no errors."""
    words = [*PROBE, str(file)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    (stream,) = json.loads(done.stdout)["streams"]
    return int(stream["nb_read_packets"])


def has_packets(file: Path) -> bool:
    """Whether a file that is being written has packets already."""
    words = [*PROBE, str(file)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    streams = json.loads(done.stdout or "{}").get("streams", [])
    return any(int(stream.get("nb_read_packets", 0)) > 0 for stream in streams)


def free_pair() -> int:
    """Finds an even port that is free, and whose next port is free, too."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            if port % 2 == 0:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as next_one:
                    try:
                        next_one.bind(("127.0.0.1", port + 1))
                    except OSError:
                        continue
                    return port


def publisher(
    running: Running, folder: Path, track: str, *media: object
) -> tuple[Process, Process]:
    """Starts ffmpeg, and a `reprise join` that publishes what ffmpeg sends; returns both."""
    port = free_pair()
    sdp = folder / f"{track}.sdp"
    quiet = ("ffmpeg", "-nostdin", "-loglevel", "error", "-re")
    to = ("-f", "rtp", "-sdp_file", sdp, f"rtp://127.0.0.1:{port}")
    ffmpeg = Process([*quiet, *media, *to], folder / f"{track}.ffmpeg.log")
    ffmpeg.start()
    until = time.monotonic() + LIMIT_S
    while not (sdp.exists() and "m=" in sdp.read_text()):
        assert time.monotonic() < until, ffmpeg.said
        time.sleep(0.02)
    who = participant_token("c", f"of-{track}")
    options = ("--token", who, "--publish", f"{track}={sdp}", "--receive-nothing")
    join = Process([REPRISE, "join", running.url, *options], folder / f"{track}.join.log")
    join.start()
    return ffmpeg, join


VIDEO = (
    *("-f", "lavfi", "-i", f"testsrc2=size=320x240:rate={FRAMES_PER_S}"),
    *("-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", FRAMES_PER_S),
)
AUDIO = ("-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000", "-c:a", "libopus")
OPUS_PER_S = 50


def counted(recorder: Recorder, stems: dict[str, str]) -> tuple[int, int]:
    """Counts the pictures and the packets of sound in the recorder's pcapng files."""
    pictures = recorder.packets(f"{stems['video']}.pcapng")
    sounds = recorder.packets(f"{stems['audio']}.pcapng")
    # 96 and 97 are ffmpeg's payload types; packets with other types are RTCP.
    return (
        len({packet[4:8] for packet in pictures if packet[1] & 0x7F == 96}),
        sum(packet[1] & 0x7F in (96, 97) for packet in sounds),
    )


@pytest.mark.parametrize("is_killed", [False, True], ids=["ended", "killed"])
def test_media_files_play_after_an_end_and_after_a_kill(
    running: Running, tmp_path: Path, is_killed: bool
) -> None:
    need("" if shutil.which("ffmpeg") else "ffmpeg")
    video = publisher(running, tmp_path, "video", *VIDEO)
    audio = publisher(running, tmp_path, "audio", *AUDIO)
    recorder = Recorder(running, tmp_path / "rec", "--media")
    recorder.start()
    until_there(recorder)
    stems: dict[str, str] = {}
    until = time.monotonic() + LIMIT_S
    while len(stems) < 2:
        assert time.monotonic() < until, recorder.said
        tracks = recorder.catalog()["tracks"]
        stems = {
            track["path"]["track"]: track["pcapng"].removesuffix(".pcapng") for track in tracks
        }
        time.sleep(0.1)
    mkv = recorder.folder / f"{stems['video']}.mkv"
    ogg = recorder.folder / f"{stems['audio']}.ogg"
    # ffmpeg begins with the next whole picture, so earlier packets are not in its file. A file that
    # has packets has a head, too.
    while not (has_packets(mkv) and has_packets(ogg)):
        assert time.monotonic() < until, recorder.said
        time.sleep(0.1)
    pictures_before, sounds_before = counted(recorder, stems)
    time.sleep(8)
    if is_killed:
        children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
        assert len(children) == 2
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        recorder.stop(signal.SIGKILL)
    else:
        recorder.stop(signal.SIGINT)
    for process in (*video, *audio):
        process.stop(signal.SIGINT)
    n_pictures, n_sounds = counted(recorder, stems)
    assert n_pictures > 5 * FRAMES_PER_S
    assert n_sounds > 5 * OPUS_PER_S
    # If the recorder ends in order, nothing is lost. If it is killed, whatever ffmpeg or the
    # recorder had not written yet is lost: about a second, unless other programs keep them from the
    # processor.
    missing_s = 5 if is_killed else 0
    for media, n_whole, n_before, per_s in (
        (mkv, n_pictures, pictures_before, FRAMES_PER_S),
        (ogg, n_sounds, sounds_before, OPUS_PER_S),
    ):
        n_missing = missing_s * per_s
        assert n_whole - n_before - n_missing <= probe(media) <= n_whole + n_missing
    if not is_killed:
        catalog = recorder.catalog()
        for track in catalog["tracks"]:
            (media,) = track["media"]
            assert (media["problem"], media["left_out"]) == (None, 0), catalog
            assert (recorder.folder / track["sdp"]).read_text().count("m=") == 1


def test_another_programs_description_makes_ffmpeg_listen_nowhere_else(
    running: Running, tmp_path: Path
) -> None:
    need("" if shutil.which("ffmpeg") else "ffmpeg")
    ann = running.client("ann")
    hidden = "v=0\r\ns=x\rm=audio 9 RTP/AVP 0\r\nm=video 9 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n"
    ann.publish(
        "c", "ann", "cam", kind="video", qualities=[{"name": "one", "max_kbps": 1_000}], sdp=hidden
    )
    recorder = Recorder(running, tmp_path / "rec", "--media")
    recorder.start()
    recorder.until("records ann/cam")
    recorder.stop(signal.SIGINT)
    (track,) = recorder.catalog()["tracks"]
    (media,) = track["media"]
    assert media["file"] is None
    assert "found 2 lines" in media["problem"]


def test_a_token_that_may_not_receive_is_refused(running: Running, tmp_path: Path) -> None:
    token = participant_token("c", "rec", subscribe=False)
    words = [str(REPRISE), "record", running.url, "--token", token, "--to", str(tmp_path / "rec")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 1
    assert 'grant "subscribe"' in done.stderr
    assert not (tmp_path / "rec").exists()
