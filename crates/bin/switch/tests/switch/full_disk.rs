//! Captures and recordings on a full disk.

use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{FORWARD, Running, TemporaryFolder, outside, program, run, totals, words_of};
use packet_io::{PcapPort, Port};
use serde_json::Value;
use testkit::frames::{numbered, receive, send};
use testkit::namespace::{in_mount_namespace, ip, veth_pair};
use testkit::text::assert_ends;

/// A file system with room for 16 KiB, mounted on a folder in the test's own mount namespace. The folder could not be
/// removed while the file system is mounted.
struct Disk(PathBuf);

impl Drop for Disk {
    fn drop(&mut self) {
        // If this fails, the file system is unmounted when the namespace ends.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn mount(disk: &Path) -> Disk {
    std::fs::create_dir(disk).expect("a folder");
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"])
        .arg(disk)
        .status();
    assert!(mount.expect("mount starts").success());
    Disk(disk.to_owned())
}

/// Frames that the port has received, sent and refused.
fn counts(totals: &Value, place: usize) -> [u64; 3] {
    let port = &totals["ports"][place];
    ["rx_frames", "tx_frames", "tx_refused"].map(|name| port[name].as_u64().expect(name))
}

/// Number of frames in a capture; all must be whole.
fn frames_in(path: &Path) -> u64 {
    let mut port = PcapPort::open(Some(path), None).expect("a capture");
    while port
        .receive(u64::MAX, 64, &mut |_| ())
        .expect("whole to its end")
        > 0
    {}
    let statistics = port.statistics();
    assert_eq!(statistics.rx_dropped(), 0);
    statistics.rx_frames
}

fn options() -> Vec<&'static str> {
    [&["--grpc", "off", "--json"][..], &FORWARD].concat()
}

#[test]
fn a_state_file_that_has_no_room_leaves_nothing_behind() {
    in_mount_namespace(|| {
        let folder = TemporaryFolder::new("full-disk-state");
        let disk = folder.path("disk");
        let _disk = mount(&disk);
        // Leaves room for the beginning of a state file.
        std::fs::write(disk.join("other"), [0; 12 << 10]).expect("room");
        let state = disk.join("state").display().to_string();
        let arguments = format!("-i 1@pcap:,/dev/null --grpc 127.0.0.1:0 --state {state}");
        let output = run(&words_of(&arguments));
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("No space left"), "{said}");
        let left = std::fs::read_dir(&disk).expect("a folder");
        let left: Vec<_> = left.filter_map(|it| Some(it.ok()?.file_name())).collect();
        assert_eq!(left, ["other"]);
    });
}

#[test]
fn a_switch_that_serves_others_goes_on_and_counts_what_the_disk_does_not_take() {
    in_mount_namespace(|| {
        ip("link set lo up");
        let folder = TemporaryFolder::new("full-disk");
        let _disk = mount(&folder.path("disk"));
        let capture = folder.path("disk/out.pcap");
        let output = format!("2@pcap:,{}", capture.display());
        let ports = format!("-i 1@udp:127.0.0.1:0 -i {output} --log-format json");
        let ports = words_of(&ports);
        let switch = Running::start(&[&ports[..], &options()].concat());
        let address = switch.address("1@udp:");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let send = |n_frames: usize| {
            for _ in 0..n_frames {
                socket.send_to(&[1; 500], address).expect("sent");
            }
        };
        send(300);
        let logged: Value =
            serde_json::from_str(&switch.wait_for_line(&["port_failed"])).expect("JSON");
        assert_eq!(logged["level"], "ERROR");
        assert_eq!(logged["port"], 2);
        let error = logged["error"].as_str().expect("a text");
        let expected = "out.pcap: cannot write: No space left on device (os error 28)";
        assert_ends(error, expected);
        // The switch still forwards, and logs no more errors.
        send(10);
        let totals = totals(&switch.stop("-TERM"));
        let [received, ..] = counts(&totals, 0);
        let [_, sent, refused] = counts(&totals, 1);
        assert!(received > 100, "{totals}");
        // Some of the last frames may have waited inside the switch when it was stopped.
        let inside = totals["packets"]["inside"].as_u64().expect("a number");
        assert_eq!(sent + refused + inside, received, "{totals}");
        assert_eq!(sent, (16 * 1024 - 24) / (16 + 542), "as many as fit");
        assert_eq!(frames_in(&capture), sent);
    });
}

/// A program that sends frames of one port out of the other.
fn crossing(folder: &TemporaryFolder) -> String {
    let flood = std::fs::read_to_string(program("flood.p4")).expect("the program");
    let to_group = "standard.mcast_grp = 1;";
    let across = "standard.egress_spec = 3 - standard.ingress_port;";
    assert!(flood.contains(to_group));
    folder.file("cross.p4", flood.replace(to_group, across))
}

#[test]
fn recordings_end_where_the_disk_is_full_and_their_ports_forward_on() {
    in_mount_namespace(|| {
        ip("link set lo up");
        veth_pair("a0", "a1");
        veth_pair("b0", "b1");
        let folder = TemporaryFolder::new("full-recording");
        let disk = folder.path("disk");
        let _mounted = mount(&disk);
        let crossing = crossing(&folder);
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprise-switch"));
        command.arg0("simple_switch").stdin(Stdio::null());
        command.args(["-i", "1@a1", "-i", "2@b1", "--pcap"]);
        command.arg(&disk).arg(&crossing);
        let switch = Running::of(command);
        let (mut a, mut b) = (outside("a0"), outside("b0"));
        for round in 0..20 {
            let (from, to) = match round % 2 {
                0 => (&mut a, &mut b),
                _ => (&mut b, &mut a),
            };
            let sent: Vec<_> = (0..30).map(|n| numbered(30 * round + n, 500)).collect();
            send(from, sent.clone());
            assert_eq!(receive(to, sent.len()), sent, "round {round}");
        }
        let (_, said) = switch.stop_that_logs("-TERM");
        let mut total = 0;
        for (file, port) in [("a1_in", 1), ("b1_out", 2), ("b1_in", 2), ("a1_out", 1)] {
            let file = disk.join(format!("{file}.pcap"));
            let expected = format!(
                "the recording of port {port} ends, the port goes on forwarding: capture file {}: cannot write: No space left on device (os error 28)",
                file.display()
            );
            assert_eq!(said.matches(&expected).count(), 1, "{expected}: {said}");
            let field = format!("error=\"capture file {}: cannot write", file.display());
            assert!(
                said.contains(&field),
                "values with spaces are quoted: {said}"
            );
            total += std::fs::metadata(&file).expect("a recording").len();
            assert!(frames_in(&file) < 300, "{}", file.display());
        }
        assert_eq!(said.lines().count(), 4, "{said}");
        assert!(total <= 16 * 1024, "{total} bytes");
    });
}

#[test]
fn a_replay_ends_where_the_disk_is_full_and_its_capture_is_whole() {
    in_mount_namespace(|| {
        let folder = TemporaryFolder::new("full-replay");
        let _disk = mount(&folder.path("disk"));
        let (input, capture) = (folder.path("in.pcap"), folder.path("disk/out.pcap"));
        let mut writer = PcapPort::open(None, Some(&input)).expect("a capture");
        for n in 0..100 {
            writer
                .transmit(n, [&[7; 500][..], &[]].into())
                .expect("written");
        }
        writer.close().expect("written");
        let one = format!("1@pcap:{}", input.display());
        let two = format!("2@pcap:,{}", capture.display());
        let output = run(&[&["-i", &one, "-i", &two][..], &options()].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_ends(said.trim_end(), "No space left on device (os error 28)");
        let totals = totals(&String::from_utf8_lossy(&output.stdout));
        let [_, sent, refused] = counts(&totals, 1);
        assert_eq!(
            (sent + refused, frames_in(&capture)),
            (100, sent),
            "{totals}"
        );
    });
}
