"""Ownership of results when the lab runs under sudo."""

import os
from pathlib import Path


def give_to_user(folder: Path) -> None:
    """Gives a folder, its files and its parent folder to the user who called sudo.

    Does nothing without sudo.
    """
    user, group = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if user is None or group is None:
        return
    for path in (folder.parent, folder, *folder.rglob("*")):
        os.chown(path, int(user), int(group))
