"""Acts as the operator: runs the program `reprise` against the switch of a star.

A star is a network of hosts and the SFU around one bridge (`lab.netns`).
"""

import json
from pathlib import Path
from typing import Any

from lab.addresses import SFU_IP, SFU_MAC, SFU_PORT, ip_of
from lab.netns import Star
from lab.switch import GRPC_ADDRESS, RELEASE, require_build

REPRISE = RELEASE / "reprise"
COMMAND_TIMEOUT_S = 120.0


class Controller:
    """The commands of `reprise`, one method each; all raise `ChildError` when a command fails."""

    def __init__(self, star: Star) -> None:
        require_build(REPRISE)
        self._star = star

    def reprise(self, *arguments: str) -> str:
        """Runs `reprise` with `arguments` in the switch's namespace; returns its output."""
        argv = [str(REPRISE), "--switch", GRPC_ADDRESS, *arguments]
        return self._star.sfu.run(argv, timeout_s=COMMAND_TIMEOUT_S)

    def set_pipeline(self, program: Path) -> None:
        self.reprise("pipeline", "set", str(program))

    def set_address(self) -> None:
        self.reprise("address", "set", "--port", str(SFU_PORT), "--ip", SFU_IP, "--mac", SFU_MAC)

    def add_group(self, group: int, presenter: int, *options: str) -> None:
        """Adds a group with host `presenter` as its presenter."""
        self.reprise("group", "add", "--group", str(group), "--ip", ip_of(presenter), *options)

    def delete_group(self, group: int) -> None:
        self.reprise("group", "delete", "--group", str(group))

    def add_viewer(self, group: int, viewer: int, *options: str) -> None:
        """Adds host `viewer` at the end of the group; its MAC is looked up unless given."""
        self.reprise("viewer", "add", "--group", str(group), "--ip", ip_of(viewer), *options)

    def remove_viewer(self, group: int, viewer: int, *options: str) -> None:
        self.reprise("viewer", "remove", "--group", str(group), "--ip", ip_of(viewer), *options)

    def show(self) -> str:
        return self.reprise("show")

    def show_json(self) -> Any:
        return json.loads(self.reprise("show", "--json"))
