//! Runs a test in its own network namespace, by starting the test binary again.
//!
//! A test calls one of the functions with a closure that contains the whole test. The test's name is taken from the
//! closure's type. Therefore the closure must be written in the test function itself, or in a helper to which the test
//! passes a closure.

use std::any::type_name;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const INSIDE: &str = "REPRISE_TEST_NAMESPACE";

/// Runs `body` inside new user and network namespaces. If the machine allows no namespaces, the function prints a
/// message and returns; with `CI=true` it fails instead.
pub fn in_namespace<F: FnOnce()>(body: F) {
    in_namespaces(&["--user", "--map-root-user", "--net"], body);
}

/// Runs `body` like [`in_namespace`], with a mount namespace in addition.
pub fn in_mount_namespace<F: FnOnce()>(body: F) {
    in_namespaces(&["--user", "--map-root-user", "--net", "--mount"], body);
}

/// Runs `body` inside a new network namespace without a user namespace, for operations that the kernel allows only to
/// root outside any user namespace. For other users the function only prints that the test was not run, even with
/// `CI=true`, because no setting of the machine could change this.
pub fn in_root_namespace<F: FnOnce()>(body: F) {
    in_root_namespaces(&["--net"], body);
}

/// Runs `body` like [`in_root_namespace`], with a mount namespace in addition.
pub fn in_root_mount_namespace<F: FnOnce()>(body: F) {
    in_root_namespaces(&["--net", "--mount"], body);
}

/// Returns whether this process is root outside any user namespace, and so may load BPF programs. If not, prints that
/// nothing was tested.
pub fn may_use_bpf() -> bool {
    let may = is_root();
    if !may {
        print("NOT TESTED: bpf(2) needs root outside any user namespace");
    }
    may
}

/// Returns whether this process runs as root outside any user namespace.
fn is_root() -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    is_root && map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn in_root_namespaces<F: FnOnce()>(kinds: &[&str], body: F) {
    if is_root() {
        return in_namespaces(kinds, body);
    }
    let test = test_of::<F>();
    print(&format!(
        "NOT TESTED: {test}: needs root outside any user namespace"
    ));
}

/// Prints a message directly to standard error, since the test harness captures the output of `print!`.
fn print(message: &str) {
    let _ = std::io::stderr().write_all(format!("{message}\n").as_bytes());
}

fn in_namespaces<F: FnOnce()>(kinds: &[&str], body: F) {
    if std::env::var_os(INSIDE).is_some() {
        body();
    } else {
        run_inside(kinds, test_of::<F>());
    }
}

/// Runs a test of this binary in new namespaces.
fn run_inside(kinds: &[&str], test: &str) {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(kinds).arg("--");
        command
    };
    let probe = unshare()
        .args(["ip", "link", "add", "v0", "type", "veth", "peer", "v1"])
        .output();
    if !probe.as_ref().is_ok_and(|output| output.status.success()) {
        let message =
            format!("NOT TESTED: {test}: no network namespaces with veth here: {probe:?}");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{message}");
        return print(&message);
    }
    let output = unshare()
        .arg(std::env::current_exe().expect("this test's binary"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "inside the namespace: {said}");
    assert!(said.contains("1 passed"), "no test is named {test}: {said}");
}

/// Returns the test's name with its modules, as the binary lists the test. The name is part of the closure's path,
/// which is `CRATE::NAME::{{closure}}`, or in a helper `CRATE::HELPER<CRATE::NAME::{{closure}}>::{{closure}}`. The
/// thread's name is not useful, because with one test thread all tests run in the main thread.
fn test_of<F>() -> &'static str {
    let path = type_name::<F>().split_once("::{");
    let innermost = path.and_then(|(path, _)| path.rsplit('<').next());
    let test = innermost.and_then(|path| path.split_once("::"));
    test.expect("a closure in a test function").1
}

/// Runs a command, which must succeed, and returns its standard output. The command consists of words that are
/// separated by spaces.
#[track_caller]
pub fn run(command: &str) -> String {
    let mut words = command.split_whitespace();
    let program = words.next().expect("a program");
    let output = Command::new(program).args(words).output();
    let output = output.unwrap_or_else(|error| panic!("{command}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
pub fn ip(arguments: &str) {
    run(&format!("ip {arguments}"));
}

#[track_caller]
pub fn tc(arguments: &str) {
    run(&format!("tc {arguments}"));
}

#[track_caller]
pub fn ethtool(arguments: &str) {
    run(&format!("ethtool {arguments}"));
}

pub fn interface_index(interface: &str) -> u32 {
    let shown = run(&format!("ip -oneline link show {interface}"));
    let index = shown.split(':').next().and_then(|it| it.parse().ok());
    index.expect("a number first")
}

pub fn has_xdp_program(interface: &str) -> bool {
    run(&format!("ip link show {interface}")).contains("xdp")
}

/// Makes the kernel report this many changes of an interface's MTU.
pub fn change_often(interface: &str, times: usize) {
    let changes = (0..times).map(|n| format!("link set {interface} mtu {}\n", 1400 + n % 2));
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("iproute2 is installed");
    let mut stdin = child.stdin.take().expect("a pipe");
    let written = stdin.write_all(changes.collect::<String>().as_bytes());
    written.expect("it reads");
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
}

/// Sets one end of a veth pair (`far`) down, and waits until the kernel has handled the lost carrier of the other end.
/// Until then the kernel refuses frames as if there were no room.
pub fn take_carrier(of: &str, far: &str) {
    ip(&format!("link set {far} down"));
    let deadline = Instant::now() + Duration::from_secs(120);
    while run(&format!("ip -brief link show {of}")).contains(" UP ") {
        assert!(Instant::now() < deadline, "{of} has a carrier");
    }
}

/// Makes a veth pair, with both ends up. The kernel itself sends nothing on this pair.
pub fn veth_pair(one: &str, other: &str) {
    veth_pair_of(one, other, "");
}

/// Makes a veth pair like [`veth_pair`], with this number of receive queues and of send queues at both ends.
pub fn veth_pair_with_queues(one: &str, other: &str, n_queues: u32) {
    let options = format!("numrxqueues {n_queues} numtxqueues {n_queues}");
    veth_pair_of(one, other, &options);
    set_queues(one, n_queues);
    set_queues(other, n_queues);
}

/// Sets the number of an interface's receive queues and send queues.
pub fn set_queues(interface: &str, n_queues: u32) {
    ethtool(&format!("-L {interface} rx {n_queues} tx {n_queues}"));
}

fn veth_pair_of(one: &str, other: &str, options: &str) {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").expect("IPv6 turned off");
    ip(&format!(
        "link add {one} {options} type veth peer name {other} {options}"
    ));
    ip(&format!("link set {one} up"));
    ip(&format!("link set {other} up"));
}
