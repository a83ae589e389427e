"""`reprise serve --dev` prints two commands; pasted, they bring a film from one to the other."""

import os
import re
import shlex
import socket
import time
from pathlib import Path

import pytest

from lab.controller import REPRISE
from lab.switch import RELEASE, SWITCH, require_build
from lab.video import FFMPEG
from tests.service.joins import says
from tests.service.running import LIMIT_S, Process, free_port

QUIET = [*FFMPEG, "-v", "error"]
PATTERN = ["-re", "-f", "lavfi", "-i", "testsrc2=size=160x120:rate=10"]
ENCODER = ["-c:v", "libx264", "-tune", "zerolatency", "-g", "10", "-pix_fmt", "yuv420p"]


def free_pair() -> int:
    """An even port that was free a moment ago: RTP uses it, and RTCP the next one."""
    while (port := free_port(socket.SOCK_DGRAM)) % 2:
        pass
    return port


def until_there(file: Path, process: Process) -> None:
    until = time.monotonic() + LIMIT_S
    while not (file.exists() and file.read_text().endswith("\n")):
        assert time.monotonic() < until, process.said
        time.sleep(0.02)


def test_the_printed_commands_bring_a_film_from_one_to_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require_build(SWITCH, REPRISE)
    monkeypatch.setenv("PATH", f"{RELEASE}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    began_s = time.monotonic()
    addresses = ["--listen", "127.0.0.1:0", "--media", "127.0.0.1:0"]
    processes = {"serve": Process(["reprise", "serve", "--dev", *addresses], tmp_path / "serve")}
    try:
        processes["serve"].start()
        says(processes["serve"], "An administrator's token: ")
        publish, receive = re.findall(r"(?m)^  (reprise join .*)$", processes["serve"].said)
        port = free_pair()
        url = f"rtp://127.0.0.1:{port}?pkt_size=1200"
        camera = [*QUIET, *PATTERN, *ENCODER, "-f", "rtp", "-sdp_file", "camera.sdp", url]
        processes["camera"] = Process(camera, tmp_path / "camera")
        processes["camera"].start()
        until_there(tmp_path / "camera.sdp", processes["camera"])
        # Other programs of this machine may use the printed command's ports.
        receive += f" --port {free_pair()}"
        for name, command in (("ann", publish), ("bob", receive)):
            processes[name] = Process(shlex.split(command), tmp_path / name)
            processes[name].start()
            says(processes[name], f"joined conference demo as {name}")
        says(processes["bob"], "receives ann/video on 127.0.0.1 port ")
        source = ["-protocol_whitelist", "file,udp,rtp", "-i", "ann.video.sdp"]
        frames = [*QUIET, *source, "-frames:v", "1", "-f", "framemd5", "frames"]
        processes["player"] = Process(frames, tmp_path / "player")
        processes["player"].start()
        assert processes["player"].wait() == 0, processes["player"].said
        took_s = time.monotonic() - began_s
        assert (tmp_path / "frames").read_text().splitlines()[-1].startswith("0, ")
        with capsys.disabled():
            print(f"serve --dev: the first decoded frame after {took_s:.1f} s")
    finally:
        for process in reversed(processes.values()):
            process.stop()
