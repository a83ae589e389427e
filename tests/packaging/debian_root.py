"""A clean Debian system in a folder, and programs that run in it."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

LIMIT_S = 600.0
"""The most time that a command may take. It matters only if a command hangs."""


def run(argv: Sequence[str | Path], *, expected: int = 0) -> str:
    """Runs a command; returns what it printed, standard error included."""
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == expected, f"{argv}: exit code {done.returncode}\n{done.stdout}"
    return done.stdout


class DebianRoot:
    """A Debian of the machine's version, made by mmdebstrap without recommended packages."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self, *packages: str) -> None:
        release = Path("/etc/os-release").read_text()
        (suite,) = (
            line.partition("=")[2]
            for line in release.splitlines()
            if line.startswith("VERSION_CODENAME=")
        )
        run(
            [
                "mmdebstrap",
                "--quiet",
                "--mode=root",
                "--variant=minbase",
                f"--include={','.join(packages)}",
                # As in a container image, translations are left out. Manual pages are tested
                # outside this system.
                "--dpkgopt=path-exclude=/usr/share/locale/*",
                suite,
                self.path,
            ]
        )

    def command(self, argv: Sequence[str]) -> list[str]:
        """Returns the command that runs `argv` in the Debian system, with /proc mounted.

        The command replaces itself by `argv`, so `argv` runs as the very process that was started.
        """
        mounted = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
        return ["unshare", "--mount", "sh", "-c", mounted, str(self.path), *argv]

    def run(self, *argv: str, expected: int = 0) -> str:
        return run(self.command(argv), expected=expected)

    def install(self, package: Path) -> None:
        copy = self.path / "tmp" / package.name
        copy.write_bytes(package.read_bytes())
        environment = ["env", "DEBIAN_FRONTEND=noninteractive"]
        self.run(*environment, "dpkg", "--install", f"/tmp/{package.name}")
        copy.unlink()

    def files(self) -> set[str]:
        """All paths except those that dpkg, apt and running programs write for themselves."""
        own = (
            "/proc",
            "/tmp",
            "/run",
            "/var/lib/dpkg",
            "/var/cache",
            "/var/log",
            "/var/lib/systemd",
        )
        found = (f"/{path.relative_to(self.path)}" for path in self.path.rglob("*"))
        return {path for path in found if not path.startswith(own)}

    def text(self, path: str) -> str:
        return (self.path / path.lstrip("/")).read_text()
