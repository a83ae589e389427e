"""What rows that forward in the kernel by XDP need: peers that take what is redirected, threads.

A frame that comes by a veth is forwarded on the processor that sent it (`shared`): sender and SFU
have one processor together. Or a thread of the kernel's own does it (`thread`), on the SFU's
processor as every other SFU (`threaded` of sysfs-class-net). It has a real-time priority, for it
stands for a card's interrupt, which no process keeps waiting.
"""

from pathlib import Path

from lab.netns import Namespace
from lab.process import ChildError, run
from lab.rows.row import Variant
from lab.sites import LOAD_CPU, SFU_CPU, Site

SHARED, THREAD = "shared", "thread"
PORT = "xdp"
"""Of a variant whose frames are forwarded in the kernel."""
PRIORITY = 1
VARIANTS = (Variant(port=PORT, wait=THREAD), Variant(port=PORT, wait=SHARED))


def take_redirected(site: Site) -> None:
    """Lets the hosts' ends take what is redirected to them; else a veth loses it uncounted."""
    for link in site.links:
        site.hosts.run(["ethtool", "-K", link.host_interface, "gro", "on"])


def threads(site: Site, wait: str) -> tuple[int, ...]:
    """The threads that forward, on the SFU's processor; none where the sender's does it.

    To be called when the programs are attached: the kernel makes an interface's threads anew then.
    The hosts' ends get threads too, on the load's processor. A ring between two ends holds 256
    frames, and a thread gives it some thousand copies before anybody else has its turn there.
    """
    if wait != THREAD:
        return ()
    found: list[int] = []
    for link in site.links:
        _threads_of(site.hosts, link.host_interface, LOAD_CPU)
        found += _threads_of(site.sfu, link.sfu_interface, SFU_CPU)
    return tuple(found)


def _threads_of(namespace: Namespace, interface: str, cpu: int) -> list[int]:
    before = set(_named(interface))
    # The sysfs of another network namespace has to be mounted from inside it.
    do = f"mount -t sysfs sysfs /sys && echo 1 > /sys/class/net/{interface}/threaded"
    namespace.run(["unshare", "--mount", "sh", "-c", do])
    new = sorted(set(_named(interface)) - before)
    if not new:
        raise ChildError(f"the kernel has made no thread for {interface}")
    for pid in new:
        run(["taskset", "--pid", "--cpu-list", str(cpu), str(pid)])
        run(["chrt", "--fifo", "--pid", str(PRIORITY), str(pid)])
    return new


def _named(interface: str) -> list[int]:
    """The kernel's threads for interfaces of this name, in all namespaces."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        try:
            name = (process / "comm").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if name.startswith(f"napi/{interface}-"):
            found.append(int(process.name))
    return found
