"""Open vSwitch as an SFU, as a network engineer would first do it: a flow and group per stream.

Its datapath is in user space (`datapath_type=netdev`), so no kernel module is needed. A stream's
flow leads to a group of type `all`. Each bucket of the group sets the addresses of one copy and
outputs it. This row (an SFU that the lab measures) starts daemons of its own, so an Open vSwitch of
the system is neither used nor disturbed.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from lab.colours import PURPLE
from lab.process import Child, ChildError
from lab.rows.row import Row, Variant
from lab.sites import LOAD_CPU, SFU_CPU, SFU_IP, Participant, Site, Stream, on_cpu

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
PROGRAMS = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl")
BRIDGE = "br0"
PROTOCOL = "OpenFlow15"
"""The first version of OpenFlow that can add buckets to a group.

Buckets must be added, because one message has room for only some 600 of them.
"""
BUCKETS_A_MESSAGE = 400
TIMEOUT_S = 120.0
"""The most time that a command may take.

Setting up AF_XDP on fifty links takes a quarter of a minute.
"""


class Daemons:
    """Runs `ovsdb-server` and `ovs-vswitchd` in the SFU's namespace of a site (`lab.sites`).

    All files of the two daemons are in one folder. If `start` failed or was killed halfway, `stop`
    ends what was started. Each `start` begins with an empty database.
    """

    def __init__(self, site: Site, folder: Path) -> None:
        self._site = site
        self._folder = folder
        self._database: Child | None = None
        self.switch: Child | None = None
        """The process of ovs-vswitchd, which forwards."""

    def start(self, *settings: str) -> None:
        """Starts both daemons.

        `settings` go into the database's table Open_vSwitch, such as `other_config:...`.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        database = self._folder / "conf.db"
        database.unlink(missing_ok=True)
        self.say("ovsdb-tool", "create", str(database), str(SCHEMA))
        self._database = self._start(
            "ovsdb-server", LOAD_CPU, str(database), f"--remote=p{self._socket}"
        )
        self.vsctl("--no-wait", "--retry", "init")
        self.vsctl("--no-wait", "set", "Open_vSwitch", ".", *settings)
        control = f"--unixctl={self._control}"
        self.switch = self._start("ovs-vswitchd", SFU_CPU, control, self._socket)

    def stop(self) -> None:
        for daemon in (self.switch, self._database):
            if daemon is not None:
                daemon.stop()
        if self._folder.exists():
            for file in self._folder.iterdir():
                if file.is_socket() or file.suffix == ".pid":
                    file.unlink(missing_ok=True)

    def add_ports(self, interface_type: str) -> None:
        """Makes the bridge with the site's links as ports; a port has the number of its link."""
        bridge = ("datapath_type=netdev", "fail_mode=secure", f"protocols={PROTOCOL}")
        links = self._site.links
        command = ["add-br", BRIDGE, "--", "set", "bridge", BRIDGE, *bridge]
        for link in links:
            name = link.sfu_interface
            command += ["--", "add-port", BRIDGE, name, "--", "set", "interface", name]
            command += [f"type={interface_type}", f"ofport_request={link.port}"]
        # ovs-vsctl waits for the switch, but reports success even if the switch failed.
        self.vsctl(*command)
        asked = [["--", "get", "interface", link.sfu_interface, "ofport"] for link in links]
        numbers = self.vsctl(*(word for one in asked for word in one)).split()
        for link, number in zip(links, numbers, strict=True):
            if number != str(link.port):
                raise self._failure(
                    f"the bridge did not take {link.sfu_interface} as port {link.port} of type "
                    f"{interface_type} (ofport is {number})"
                )

    def bundle(self, changes: Sequence[str]) -> None:
        """Changes flows and groups; packets see all changes at once (`bundle` in ovs-ofctl(8)).

        Returns only when packets see the changes: the datapath forwards by its cache until a
        revalidator has gone through the cache.
        """
        file = self._folder / "changes"
        file.write_text("".join(f"{change}\n" for change in changes))
        self.say("ovs-ofctl", "-O", PROTOCOL, "bundle", BRIDGE, str(file))
        self.appctl("revalidator/wait")

    def vsctl(self, *arguments: str) -> str:
        timeout = f"--timeout={TIMEOUT_S / 2:.0f}"
        return self.say("ovs-vsctl", f"--db={self._socket}", timeout, *arguments)

    def appctl(self, *arguments: str) -> str:
        return self.say("ovs-appctl", "-t", self._control, *arguments)

    def say(self, *argv: str) -> str:
        """Runs a command of Open vSwitch with its files in the folder; returns its output."""
        command = on_cpu(LOAD_CPU, self._command(argv))
        try:
            return self._site.sfu.run(command, timeout_s=TIMEOUT_S)
        except ChildError as error:
            raise self._failure(str(error)) from error

    @property
    def _control(self) -> str:
        """The socket at which the switch takes commands of ovs-appctl(8)."""
        return f"{self._folder.resolve()}/switch.ctl"

    @property
    def _socket(self) -> str:
        return f"unix:{self._folder.resolve()}/db.sock"

    def _failure(self, what: str) -> ChildError:
        """Makes an error that says whether a daemon has ended, with the last lines of its log."""
        for daemon in (self._database, self.switch):
            if daemon is not None and daemon.exit_code is not None:
                return daemon.fail(f"it has ended, exit code {daemon.exit_code}, so {what}")
        return ChildError(what) if self.switch is None else self.switch.fail(what)

    def _command(self, argv: Sequence[str]) -> list[str]:
        names = ("RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR")
        return ["env", *(f"OVS_{name}={self._folder.resolve()}" for name in names), *argv]

    def _start(self, name: str, cpu: int, *arguments: str) -> Child:
        command = on_cpu(cpu, self._command([name, *arguments]))
        return self._site.sfu.start(command, self._folder / f"{name}.log")


class OvsGroup(Row):
    """A flow and a group for each stream."""

    name = "ovs_group"
    label = "Open vSwitch, group"
    source = "PISCES's switch"
    variants = (Variant(port="afxdp", wait="spin"), Variant(port="system", wait="sleep"))
    fanout = overload = variants[::-1]
    look = (PURPLE, "D")
    rank = 10
    topologies = ("one_port", "port_per_host")
    packages = "openvswitch"

    def __init__(self, site: Site, variant: Variant, folder: Path) -> None:
        super().__init__(site, variant, folder)
        self._daemons = Daemons(site, folder / "openvswitch")
        self._flows: dict[int, str] = {}
        """The match of each stream's flow, by the stream's number."""

    @classmethod
    def lacks(cls) -> str:
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if not missing and SCHEMA.exists():
            return ""
        what = ", ".join(missing) or str(SCHEMA)
        return f"{what} of Open vSwitch: scripts/install-packages {cls.packages}"

    def start(self) -> None:
        """Starts the daemons and makes the bridge, which forwards nothing yet."""
        if what := self.lacks():
            raise ChildError(f"this machine lacks {what}")
        # This mask sets the processor of the threads that poll AF_XDP. Other threads stay on the
        # daemon's processor.
        self._daemons.start(f"other_config:pmd-cpu-mask={1 << SFU_CPU:#x}")
        self._daemons.add_ports(self.variant.port)

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        """Replaces the stream's group and flow in one transaction."""
        changes = group_changes(stream.number, [self._bucket(stream, one) for one in viewers])
        match = flow_match(stream)
        before = self._flows.get(stream.number, match)
        if before != match:
            changes.append(f"flow delete_strict {before}")
        changes.append(f"flow add {match},actions=dec_ttl,group:{stream.number}")
        self._daemons.bundle(changes)
        self._flows[stream.number] = match

    def stop(self) -> None:
        self._daemons.stop()

    @property
    def pids(self) -> tuple[int, ...]:
        """The process id of ovs-vswitchd. The other daemon only stores the configuration."""
        switch = self._daemons.switch
        return () if switch is None else (switch.pid,)

    def _bucket(self, stream: Stream, viewer: Participant) -> str:
        link = self.site.links[viewer.port - 1]
        # OpenFlow sends a frame back through its input port only if the port is named `in_port`.
        output = "in_port" if viewer.port == stream.sender.port else str(viewer.port)
        return (
            f"actions=set_field:{link.sfu_mac}->eth_src,set_field:{viewer.mac}->eth_dst,"
            f"set_field:{SFU_IP}->ip_src,set_field:{viewer.ip}->ip_dst,"
            f"set_field:{stream.udp_port}->udp_src,set_field:{stream.viewer_udp_port}->udp_dst,"
            f"output:{output}"
        )


def flow_match(stream: Stream) -> str:
    return (
        f"udp,in_port={stream.sender.port},nw_src={stream.sender.ip},nw_dst={SFU_IP},"
        f"udp_src={stream.udp_port},udp_dst={stream.udp_port}"
    )


def group_changes(group: int, buckets: Sequence[str]) -> list[str]:
    """The changes that give a group exactly these buckets, in as many messages as needed."""
    numbered = [f"bucket=bucket_id:{number},{one}" for number, one in enumerate(buckets)]
    first = ",".join([f"group_id={group},type=all", *numbered[:BUCKETS_A_MESSAGE]])
    changes = [f"group add_or_mod {first}"]
    for at in range(BUCKETS_A_MESSAGE, len(numbered), BUCKETS_A_MESSAGE):
        more = ",".join(numbered[at : at + BUCKETS_A_MESSAGE])
        changes.append(f"group insert_bucket group_id={group},command_bucket_id=last,{more}")
    return changes
