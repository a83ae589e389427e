//! What happens if the shell has the names of another program than the one in the switch: the shell's messages, and
//! what continues to work.

use crate::switch::{Switch, text};
use testkit::text::{assert_ends, assert_has, assert_starts};

const ROUTER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../examples/p4rt/router.p4"
);

#[test]
fn a_read_by_the_names_of_a_program_that_was_replaced_says_what_to_do() {
    let switch = Switch::new();
    let error = crate::failures::replaced_between(
        &switch,
        "",
        "table list\npipeline reload\ntable list routes\ntable lst\n",
    );
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert!(lines[0].starts_with("reprise: line 2: "), "{error}");
    assert!(
        lines[0].ends_with(
            "; the switch has another program since this shell read it: `pipeline reload` reads its names"
        ),
        "{error}"
    );
    assert!(lines[1].starts_with("reprise: line 5: "), "{error}");
}

#[test]
fn a_mistake_is_not_taken_for_another_program() {
    let switch = Switch::new();
    let error = switch.fails(&[], "clone delete 9");
    assert_ends(&error, "(NotFound)\n");
}

#[test]
fn a_p4info_of_another_program_is_reported() {
    let switch = Switch::new();
    let other = Switch::without_program();
    other.ok(&format!(
        "pipeline set {ROUTER}\npipeline p4info router.p4info.txtpb"
    ));
    let p4info = other.folder.path().join("router.p4info.txtpb");
    let p4info = p4info.to_str().expect("UTF-8");
    for command in [
        "table list",
        "table add routes 10.0.0.0/8 -> drop",
        "begin\ntable add routes 10.0.0.0/8 -> drop\nclone add 5 {1}\ncommit",
    ] {
        let error = switch.fails(&["--p4info", p4info], command);
        assert!(
            error.ends_with(&format!(
                "; the names are of {p4info}, which is not the P4Info of the switch's program: leave --p4info out, or name its own\n"
            )),
            "{command}: {error}"
        );
    }
    let no_p4info = std::env::current_exe().expect("this program");
    let no_p4info = no_p4info.to_str().expect("UTF-8");
    let error = switch.fails(&["--p4info", no_p4info], "table list");
    assert_eq!(
        error,
        format!(
            "reprise: {no_p4info}: expected P4Info as protobuf text, or as binary in a file named .bin, .binpb or .pb, found no text\n"
        )
    );
}

#[test]
fn after_a_save_reads_and_writes_are_for_the_saved_program() {
    let switch = Switch::new();
    let printed = switch.ok(&format!(
        "pipeline save {ROUTER}\ntable add routes 10.0.0.0/8 -> drop\ntable list routes 10.0.0.0/8\npipeline show\ntable list routes -> drop\npipeline commit\ntable list routes -> drop"
    ));
    let lines: Vec<&str> = printed.lines().collect();
    assert!(
        lines[0].starts_with("saved: router.p4 with ")
            && lines[0]
                .ends_with("reads and writes are for it now, `pipeline commit` puts it into force"),
        "{printed}"
    );
    let entry = |line: &&&str| line.starts_with("table add routes dst_addr=10.0.0.0/8 -> drop");
    assert_eq!(lines.iter().filter(entry).count(), 3, "{printed}");
    assert_has(&printed, "\ntable          limited [");
    assert_has(&printed, "\nin force: router.p4 with ");
}

#[test]
fn what_another_controller_has_saved_is_reported() {
    let switch = Switch::new();
    switch.ok(&format!("pipeline save {ROUTER}"));
    let error = switch.fails(&[], "table list");
    assert_has(&error, "; another controller may have saved a program");
    switch.ok("pipeline commit\ntable list routes");
}

#[test]
fn a_program_without_p4info_is_none_that_is_missing() {
    let lack = "the switch has a program without P4Info, so nothing has a name: give its P4Info with --p4info FILE, or set a program that has one with `pipeline set PROGRAM.p4`";
    let switch = Switch::without_p4info();
    for command in [
        "table list",
        "info",
        "dump",
        "clone list",
        "pipeline p4info x.txtpb",
        "counter list",
    ] {
        let error = switch.fails(&[], command);
        assert_eq!(error, format!("reprise: line 1: {lack}\n"), "{command}");
    }
    assert!(!switch.folder.path().join("x.txtpb").exists());
    assert_eq!(
        switch.ok("pipeline show\npipeline reload\npipeline config x.json"),
        "a program without P4Info, cookie none\na program without P4Info\nx.json written\n"
    );
    let json = std::fs::read_to_string(switch.folder.path().join("x.json")).expect("the program");
    assert_has(&json, "\"pipelines\"");
    // A program that is set over P4Runtime has P4Info, so the shell finds its names.
    switch.ok(&format!("pipeline set {ROUTER}\ntable list routes"));

    let switch = Switch::without_program();
    assert_eq!(switch.ok("pipeline reload"), "no pipeline\n");
    for command in ["dump", "clone list", "pipeline show", "info"] {
        let error = switch.fails(&[], command);
        assert_eq!(
            error,
            "reprise: line 1: the switch has no pipeline yet: load one with `pipeline set PROGRAM.p4`\n",
            "{command}"
        );
    }
}

#[test]
fn a_server_of_another_protocol_is_reported() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    // A Thrift server takes the received bytes for the length of a message, finds it too long, and closes the
    // connection.
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut bytes = [0; 64];
        let _ = std::io::Read::read(&mut stream, &mut bytes);
    });
    let folder = tempfile::tempdir().expect("a folder");
    let output = crate::switch::command(&address, &["-c", "table list"], folder.path())
        .output()
        .expect("it runs");
    server.join().expect("its end");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_starts(
        &error,
        &format!("reprise: the server at {address} does not speak P4Runtime"),
    );
}
