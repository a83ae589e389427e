"""The demonstration behind `make demo`: a conference through both SFU programs, measured.

Each program forwards an encoded video, then the thesis' bursts (section 3.2) with growing numbers
of viewers. The exit code is 0 only if every copy arrived once and in order, and every video frame
was decoded correctly.
"""

import argparse
import contextlib
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from lab import text as report
from lab import video
from lab.addresses import PRESENTER
from lab.capture import CaptureError
from lab.conference import (
    FIRST_VIEWER,
    GROUP,
    Conference,
    LabError,
    conference,
    measure,
    undelivered,
)
from lab.controller import REPRISE
from lab.netns import NamespaceError
from lab.process import (
    REPOSITORY,
    ChildError,
    deaf_to_signals,
    interrupt_on_termination,
)
from lab.sudo import give_to_user
from lab.switch import (
    RECIRCULATION_PROGRAM,
    REPLICATION_PROGRAM,
    SWITCH,
    MissingBuildError,
    require_build,
)
from lab.traffic import FRAME_LEN_BYTES, Burst

VIEWER_COUNTS = (1, 2, 4, 8, 11)
N_PACKETS = 300
RATE_BPS = 4e6
N_VIDEO_VIEWERS = 4
VIDEO_S = 10
PROGRAMS = (
    (RECIRCULATION_PROGRAM, "a packet goes round the switch once for each viewer"),
    (REPLICATION_PROGRAM, "the replication engine makes the copies"),
)
EXIT_INTERRUPTED = 130


class Progress:
    """Prints each step, with the seconds since the start."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._start_s:5.1f} s] {text}", flush=True)

    def block(self, text: str) -> None:
        """Prints a table or a heading, set apart from the steps."""
        print(f"\n{text}\n", flush=True)


def demonstrate(folder: Path, progress: Progress) -> bool:
    """Runs everything and writes raw files to `folder`. Returns whether all went right."""
    progress.say(f"ffmpeg encodes a test video: {VIDEO_S} s, {video.SIZE}, H.264")
    clip = video.make_video(VIDEO_S, folder / "video")
    all_right = True
    for program, how in PROGRAMS:
        progress.block(f"== {program.relative_to(REPOSITORY)}: {how} ==")
        n_hosts = PRESENTER + max(VIEWER_COUNTS)
        progress.say(f"a star of {n_hosts} hosts and the switch, each in a network namespace")
        with conference(program, folder / program.stem, n_hosts) as running:
            progress.say(f"reprise-switch: {running.switch.log_text().splitlines()[-1]}")
            progress.say("`reprise pipeline set`, `address set` and `group add` are done")
            all_right &= show_video(running, clip, progress)
            all_right &= show_bursts(running, progress)
            shown = running.controller.show()
            (running.folder / "show.txt").write_text(shown)
            progress.block(f"$ reprise show\n{shown.rstrip()}")
    return all_right


def show_bursts(running: Conference, progress: Progress) -> bool:
    """Measures the bursts. Returns whether every copy left once, in order, and was delivered."""
    rows = []
    all_right = True
    least = VIEWER_COUNTS[0]
    progress.say(f"`reprise viewer remove` down to {least}")
    for viewer in running.viewers[least:]:
        running.controller.remove_viewer(GROUP, viewer)
    del running.viewers[least:]
    for n_viewers in VIEWER_COUNTS:
        progress.say(
            f"viewers: {n_viewers:2}, by `reprise viewer add`; then {N_PACKETS} packets of "
            f"{FRAME_LEN_BYTES} bytes at {RATE_BPS / 1e6:g} Mbit/s from h{PRESENTER}"
        )
        running.grow(n_viewers)
        burst = Burst(PRESENTER, N_PACKETS, RATE_BPS)
        observation, summary = measure(running, burst, running.folder / f"{n_viewers}-viewers")
        n_undelivered = undelivered(observation, burst, running.viewers)
        rows.append((*report.delay_row(summary), str(n_undelivered)))
        all_right &= summary.n_packets_in == burst.n_packets and n_undelivered == 0
        all_right &= summary.n_lost == summary.n_duplicated == 0
        all_right &= summary.n_out_of_order == summary.n_unmatched == 0
    table = report.table((*report.DELAY_HEADER, "undelivered"), rows)
    progress.block(f"{report.DELAY_TITLE}\n\n{table}")
    return all_right


def show_video(running: Conference, clip: video.Video, progress: Progress) -> bool:
    """Sends the video. Returns whether every viewer decoded every frame bit for bit."""
    running.grow(N_VIDEO_VIEWERS)
    progress.say(
        f"viewers: {N_VIDEO_VIEWERS}, by `reprise viewer add`; h{PRESENTER} sends the video over "
        f"RTP, h{FIRST_VIEWER} to h{running.viewers[-1]} decode it"
    )
    folder = running.folder / "video"
    folder.mkdir()
    viewers = [(viewer, running.star.host(viewer)) for viewer in running.viewers]
    watched = video.watch(clip, running.star.host(PRESENTER), viewers, folder)
    rows = []
    for one in watched:
        n_right = sum(map(str.__eq__, one.frame_hashes, clip.frame_hashes))
        n_due, n_decoded = len(clip.frame_hashes), len(one.frame_hashes)
        rows.append((f"h{one.viewer}", str(n_due), str(n_decoded), str(n_right)))
    progress.block(report.table(("viewer", "frames sent", "decoded", "identical"), rows))
    return all(one.frame_hashes == clip.frame_hashes for one in watched)


@contextlib.contextmanager
def results_folder(final: Path) -> Iterator[Path]:
    """Yields a new folder, which is renamed to `final` after the block, and removed on Ctrl-C.

    After any other failure the folder stays, with `.partial` in its name, because its logs say why.
    """
    partial = final.with_name(final.name + ".partial")
    partial.mkdir(parents=True)
    try:
        yield partial
    except KeyboardInterrupt:
        with deaf_to_signals():
            shutil.rmtree(partial)
            with contextlib.suppress(OSError):  # other results are in it
                final.parent.rmdir()
        raise
    except BaseException:
        give_to_user(partial)
        print(f"\nthe files up to the failure are in {partial}", file=sys.stderr)
        raise
    partial.rename(final)
    give_to_user(final)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.demo", description=__doc__)
    parser.add_argument("--results", type=Path, default=REPOSITORY / "results", metavar="FOLDER")
    results = parser.parse_args(arguments).results
    interrupt_on_termination()
    progress = Progress()
    final = results.resolve() / f"conference-{datetime.now():%Y%m%d-%H%M%S}"
    try:
        require_build(SWITCH, REPRISE)
        with results_folder(final) as folder:
            all_right = demonstrate(folder, progress)
    except KeyboardInterrupt:
        print("\ninterrupted: everything was removed", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (CaptureError, ChildError, LabError, MissingBuildError, NamespaceError) as error:
        print(f"\ndemo failed: {error}", file=sys.stderr)
        return 1
    progress.say(f"captures, logs and summaries are in {final}")
    if not all_right:
        print("\ndemo failed: something was lost or wrong, the tables say what", file=sys.stderr)
        return 1
    progress.say("nothing was lost, nothing came twice, every frame is identical")
    return 0


if __name__ == "__main__":
    sys.exit(main())
