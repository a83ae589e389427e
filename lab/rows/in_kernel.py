"""Prepares the namespaces of a row (an SFU) for forwarding by XDP: GRO and kernel threads.

A variant's `wait` says which thread forwards. With `shared`, the kernel forwards a frame that comes
through a veth on the processor that sent the frame, so that sender and SFU share a processor. With
`thread`, a thread of the kernel forwards the frame on the SFU's processor, on which every other SFU
forwards, too; see `threaded` in the kernel's documentation of sysfs-class-net. This thread has a
real-time priority, because it takes the place of a network card's interrupt, which no process can
delay.
"""

from pathlib import Path

from lab.netns import Namespace
from lab.process import ChildError, run
from lab.rows.row import Variant
from lab.sites import LOAD_CPU, SFU_CPU, Site

SHARED, THREAD = "shared", "thread"
PORT = "xdp"
"""The port of variants that forward in the kernel."""
PRIORITY = 1
VARIANTS = (Variant(port=PORT, wait=THREAD), Variant(port=PORT, wait=SHARED))


def take_redirected(site: Site) -> None:
    """Makes the hosts' veth ends accept redirected frames, by turning GRO on.

    Without GRO, a veth loses redirected frames and does not count them.
    """
    for link in site.links:
        site.hosts.run(["ethtool", "-K", link.host_interface, "gro", "on"])


def threads(site: Site, wait: str) -> tuple[int, ...]:
    """Makes the kernel's threads that forward, and returns their process ids; none for `shared`.

    Must be called after the programs are attached, because attaching a program to an interface
    makes the interface's threads anew. The hosts' ends of the veths get threads, too, on the load
    generator's processor: the ring between two ends has room for 256 frames, and a thread puts some
    thousand copies into it before anything else can run on the thread's processor.
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
    # The sysfs of a network namespace must be mounted from inside the namespace.
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
    """The process ids of the kernel's threads for interfaces of this name, in all namespaces."""
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
