"""The switches that may stand in the middle of a study's star, by name."""

import subprocess

from lab.mininet_star import MininetStar
from lab.netns import Star
from lab.openvswitch import OpenVSwitchStar
from lab.process import REPOSITORY, ChildError

STARS: dict[str, type[Star]] = {
    "linux": Star,
    "openvswitch": OpenVSwitchStar,
    "mininet": MininetStar,
}
NEED_PACKAGES = ("openvswitch", "mininet")
"""These have packages of their own, which nobody needs who does not choose them."""
INSTALL_PACKAGES = REPOSITORY / "scripts" / "install-packages"


def install_packages_for(name: str) -> None:
    """Installs what the star `name` needs and says so; raises `ChildError` where that fails."""
    if name not in NEED_PACKAGES:
        return
    code = subprocess.run([INSTALL_PACKAGES, name], check=False).returncode
    if code != 0:
        raise ChildError(f"exit code {code} of {INSTALL_PACKAGES.name} {name}")
