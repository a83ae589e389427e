//! The command lines of the programs.

use clap::{Command, CommandFactory};

/// `reprise`, without the commands that `reprise-conference` has.
pub fn reprise() -> Command {
    built(reprise::command())
}

/// The commands of `reprise-conference`, as `reprise` offers them.
pub fn conference() -> Command {
    built(reprise_conference::args::Args::command())
}

pub fn switch() -> Command {
    built(reprise_switch::command())
}

pub fn signer() -> Command {
    built(reprise_signer::args::Options::command())
}

/// Returns the command with the names, global options and other parts that clap adds.
fn built(command: Command) -> Command {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    command
}

/// Returns the subcommands that a command's help lists.
pub fn listed(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|it| !it.is_hide_set())
}

/// Whether `reprise` only passes the words of this command on to another program.
pub fn is_of_another_program(command: &Command) -> bool {
    command.get_arguments().any(|arg| arg.get_id() == "words")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<'a>(commands: impl Iterator<Item = &'a Command>) -> Vec<String> {
        let mut names: Vec<String> = commands.map(|it| it.get_name().to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn reprise_lists_what_the_other_program_has() {
        let (reprise, conference) = (reprise(), conference());
        let passed_on = listed(&reprise).filter(|it| is_of_another_program(it));
        assert_eq!(names(passed_on), names(listed(&conference)));
        for below in listed(&conference) {
            let here = reprise.find_subcommand(below.get_name()).expect("it is");
            let about = |command: &Command| command.get_about().map(ToString::to_string);
            assert_eq!(about(here), about(below));
        }
    }

    #[test]
    fn doctor_of_a_service_takes_the_same_options_in_both_programs() {
        let conference = conference();
        let there = conference.find_subcommand("doctor").expect("it is there");
        let reprise = reprise();
        let here = reprise.find_subcommand("doctor").expect("it is here");
        let longs = |command: &Command| {
            let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
            let mut longs: Vec<String> = shown
                .filter_map(|arg| arg.get_long().map(str::to_owned))
                .collect();
            longs.sort();
            longs
        };
        assert_eq!(longs(here), longs(there));
    }
}
