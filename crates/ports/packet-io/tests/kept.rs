//! Tests programs that are kept (pinned), so that they outlive their process, and ports that replace a kept program by
//! their own program. The kernel lets only root outside any user namespace load programs.

#![allow(unsafe_code, reason = "a thread in a network namespace of its own")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bpf::{AttachMode, Instruction, Link, Program, ProgramConfig, ProgramKind};
use packet_io::{
    AfPacketConfig, AfPacketPort, AfXdpConfig, AfXdpPort, LinkEvent, Port as _, PortError, links,
};
use testkit::frames::{numbered, receive, send};
use testkit::namespace::{
    has_xdp_program, in_root_mount_namespace, in_root_namespace, ip, run, veth_pair,
};

/// `XDP_PASS`.
const PASS: i32 = 2;
/// `XDP_TX`: a frame leaves by the interface that received it.
const BACK: i32 = 3;

/// Loads a program that ends with this verdict.
fn program(verdict: i32, has_fragments: bool) -> Program {
    let instruction = |code, immediate| Instruction {
        code,
        registers: 0,
        offset: 0,
        immediate,
    };
    let instructions = [instruction(0xb7, verdict), instruction(0x95, 0)];
    let config = ProgramConfig {
        name: "test",
        kind: ProgramKind::Xdp,
        has_fragments,
        instructions: &instructions,
    };
    Program::load(&config).expect("a program that does nothing else")
}

/// Makes a veth pair. Its end `v0` accepts the frames that programs send back, as long as the returned link keeps a
/// program attached to `v0`.
fn cable() -> Link {
    veth_pair("v0", "v1");
    attach("v0", &program(PASS, false))
}

fn attach(interface: &str, program: &Program) -> Link {
    let link = Link::attach_xdp(program, index_of(interface), AttachMode::Native);
    link.expect("an interface without a program")
}

/// Runs a test with a folder of a BPF file system.
fn with_folder(body: impl FnOnce(&Path)) {
    let folder: PathBuf = format!("/tmp/reprise-kept-{}", std::process::id()).into();
    fs::create_dir(&folder).expect("a new folder");
    run(&format!("mount -t bpf bpf {}", folder.display()));
    body(&folder);
    run(&format!("umount {}", folder.display()));
    fs::remove_dir(&folder).expect("an empty folder");
}

/// Returns the number of programs that are kept in a folder. Does not count `maps.debug` and `progs.debug`, which the
/// kernel puts into a BPF file system.
fn n_kept(folder: &Path) -> usize {
    let names = fs::read_dir(folder).expect("a folder");
    let names = names.map(|entry| entry.expect("an entry").file_name());
    names
        .filter(|name| !name.to_string_lossy().ends_with(".debug"))
        .count()
}

fn open(kept: Option<&Path>) -> Result<AfXdpPort, PortError> {
    let config = AfXdpConfig {
        kept: kept.map(Path::to_owned),
        ..AfXdpConfig::default()
    };
    AfXdpPort::open("v1", &config)
}

fn outside() -> AfPacketPort {
    AfPacketPort::open("v0", AfPacketConfig::default()).expect("an interface that is free")
}

/// Returns the index of the interface that has this name now.
fn index_of(interface: &str) -> u32 {
    let index = |event| match event {
        LinkEvent::Present(link) if link.name == interface => Some(link.index.cast_unsigned()),
        _ => None,
    };
    let mut events = links().expect("rtnetlink").into_iter();
    events.find_map(index).expect("the interface")
}

fn assert_comes_to(port: &mut AfXdpPort, outside: &mut AfPacketPort, number: u32) {
    send(outside, [numbered(number, 100)]);
    assert_eq!(receive(port, 1), [numbered(number, 100)]);
}

fn assert_comes_back(outside: &mut AfPacketPort, number: u32) {
    send(outside, [numbered(number, 100)]);
    assert_eq!(receive(outside, 1), [numbered(number, 100)]);
}

#[test]
fn what_is_kept_for_an_interface_that_is_gone_does_not_take_over_another_one_s() {
    in_root_mount_namespace(|| {
        with_folder(|folder| {
            let _gone = cable();
            let port = open(Some(folder)).expect("a port");
            port.interface().keep().expect("a name");
            drop(port);
            assert!(has_xdp_program("v1"));
            let mut port = open(Some(folder)).expect("its program is taken over");
            port.interface().run_own().expect("its own program");
            assert_comes_to(&mut port, &mut outside(), 1);
            port.interface().keep().expect("a name");
            drop(port);
            ip("link del v1");
            let _cable = cable();
            let other = attach("v1", &program(BACK, false));
            let error = open(Some(folder)).err();
            assert!(
                matches!(error, Some(PortError::XdpNotKept { .. })),
                "{error:?}"
            );
            assert_comes_back(&mut outside(), 2);
            drop(other);
            // The next port can be opened although the path of the kept program still exists.
            let mut port = open(Some(folder)).expect("a port");
            assert_comes_to(&mut port, &mut outside(), 3);
            port.interface().keep().expect("a name");
            drop(port);
            assert!(has_xdp_program("v1"));
        })
    });
}

/// Runs `body` in a network namespace of its own.
fn elsewhere<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: it takes no addresses, and concerns this thread alone.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            body()
        });
        thread.join().expect("no panic")
    })
}

#[test]
fn switches_of_two_namespaces_keep_their_programs_in_one_folder() {
    in_root_mount_namespace(|| {
        with_folder(|folder| {
            let _cable = cable();
            let port = open(Some(folder)).expect("a port");
            port.interface()
                .run(&program(BACK, false))
                .expect("a program");
            port.interface().keep().expect("a name");
            drop(port);
            let here = index_of("v1");
            let there = elsewhere(|| {
                let _cable = cable();
                let port = open(Some(folder)).expect("a port");
                port.interface().keep().expect("a name");
                drop(port);
                let index = index_of("v1");
                let port = open(Some(folder)).expect("its program is taken over");
                port.interface().run_own().expect("its own program");
                index
            });
            assert_eq!(here, there, "else the numbers tell them apart");
            assert!(has_xdp_program("v1"));
            assert_comes_back(&mut outside(), 1);
            open(Some(folder)).expect("its program is taken over");
        })
    });
}

#[test]
fn a_name_that_somebody_removes_is_missed_once() {
    in_root_mount_namespace(|| {
        with_folder(|folder| {
            let _cable = cable();
            let port = open(Some(folder)).expect("a port");
            let interface = port.interface();
            assert_eq!(interface.take_removed_name(), None, "it has none yet");
            for _ in 0..2 {
                interface.keep().expect("a name");
                assert_eq!(interface.take_removed_name(), None);
                let name = fs::read_dir(folder).expect("a folder").find_map(|entry| {
                    let path = entry.expect("an entry").path();
                    path.extension().is_none().then_some(path)
                });
                let name = name.expect("it is kept");
                fs::remove_file(&name).expect("removed");
                assert_eq!(interface.take_removed_name(), Some(name));
                assert_eq!(interface.take_removed_name(), None, "it was said");
            }
            interface.keep().expect("a name");
            interface.run_own().expect("its own program");
            assert_eq!(interface.take_removed_name(), None, "nothing is to be kept");
        })
    });
}

#[test]
fn nothing_is_kept_of_an_interface_that_is_gone() {
    in_root_mount_namespace(|| {
        with_folder(|folder| {
            let _cable = cable();
            let mut port = open(Some(folder)).expect("a port");
            port.interface().keep().expect("a name");
            assert_eq!(n_kept(folder), 1);
            ip("link del v1");
            port.abandon();
            assert_eq!(n_kept(folder), 0);
        })
    });
}

#[test]
fn what_is_kept_by_a_name_that_cannot_be_removed_is_the_port_s_own_program() {
    in_root_mount_namespace(|| {
        with_folder(|folder| {
            let _cable = cable();
            let mut port = open(Some(folder)).expect("a port");
            let running = port.interface().run(&program(BACK, false));
            running.expect("another program");
            assert_comes_back(&mut outside(), 1);
            port.interface().keep().expect("a name");
            run(&format!("mount -o remount,bind,ro {}", folder.display()));
            port.interface().run_own().expect("its own program");
            assert_comes_to(&mut port, &mut outside(), 2);
            let error = port.interface().keep().expect_err("a name that stays");
            assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
            drop(port);
            assert!(has_xdp_program("v1"));
            // The new port's own program has replaced the program that forwarded, so the port gets the frames.
            let mut port = open(Some(folder)).expect("its program is taken over");
            port.interface().run_own().expect("its own program");
            assert_comes_to(&mut port, &mut outside(), 3);
        })
    });
}

#[test]
fn a_port_s_own_program_that_the_driver_refuses_is_reported_and_what_ran_runs_on() {
    in_root_mount_namespace(|| {
        with_folder(|folder| {
            let _cable = cable();
            let earlier = attach("v1", &program(BACK, true));
            let index = index_of("v1").cast_signed();
            let path = packet_io::kept_path(folder, index).expect("a namespace");
            earlier.pin(&path).expect("a name");
            drop(earlier);
            let mut port = open(Some(folder)).expect("a program that is taken over");
            // The port's own program does not take frames in several pieces, which this MTU would bring.
            ip("link set v0 mtu 9000");
            let error = port.interface().run_own().expect_err("a refusal");
            assert_eq!(error.raw_os_error(), Some(libc::ERANGE), "{error}");
            assert_comes_back(&mut outside(), 1);
            ip("link set v0 mtu 1500");
            port.interface().run_own().expect("its own program");
            assert_comes_to(&mut port, &mut outside(), 2);
        })
    });
}

#[test]
fn a_port_that_is_closed_or_without_its_interface_has_no_program_to_take_back() {
    in_root_namespace(|| {
        let _cable = cable();
        let port = open(None).expect("a port");
        let interface = port.interface();
        ip("link del v0");
        interface.run_own().expect("nothing to do");
        drop(port);
        interface.run_own().expect("nothing to do");
        let closed = interface.run(&program(BACK, false)).expect_err("closed");
        assert_eq!(closed.kind(), io::ErrorKind::NotFound);
    });
}
