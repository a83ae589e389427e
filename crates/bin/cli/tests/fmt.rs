//! `reprise fmt` as a user types it.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use testkit::text::assert_ends;

const UGLY: &str = "const bit<8>   x=1 ;\n";
const FORMATTED: &str = "const bit<8> x = 1;\n";

fn fmt(folder: &Path, words: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_reprise"))
        .arg("fmt")
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("standard input");
    stdin.write_all(input.as_bytes()).expect("written");
    drop(stdin);
    child.wait_with_output().expect("the binary ends")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn files_are_formatted_in_place_and_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.p4");
    fs::write(&path, UGLY).expect("written");

    let checked = fmt(folder.path(), &["--check", "a.p4"], "");
    assert_eq!(checked.status.code(), Some(1));
    assert_eq!(text(&checked.stdout), "a.p4:1: not formatted\n");
    assert_eq!(fs::read_to_string(&path).expect("read"), UGLY);

    assert!(fmt(folder.path(), &["a.p4"], "").status.success());
    assert_eq!(fs::read_to_string(&path).expect("read"), FORMATTED);
    assert!(
        fmt(folder.path(), &["--check", "a.p4"], "")
            .status
            .success()
    );
}

#[test]
fn standard_input_goes_to_standard_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let formatted = fmt(folder.path(), &["-"], UGLY);
    assert!(formatted.status.success());
    assert_eq!(text(&formatted.stdout), FORMATTED);
}

#[test]
fn what_is_not_p4_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text);
    write("bad.p4", b"control  c( {").expect("written");
    write("bytes.p4", b"// \xff\n").expect("written");
    write("good.p4", UGLY.as_bytes()).expect("written");
    let output = fmt(folder.path(), &["bad.p4", "bytes.p4", "good.p4"], "");
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("bad.p4:1:"), "{error}");
    assert!(error.contains("bytes.p4: line 1 is not UTF-8"), "{error}");
    assert_ends(error, "2 of 3 files left as they are\n");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("read");
    assert_eq!(read("bad.p4"), "control  c( {");
    assert_eq!(read("good.p4"), FORMATTED);
}
