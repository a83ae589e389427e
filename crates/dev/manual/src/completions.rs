//! Makes the completion files of the shells.
//!
//! The generators also offer hidden options, and clap passes the options for a switch on to every command. So we give
//! the generators each command with exactly the options and commands that its help lists.

use clap::Command;
use clap_complete::{Shell, generate};

use crate::commands::{self, is_of_another_program, listed};

/// Returns each file's path and text.
pub fn all() -> Vec<(String, Vec<u8>)> {
    let conference = commands::conference();
    let programs = [
        ("reprise", shown(&commands::reprise(), Some(&conference))),
        ("reprise-switch", shown(&commands::switch(), None)),
        ("reprise-signer", shown(&commands::signer(), None)),
    ];
    let mut files = Vec::new();
    for (name, command) in programs {
        for (shell, path) in [
            (Shell::Bash, format!("bash/{name}")),
            (Shell::Zsh, format!("zsh/_{name}")),
            (Shell::Fish, format!("fish/{name}.fish")),
        ] {
            let mut text = Vec::new();
            generate(shell, &mut command.clone(), name, &mut text);
            files.push((path, text));
        }
    }
    files
}

/// Returns a command with the options and commands that its help lists. For a command of another program, these are the
/// options and commands that the other program has.
fn shown(command: &Command, other_program: Option<&Command>) -> Command {
    let arguments = command.get_arguments().filter(|arg| !arg.is_hide_set());
    // clap adds `help` and `version` again.
    let arguments = arguments.filter(|arg| !["help", "version"].contains(&arg.get_id().as_str()));
    // clap needs names that live until the program ends. A feature of clap would accept other names, but the other
    // programs do not use this feature.
    let name: &'static str = command.get_name().to_owned().leak();
    let mut result = Command::new(name)
        .disable_help_subcommand(true)
        .args(arguments.map(|arg| arg.clone().global(false)));
    if let Some(about) = command.get_about() {
        result = result.about(about.clone());
    }
    if command.get_version().is_some() {
        result = result.version(env!("CARGO_PKG_VERSION"));
    }
    for below in listed(command) {
        let other = other_program.filter(|_| is_of_another_program(below));
        let other = other.and_then(|it| it.find_subcommand(below.get_name()));
        result = result.subcommand(shown(other.unwrap_or(below), None));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(command: &Command) -> Vec<&str> {
        command
            .get_arguments()
            .filter_map(|arg| arg.get_long())
            .collect()
    }

    #[test]
    fn a_command_is_completed_by_its_own_options_only() {
        let conference = commands::conference();
        let reprise = shown(&commands::reprise(), Some(&conference));
        let of = |name: &str| options(reprise.find_subcommand(name).expect(name));
        assert!(of("serve").contains(&"config"));
        assert!(!of("serve").contains(&"switch"));
        assert!(of("doctor").contains(&"service"));
        assert!(!of("doctor").contains(&"takeover"));
        assert!(of("watch").contains(&"switch"));
    }

    #[test]
    fn there_is_a_file_for_each_shell_that_names_commands_and_options() {
        let files = all();
        for path in ["bash/reprise", "zsh/_reprise", "fish/reprise.fish"] {
            let (_, text) = files.iter().find(|(it, _)| it == path).expect(path);
            let text = String::from_utf8_lossy(text);
            for word in ["serve", "check-config", "takeover"] {
                assert!(text.contains(word), "{path}: {word}");
            }
        }
    }
}
