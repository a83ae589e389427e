//! Which files remain, and which message appears, when a disk is full.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use testkit::namespace::in_mount_namespace;
use testkit::repository::root;
use testkit::text::{assert_has, assert_starts};

fn reprise(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    command.args(words).current_dir(folder).stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a script with a folder `disk` of `kib` KiB, in the test's own mount namespace.
fn on_small_disk(kib: u32, folder: &Path, script: &str) -> Output {
    // Unmount the disk at the end: the folder cannot be removed while the disk is mounted.
    let mount =
        format!("mkdir disk; mount -t tmpfs -o size={kib}k tmpfs disk; trap 'umount disk' EXIT");
    let output = Command::new("sh")
        .args(["-ec", &format!("{mount}; {script}")])
        .current_dir(folder)
        .env("reprise", env!("CARGO_BIN_EXE_reprise"))
        .output();
    output.expect("sh starts")
}

#[test]
fn a_program_that_does_not_fit_the_disk_leaves_no_file() {
    in_mount_namespace(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let program = root().join("p4/sfu.p4").display().to_string();
        // The first file fits, the second does not. They belong together, so neither may remain.
        let script = format!(
            "if \"$reprise\" compile '{program}' -I '{}' -o disk; then exit 7; fi; ls -A disk",
            root().join("p4").display()
        );
        for kib in [4, 100] {
            let folder = folder.path().join(kib.to_string());
            fs::create_dir(&folder).expect("a folder");
            let output = on_small_disk(kib, &folder, &script);
            assert!(output.status.success(), "{output:?}");
            assert!(
                said(&output).ends_with("cannot be written: no space left\n"),
                "{output:?}"
            );
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                "",
                "nothing is left"
            );
        }
    });
}

#[test]
fn a_file_that_cannot_be_written_anew_keeps_what_it_had() {
    in_mount_namespace(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let long = format!(
            "const  bit<8> x=1;\n{}",
            "// 0123456789012345678901234567890\n".repeat(600)
        );
        fs::write(folder.path().join("long.p4"), &long).expect("written");
        // The disk has room for the source only.
        let script = "cp long.p4 disk/a.p4; if \"$reprise\" fmt disk/a.p4; then exit 7; fi; cmp long.p4 disk/a.p4; ls -A disk";
        let output = on_small_disk(24, folder.path(), script);
        assert!(output.status.success(), "{output:?}");
        assert_has(&said(&output), "cannot be written: no space left");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "a.p4\n");
    });
}

#[test]
fn a_file_written_anew_keeps_its_mode_and_its_links() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("a.p4"), "const bit<8>   x=1 ;\n").expect("written");
    fs::set_permissions(at("a.p4"), fs::Permissions::from_mode(0o640)).expect("set");
    symlink("a.p4", at("link.p4")).expect("a link");
    let output = reprise(folder.path(), &["fmt", "link.p4"])
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let found = fs::read_to_string(at("a.p4")).expect("read");
    assert_eq!(found, "const bit<8> x = 1;\n");
    assert!(
        fs::symlink_metadata(at("link.p4"))
            .expect("there")
            .is_symlink()
    );
    let mode = fs::metadata(at("a.p4"))
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o640);
    let names = fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(names, 2, "nothing is left behind");
}

#[test]
fn a_link_to_a_file_that_is_not_there_yet_stays_a_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("real")).expect("a folder");
    fs::create_dir(at("out")).expect("a folder");
    symlink("second.json", at("out/sfu.json")).expect("a link");
    symlink("../real/third.json", at("out/second.json")).expect("a link");
    let program = root().join("p4/sfu.p4").display().to_string();
    let include = root().join("p4").display().to_string();
    let compile = || {
        let words = ["compile", &program, "-I", &include, "-o", "out"];
        reprise(folder.path(), &words).output().expect("it runs")
    };
    let output = compile();
    assert!(output.status.success(), "{output:?}");
    assert!(
        fs::symlink_metadata(at("real/third.json"))
            .expect("there")
            .is_file()
    );
    for link in ["out/sfu.json", "out/second.json"] {
        assert!(
            fs::symlink_metadata(at(link)).expect("there").is_symlink(),
            "{link}"
        );
    }
    // Nothing can be written to a path that is a loop of symbolic links.
    fs::remove_file(at("out/second.json")).expect("removed");
    symlink("sfu.json", at("out/second.json")).expect("a link");
    let output = compile();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_has(&said(&output), "sfu.json: cannot be written: ");
}

#[test]
fn a_folder_named_as_standard_output_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = root().join("p4/sfu.p4").display().to_string();
    let output = reprise(folder.path(), &["compile", &program, "-o", "-"]).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_starts(&said(&output), "reprise: -o names a folder");
    assert!(!folder.path().join("-").exists());
}

#[test]
fn standard_output_on_a_full_disk_is_an_error_and_a_reader_that_left_is_none() {
    let full = || {
        fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full")
    };
    let program = root().join("p4/sfu.p4").display().to_string();
    let check = ["compile", "-E", &program];
    for words in [
        &["explain"][..],
        &["doctor"],
        &check,
        &["doctor", "--json"],
        &["--help"],
        &["--version"],
    ] {
        let output = reprise(&root(), words)
            .stdout(full())
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        let expected = "reprise: standard output cannot be written: no space left\n";
        assert!(said(&output).ends_with(expected), "{words:?}: {output:?}");
    }
    let mut child = reprise(&root(), &check)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut first = [0; 10];
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut first).expect("a beginning");
    drop(stdout);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        (output.status.code(), said(&output).as_str()),
        (Some(0), "")
    );
}

#[test]
fn standard_error_that_cannot_be_written_changes_no_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let write =
        |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    write("bad.p4", "const bit<8> x = true;\n");
    write("bad.stf", "no command\n");
    let program = root().join("p4/sfu.p4").display().to_string();
    let cases: [(&[&str], i32); 6] = [
        (&["check", "bad.p4"], 1),
        (&["check", "bad.p4", "--message-format", "json"], 1),
        (&["check", "nofile.p4"], 1),
        (&["stf", &program, "bad.stf"], 1),
        (&["group", "add", "--group", "x"], 2),
        (&["show", "--switch", "nowhere"], 1),
    ];
    for (words, code) in cases {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let mut full = reprise(folder.path(), words)
            .stderr(full.expect("/dev/full"))
            .spawn()
            .expect("it runs");
        let found = full.wait().expect("it ends").code();
        assert_eq!(found, Some(code), "{words:?}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let status = reprise(folder.path(), words).stderr(writer).status();
        assert_eq!(status.expect("it runs").code(), Some(code), "{words:?}");
    }
}

#[test]
fn devices_and_pipes_that_a_program_names_are_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo starts").success());
    let named = ["/dev/zero".to_owned(), pipe.display().to_string()];
    for (name, why) in named.iter().zip(["a device or socket", "a pipe"]) {
        fs::write(
            folder.path().join("program.p4"),
            format!("#include \"{name}\"\n"),
        )
        .expect("written");
        let output = reprise(folder.path(), &["check", "program.p4"]).output();
        let output = output.expect("it ends");
        let expected = format!("cannot use `{name}`: cannot be read: it is {why}, expected a file");
        assert!(said(&output).contains(&expected), "{}", said(&output));
    }
    let whole = reprise(folder.path(), &["check", "/dev/zero"]).output();
    let whole = said(&whole.expect("it ends"));
    assert!(whole.contains("it is a device or socket"), "{whole}");
}

#[test]
fn a_name_with_a_lines_end_forges_no_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let forged = "x\nreprise: all is well\x1b[31m";
    let shown = "x\\nreprise: all is well\\u001b[31m";
    fs::write(folder.path().join(format!("{forged}.p4")), "control Broken").expect("written");
    let (file, none) = (format!("{forged}.p4"), format!("{forged}/none.p4"));
    for words in [
        &["check", &none][..],
        &["check", &file],
        &["stf", &file, &none],
        &["apply", &none],
        &["check", "-I", forged, &file],
    ] {
        let output = reprise(folder.path(), words).output().expect("it runs");
        let said = said(&output);
        assert!(!output.status.success(), "{words:?}: {said}");
        // The compiler escapes names in another way.
        let is_shown = said.contains(shown) || said.contains("x\\nreprise: all is well\\u{1b}[31m");
        assert!(is_shown, "{words:?}: {said}");
        let is_forged =
            |line: &str| line.starts_with("reprise: all is well") || line.contains('\x1b');
        assert!(!said.lines().any(is_forged), "{words:?}: {said}");
    }
}

#[test]
fn an_included_folder_that_is_none_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = root().join("p4/sfu.p4").display().to_string();
    for words in [
        &["check", "-I", "nodir", &program][..],
        &["fmt", "--check", "-I", "nodir", &program],
    ] {
        let output = reprise(folder.path(), words).output().expect("it runs");
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert_eq!(said, "reprise: -I nodir: expected a folder, found none\n");
    }
}
