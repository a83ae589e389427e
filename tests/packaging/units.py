"""Reads systemd units, so that a test can do what systemd would do."""

import shlex
from collections import defaultdict
from pathlib import Path


class Unit:
    """A unit, and its environment file if it has one."""

    def __init__(self, text: str, environment: str = "") -> None:
        self._values: dict[str, list[str]] = defaultdict(list)
        for line in text.splitlines():
            key, is_assignment, value = line.partition("=")
            if is_assignment and not line.startswith("#"):
                self._values[key].append(value)
        assignments = (line.partition("=") for line in environment.splitlines())
        self._environment = {
            key: " ".join(shlex.split(value))
            for key, is_assignment, value in assignments
            if is_assignment and not key.startswith("#")
        }

    def one(self, key: str) -> str:
        """The only value of a key."""
        (value,) = self._values[key]
        return value

    def all(self, key: str) -> list[str]:
        """The words of all values of a key."""
        return [word for value in self._values[key] for word in value.split()]

    @property
    def command(self) -> list[str]:
        """The words of ExecStart. A word `$NAME` is replaced by the words of the variable's
        value."""
        return self._words("ExecStart")

    @property
    def reload(self) -> list[str]:
        """The words of ExecReload, which gets MAINPID in its environment."""
        return self._words("ExecReload")

    @property
    def hears_reload(self) -> bool:
        """Whether the service manager takes messages from processes that ExecReload starts.

        Only then does it give them the socket for messages.
        """
        return self.all("NotifyAccess") in (["exec"], ["all"])

    def _words(self, key: str) -> list[str]:
        words = []
        for word in self.one(key).split():
            words += self._environment[word[1:]].split() if word.startswith("$") else [word]
        return words

    @property
    def as_its_user(self) -> list[str]:
        """The start of a command: setpriv(1) with the unit's user, group and capabilities."""

        def capabilities(key: str) -> str:
            names = [name.removeprefix("CAP_").lower() for name in self.all(key)]
            return ",".join(["-all", *(f"+{name}" for name in names)])

        return [
            "setpriv",
            f"--reuid={self.one('User')}",
            f"--regid={self.one('Group')}",
            "--init-groups",
            f"--inh-caps={capabilities('AmbientCapabilities')}",
            f"--ambient-caps={capabilities('AmbientCapabilities')}",
            f"--bounding-set={capabilities('CapabilityBoundingSet')}",
            "--no-new-privs",
            "--",
        ]

    @property
    def folders(self) -> list[tuple[str, str]]:
        """Folders that systemd makes for the unit's user, each with its mode."""
        return [
            (f"{root}/{self.one(key)}", self.one(f"{key}Mode"))
            for key, root in (("RuntimeDirectory", "/run"), ("StateDirectory", "/var/lib"))
            if self.all(key)
        ]


def read(folder: Path, name: str) -> Unit:
    """Reads a unit from the Debian system whose root is `folder`."""
    text = (folder / "lib/systemd/system" / name).read_text()
    files = Unit(text).all("EnvironmentFile")
    return Unit(text, "".join((folder / file.lstrip("/")).read_text() for file in files))
