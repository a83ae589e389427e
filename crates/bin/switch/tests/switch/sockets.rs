//! P4Runtime and Thrift on Unix sockets.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use p4runtime_client::{Client, SwitchAddress};
use testkit::text::{assert_has, assert_starts};

use crate::support::{Running, TemporaryFolder, error, program};

fn mode(path: &Path) -> u32 {
    let file = fs::metadata(path).expect("it is there");
    assert!(file.file_type().is_socket());
    file.permissions().mode() & 0o777
}

fn start(grpc: &str, thrift: &str, options: &[&str]) -> Running {
    let source = program("kept.p4");
    let own = ["-i", "1@udp:127.0.0.1:0", "--grpc", grpc];
    let thrift = ["--thrift-socket", thrift, &source];
    Running::start(&[&own[..], &thrift, options].concat())
}

#[tokio::test]
async fn a_socket_is_its_owners_serves_and_goes_with_the_switch() {
    let folder = TemporaryFolder::new("sockets");
    let (grpc, thrift) = (folder.path("grpc"), folder.path("thrift"));
    let address = format!("unix:{}", grpc.display());
    let running = start(&address, &thrift.display().to_string(), &[]);
    let ready = &running.ready;
    assert_has(ready, &format!("P4Runtime on {address}, "));
    let at = format!("Thrift on unix:{}", thrift.display());
    assert_has(ready, &at);
    assert_eq!([mode(&grpc), mode(&thrift)], [0o600; 2]);
    for address in [address.clone(), format!("unix://{}", grpc.display())] {
        let switch = SwitchAddress::plain(&address);
        let client = Client::connect(&switch, 1).await;
        let p4info = client.expect("a client").p4info().await;
        assert_eq!(p4info.expect("a program").tables.len(), 1);
    }
    UnixStream::connect(&thrift).expect("somebody listens");
    running.stop("-TERM");
    assert!(!grpc.exists() && !thrift.exists());
}

#[test]
fn a_killed_switchs_sockets_are_replaced_and_a_living_ones_are_not() {
    let folder = TemporaryFolder::new("sockets-killed");
    let (grpc, thrift) = (folder.path("grpc"), folder.path("thrift"));
    let address = format!("unix:{}", grpc.display());
    let thrift = thrift.display().to_string();
    let running = start(&address, &thrift, &["--socket-mode", "660"]);
    assert_eq!(mode(&grpc), 0o660);
    let source = program("kept.p4");
    let other = ["-i", "1@udp:127.0.0.1:0", "--grpc", &address, &source];
    let said = error(1, &other);
    let expected = format!("error: cannot serve P4Runtime on {address}: ");
    assert_starts(&said, &expected);
    assert_has(&said, "another switch may be running");
    running.signal("-KILL");
    running.end();
    assert!(grpc.exists());
    let running = start(&address, &thrift, &[]);
    assert_eq!(mode(&grpc), 0o600);
    running.stop("-INT");
    assert!(!grpc.exists());
}

#[test]
fn what_cannot_be_a_socket_is_said() {
    let folder = TemporaryFolder::new("sockets-wrong");
    let file = folder.file("file", "precious");
    let source = program("kept.p4");
    let at = |address: &str| {
        let address = address.to_owned();
        let arguments = ["-i", "1@udp:127.0.0.1:0", "--grpc", &address, &source];
        error(1, &arguments)
    };
    let said = at(&format!("unix:{file}"));
    assert_has(&said, "found a file that is no socket");
    assert_eq!(fs::read_to_string(&file).expect("it stays"), "precious");
    let said = at(&format!("unix:{}", folder.path("a/b").display()));
    assert_has(&said, "its folder is not there: make that first");
}
