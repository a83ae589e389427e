//! The commands for conferences that people join: `reprise` runs another program that carries them out.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

fn run(folder: &std::path::Path, words: &[&str]) -> Output {
    let own = folder.join("reprise");
    if !own.exists() {
        fs::copy(env!("CARGO_BIN_EXE_reprise"), &own).expect("copied");
    }
    let mut command = Command::new(own);
    command.args(words).env("PATH", "/nowhere");
    command.output().expect("it runs")
}

#[test]
fn the_other_program_gets_the_words_as_they_are_and_its_exit_code_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = folder.path().join("reprise-conference");
    fs::write(&other, "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n").expect("written");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).expect("set");
    for words in [
        &["serve", "--dev", "--listen", "127.0.0.1:0"][..],
        &["--json", "join", "http://a", "--token", "-x y"],
        &["serve", "--help"],
    ] {
        let output = run(folder.path(), words);
        let expected: String = words.iter().map(|it| format!("<{it}>")).collect();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        assert_eq!(output.status.code(), Some(7));
    }
}

#[test]
fn without_the_other_program_the_error_says_where_it_belongs() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(folder.path(), &["serve", "--dev"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.starts_with("reprise: this command is in the program reprise-conference"),
        "{said}"
    );
    assert!(
        said.contains(&folder.path().display().to_string()) && said.contains("`make build`"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(1));
}
