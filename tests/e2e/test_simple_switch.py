"""The switch under BMv2's names, started and observed as Mininet scripts do it."""

import os
import re
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lab.netns import Namespace, Network
from lab.process import POLL_INTERVAL_S, Child, run
from lab.switch import RELEASE, require_build

READY_TIMEOUT_S = 120.0
N_PINGS = 3

FORWARD = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dstAddr; bit<48> srcAddr; bit<16> etherType; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> diffserv; bit<16> totalLen; bit<16> identification;
    bit<3> flags; bit<13> fragOffset; bit<8> ttl; bit<8> protocol; bit<16> hdrChecksum;
    bit<32> srcAddr; bit<32> dstAddr;
}
struct metadata { }
struct headers { ethernet_t ethernet; ipv4_t ipv4; }
parser MyParser(packet_in packet, out headers hdr, inout metadata meta,
                inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) { 0x800: parse_ipv4; default: accept; }
    }
    state parse_ipv4 { packet.extract(hdr.ipv4); transition accept; }
}
control MyVerifyChecksum(inout headers hdr, inout metadata meta) { apply { } }
control MyIngress(inout headers hdr, inout metadata meta,
                  inout standard_metadata_t standard_metadata) {
    action drop() { mark_to_drop(standard_metadata); }
    action ipv4_forward(bit<9> port) {
        standard_metadata.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table ipv4_lpm {
        key = { hdr.ipv4.dstAddr: lpm; }
        actions = { ipv4_forward; drop; }
        default_action = drop();
        const entries = {
            0x0a000001 &&& 0xffffffff: ipv4_forward(1);
            0x0a000002 &&& 0xffffffff: ipv4_forward(2);
        }
    }
    apply {
        if (hdr.ipv4.isValid()) {
            log_msg("ttl {}", {hdr.ipv4.ttl});
            ipv4_lpm.apply();
        } else {
            drop();
        }
    }
}
control MyEgress(inout headers hdr, inout metadata meta,
                 inout standard_metadata_t standard_metadata) { apply { } }
control MyComputeChecksum(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.totalLen,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragOffset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.srcAddr, hdr.ipv4.dstAddr },
            hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
    }
}
control MyDeparser(packet_out packet, in headers hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.ipv4); }
}
V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(),
         MyDeparser()) main;
"""


class Hosts(Network):
    """Two hosts, each with a veth pair to the switch as Mininet makes it: eth0 -- s1-ethN."""

    def __init__(self) -> None:
        super().__init__()
        self.switch = Namespace(f"{self.name}-s1")
        self.hosts = {n: Namespace(f"{self.name}-h{n}") for n in (1, 2)}

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        return (self.switch, *self.hosts.values())

    def _make(self) -> None:
        self._make_namespaces()
        self.switch.run(["ip", "link", "set", "lo", "up"])
        for n, host in self.hosts.items():
            other = 3 - n
            run(
                ["ip", "-n", self.switch.name, "-batch", "-"],
                stdin=f"link add s1-eth{n} type veth peer name eth0 address 08:00:00:00:00:0{n} "
                f"netns {host.name}\nlink set s1-eth{n} up\n",
            )
            # The switch rewrites no Ethernet addresses, so each host must know the other's.
            run(
                ["ip", "-n", host.name, "-batch", "-"],
                stdin=f"link set eth0 up\naddress add 10.0.0.{n}/24 dev eth0\n"
                f"neigh add 10.0.0.{other} lladdr 08:00:00:00:00:0{other} dev eth0\n",
            )


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    require_build(RELEASE / "reprise-switch", RELEASE / "reprise")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("simple_switch", "simple_switch_grpc"):
        (folder / name).symlink_to(RELEASE / "reprise-switch")
    (folder / "p4c-bm2-ss").symlink_to(RELEASE / "reprise")
    return folder


def compiled(bin_folder: Path, text: str, *options: str) -> Path:
    source, program = bin_folder / "source.p4", bin_folder / "program.json"
    source.write_text(text)
    run([str(bin_folder / "p4c-bm2-ss"), *options, "-o", str(program), str(source)])
    return program


@pytest.fixture
def program(bin_folder: Path) -> Path:
    return compiled(bin_folder, FORWARD, "--p4v", "16")


@pytest.fixture
def network(namespaces: None) -> Iterator[Hosts]:
    """Two hosts, and a namespace for the switch between them."""
    with Hosts() as made:
        yield made


def shell(bin_folder: Path, folder: Path, command: str) -> list[str]:
    """Wraps a command as Mininet's shells run it: in a folder, with the program found in PATH."""
    path = f"{bin_folder}:{os.environ['PATH']}"
    return ["env", f"PATH={path}", "sh", "-c", f"cd {folder} && exec {command}"]


def start(network: Hosts, argv: Sequence[str], log: Path) -> Child:
    child = network.switch.start(argv, log)
    child.wait_for_line("ready:", READY_TIMEOUT_S)
    return child


def ping(network: Hosts, address: str, n: int) -> str:
    return network.hosts[1].run(["sh", "-c", f"ping -n -c {n} -i 0.2 -W 2 {address} || true"])


def listens_on(network: Hosts, port: int) -> list[str]:
    """The addresses at which somebody listens, found as Mininet's switch class finds them."""
    lines = network.switch.run(["ss", "-Hltn", f"sport = :{port}"]).splitlines()
    return [line.split()[3] for line in lines]


def test_a_tutorials_command_line_forwards_records_and_logs(
    network: Hosts, bin_folder: Path, program: Path, logs: Path
) -> None:
    (logs / "pcaps").mkdir()
    command = (
        "simple_switch_grpc -i 1@s1-eth1 -i 2@s1-eth2 --pcap pcaps "
        "--nanolog ipc:///tmp/bm-0-log.ipc --device-id 0 "
        f"{program} --log-console --dump-packet-data 14 --thrift-port 9090 "
        "-- --grpc-server-addr 0.0.0.0:50051"
    )
    switch = start(network, shell(bin_folder, logs, command), logs / "s1.log")
    switch.wait_for_line("Server listening on 0.0.0.0:50051", READY_TIMEOUT_S)
    assert listens_on(network, 50051) == ["0.0.0.0:50051"]
    assert f"{N_PINGS} received" in ping(network, "10.0.0.2", N_PINGS)
    # Scripts read the log while the switch runs, and kill the switch. The switch writes lines to
    # the log when it has nothing else to do.
    last = "Sending packet of length 98 on port 1"
    assert any(last in line for line in switch.lines(READY_TIMEOUT_S))
    text = switch.log_text()
    switch.kill()

    assert "--nanolog: nothing is published there" in text
    # This line is outside the log's format.
    assert "Calling target program-options parser\n" in text
    assert re.search("^Adding interface s1-eth2 as port 2$", text, re.MULTILINE)
    shape = r"\[\d\d:\d\d:\d\d\.\d{3}\] \[bmv2\] \[(?P<level>[TDIWE])\] \[thread \d+\] "
    packet = r"\[\d+\.\d+\] \[cxt 0\] "
    for level, wanted in (
        ("D", r"Adding interface s1-eth1 as port 1"),
        ("I", r"Starting Thrift server on port 9090"),
        ("I", r"Thrift server was started"),
        ("D", packet + r"Processing packet received on port 1"),
        ("D", packet + r"Parser 'parser' entering state 'parse_ipv4'"),
        ("D", packet + r"Extracting header 'ipv4'"),
        ("T", packet + r"Applying table 'MyIngress.ipv4_lpm'"),
        ("D", packet + r"Looking up key:"),
        ("D", packet + r"Table 'MyIngress.ipv4_lpm': hit with handle \d+"),
        ("D", packet + r"Action entry is MyIngress.ipv4_forward - 2,"),
        ("T", packet + r".*Action MyIngress.ipv4_forward"),
        ("I", r"ttl 64"),
        ("D", packet + r"Egress port is 2"),
        ("D", packet + r"Transmitting packet of size 98 out of port 2"),
        ("I", r"Received packet of length 98 on port 1: 0800000000020800000000010800"),
        ("I", r"Sending packet of length 98 on port 2: 0800000000020800000000010800"),
    ):
        found = re.search(f"^{shape}{wanted}$", text, re.MULTILINE)
        assert found is not None, f"{wanted}\n{text[-4000:]}"
        assert found["level"] == level, wanted
    assert "* hdr.ipv4.dstAddr    : 0a000002" in text

    # Scapy is imported here only, since on import it looks at all interfaces, also other tests'.
    from scapy.layers.inet import IP
    from scapy.utils import rdpcap

    # Frames that came in at one interface left by the other.
    for way, n in (("in", 1), ("out", 2)):
        frames = rdpcap(str(logs / "pcaps" / f"s1-eth{n}_{way}.pcap"))
        requests = [frame for frame in frames if IP in frame and frame[IP].dst == "10.0.0.2"]
        assert len(requests) == N_PINGS
        assert {frame[IP].ttl for frame in requests} == {64 if way == "in" else 63}


LEARNS = FORWARD.replace(
    "struct metadata { }", "struct metadata { }\nstruct seen_t { bit<48> address; bit<9> port; }"
).replace(
    "ipv4_lpm.apply();",
    "digest<seen_t>(1, {hdr.ethernet.srcAddr, standard_metadata.ingress_port}); ipv4_lpm.apply();",
)


class Subscriber:
    """Subscribes to all messages over a Unix socket, as nanomsg's SUB socket does."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(READY_TIMEOUT_S)
        self.socket.connect(str(path))
        self.socket.sendall(b"\0SP\0\0\x21\0\0")
        assert self.read(8) == b"\0SP\0\0\x20\0\0"

    def read(self, n_bytes: int) -> bytes:
        found = b""
        while len(found) < n_bytes:
            part = self.socket.recv(n_bytes - len(found))
            assert part, "the publisher has gone"
            found += part
        return found

    def message(self, topic: bytes) -> bytes:
        while True:
            kind, length = struct.unpack("!BQ", self.read(9))
            assert kind == 1
            message = self.read(length)
            if message.startswith(topic):
                return message


def test_digests_and_ports_are_published_as_bmv2s(
    network: Hosts, bin_folder: Path, tmp_path: Path, logs: Path
) -> None:
    path = tmp_path / "notifications.ipc"
    command = (
        "simple_switch -i 1@s1-eth1 -i 2@s1-eth2 --device-id 5 "
        f"--notifications-addr ipc://{path} {compiled(bin_folder, LEARNS)}"
    )
    switch = start(network, shell(bin_folder, logs, command), logs / "s1.log")
    assert path.stat().st_mode & 0o777 == 0o600, "only the switch's user may connect"
    subscriber = Subscriber(path)
    assert f"{N_PINGS} received" in ping(network, "10.0.0.2", N_PINGS)
    message = subscriber.message(b"LEA|")
    # A message collects the samples of a second: here at most one of each host (request, reply).
    header = struct.unpack("<4sQIiQI", message[:32])
    assert (header[1], header[2], header[4]) == (5, 0, 0)
    samples = {message[at : at + 8] for at in range(32, len(message), 8)}
    assert len(samples) == header[5]
    seen = {bytes.fromhex("0800000000010001"), bytes.fromhex("0800000000020002")}
    assert samples <= seen
    network.hosts[2].run(["ip", "link", "set", "eth0", "down"])
    message = subscriber.message(b"PRT|")
    while (2, 0) not in list(struct.iter_unpack("<ii", message[32:])):
        message = subscriber.message(b"PRT|")
    subscriber.socket.close()
    assert switch.stop() == 0
    assert not path.exists()


SEND_AT_OWN_END = """
import socket, struct
# As scapy's sendp(frame, iface="s1-eth1").
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("s1-eth1", 0))
ip = bytes.fromhex("4500001c000000004000 0000 0a000001 0a000002".replace(" ", ""))
total = sum(struct.unpack("!10H", ip))
ip = ip[:10] + struct.pack("!H", 0xFFFF - total % 0xFFFF) + ip[12:]
frame = bytes.fromhex("0800000000020800000000010800") + ip + b"\\x11\\x11\\x11\\x11" + bytes(4)
for _ in range(3):
    out.send(frame)
"""


def test_a_frame_that_is_sent_by_the_switchs_end_of_a_cable_is_received(
    network: Hosts, bin_folder: Path, program: Path, logs: Path
) -> None:
    """BMv2 receives both directions of an interface, so scripts may send at the switch's end."""
    command = f"simple_switch -i 1@s1-eth1 -i 2@s1-eth2 --pcap . {program}"
    switch = start(network, shell(bin_folder, logs, command), logs / "s1.log")
    network.switch.run(["python3", "-c", SEND_AT_OWN_END])
    # The switch must not receive what it sends itself, or frames would loop for ever.
    assert f"{N_PINGS} received" in ping(network, "10.0.0.2", N_PINGS)
    assert switch.stop() == 0

    from scapy.layers.inet import IP
    from scapy.utils import rdpcap

    for way, n, expected in (("in", 1, 64), ("out", 2, 63)):
        frames = rdpcap(str(logs / f"s1-eth{n}_{way}.pcap"))
        sent = [frame for frame in frames if IP in frame and frame[IP].proto == 0]
        assert [frame[IP].ttl for frame in sent] == [expected] * 3
        requests = [f for f in frames if IP in f and f[IP].dst == "10.0.0.2" and f[IP].proto == 1]
        assert len(requests) == N_PINGS


def test_a_log_file_tells_of_misses_and_drops(
    network: Hosts, bin_folder: Path, program: Path, logs: Path
) -> None:
    command = (
        f"simple_switch -i 1@s1-eth1 -i 2@s1-eth2 --log-file s1 --log-flush -L debug {program}"
    )
    switch = start(network, shell(bin_folder, logs, command), logs / "s1.log")
    network.hosts[1].run(
        ["ip", "neigh", "add", "10.0.0.9", "lladdr", "08:00:00:00:00:09", "dev", "eth0"]
    )
    assert "0 received" in ping(network, "10.0.0.9", 1)
    assert listens_on(network, 9559) == [], "simple_switch has no P4Runtime"
    assert switch.stop() == 0
    text = (logs / "s1.txt").read_text()
    assert "Table 'MyIngress.ipv4_lpm': miss" in text
    assert "Action entry is MyIngress.drop - " in text
    assert "Dropping packet at the end of ingress" in text
    assert "[bmv2] [T]" not in text


def test_captures_in_place_of_interfaces_are_read_in_their_order_and_written_at_once(
    network: Hosts, bin_folder: Path, program: Path, logs: Path
) -> None:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether
    from scapy.utils import rdpcap, wrpcap

    def frame(source: int, number: int) -> Ether:
        to = 3 - source
        packet = Ether(dst=f"08:00:00:00:00:0{to}", src=f"08:00:00:00:00:0{source}")
        packet /= IP(src=f"10.0.0.{source}", dst=f"10.0.0.{to}", ttl=number + 1)
        packet /= UDP(sport=number) / (b"x" * 40)
        packet.time = 1_000_000_000 + 60 * number
        return packet

    # The captures' time stamps span an hour, for which the switch does not wait.
    n_frames = 60
    frames = {source: [frame(source, n) for n in range(source, n_frames, 2)] for source in (1, 2)}
    for source, captured in frames.items():
        wrpcap(str(logs / f"pcap{source}_in.pcap"), captured)
    command = f"simple_switch --use-files 0 -i 1@pcap1 -i 2@pcap2 --log-console -L info {program}"
    switch = start(network, shell(bin_folder, logs, command), logs / "s1.log")
    switch_log = _lines_with(switch, "ttl ", n_frames - 1)
    assert [int(line.rsplit(maxsplit=1)[1]) for line in switch_log] == list(range(2, n_frames + 1))
    for source, captured in frames.items():
        output = logs / f"pcap{3 - source}_out.pcap"
        _wait_for_frames(switch, output, len(captured))
        ports = [one[UDP].sport for one in rdpcap(str(output))]
        assert ports == [one[UDP].sport for one in captured]
    assert switch.exit_code is None, "it goes on, as for interfaces"
    switch.kill()


def _lines_with(child: Child, text: str, n: int) -> list[str]:
    """Waits for `n` lines of the log that contain a text; returns them."""
    found: list[str] = []
    for line in child.lines(READY_TIMEOUT_S):
        if text in line:
            found.append(line)
        if len(found) == n:
            return found
    raise child.fail(f"{len(found)} of {n} lines with {text!r}")


def _wait_for_frames(child: Child, path: Path, n: int) -> None:
    """Waits, while the switch runs, until the capture has `n` whole frames."""
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while _n_whole_frames(path.read_bytes()) < n:
        if time.monotonic() > deadline_s:
            raise child.fail(f"{path.name} has fewer than {n} frames")
        time.sleep(POLL_INTERVAL_S)


def _n_whole_frames(data: bytes) -> int:
    at, n = 24, 0
    while at + 16 <= len(data):
        (n_bytes,) = struct.unpack_from("<I", data, at + 8)
        at += 16 + n_bytes
        n += at <= len(data)
    return n


def test_a_mistake_ends_the_switch_with_one_clear_line(
    network: Hosts, bin_folder: Path, logs: Path
) -> None:
    command = "simple_switch_grpc --thrif-port 9090 --no-p4"
    child = network.switch.start(shell(bin_folder, logs, command), logs / "s1.log")
    child.close_stdin()
    assert child.wait(READY_TIMEOUT_S) == 1
    expected = (
        "simple_switch_grpc: error: unknown option --thrif-port; "
        "the nearest is --thrift-port; --help lists all\n"
    )
    assert child.log_text() == expected
