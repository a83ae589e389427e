//! `reprise p4rt`: a P4Runtime shell for users without a controller, and its script mode. It works with any server, and
//! takes names and types from the P4Info.
//!
//! In reading order: [`words`] parses a line into a tree of words; [`schema`] finds names in the P4Info; [`print`]
//! prints entities as lines, [`json`] as JSON; [`typed`] builds entities from words; [`grammar`] lists every command;
//! [`command`] parses a line into a command; [`complete`] finds the words that may follow in a line; [`info`] describes
//! a program. None of these modules does I/O. [`shell`] executes commands: [`pipeline`] has the commands about the
//! program, [`role`] those about the primary role, [`writes`] those that change entities, [`stream`] those about
//! messages from the switch. [`script`] runs the lines of files, [`terminal`] the lines that a user types.

mod command;
mod complete;
mod grammar;
mod info;
mod json;
mod pipeline;
mod print;
mod role;
mod schema;
mod script;
mod shell;
mod stream;
mod terminal;
#[cfg(test)]
mod tests;
mod typed;
mod words;
mod writes;

use std::io::IsTerminal as _;

pub use grammar::{COMMANDS, NOTATION};
use script::Script;
use shell::{Choices, Place, Shell};

use crate::args::{Global, P4rt};
use crate::failure::Failure;
use crate::files;
use crate::session::connect;

pub async fn run(global: &Global, args: P4rt) -> Result<(), Failure> {
    let mut client = connect(global).await?;
    client.set_role(&args.role);
    if let Some(deadline) = args.deadline {
        client.set_call_timeout(deadline);
    }
    let is_script = !args.commands.is_empty() || !args.files.is_empty();
    let is_interactive = !is_script && std::io::stdin().is_terminal();
    let choices = Choices {
        read_only: args.read_only,
        election_id: args.election_id,
        p4info: args.p4info,
        is_interactive,
    };
    let mut shell = Shell::open(client, global, choices).await?;
    if is_interactive {
        return terminal::run(&mut shell).await;
    }
    let mut script = Script::new(args.keep_going);
    if !is_script {
        script.standard_input(&mut shell).await?;
        return script.end(&shell);
    }
    for path in &args.files {
        let text = files::text(path, "a file of commands")?;
        let name = path.display().to_string();
        let place = |line| Place {
            file: Some(name.clone()),
            line: Some(line),
            depth: 1,
            ..Place::default()
        };
        if !script.text(&mut shell, &text, place).await? {
            return script.end(&shell);
        }
    }
    for text in &args.commands {
        let is_one = text.lines().count() <= 1;
        let place = |line| Place {
            line: (!is_one).then_some(line),
            ..Place::default()
        };
        if !script.text(&mut shell, text, place).await? {
            break;
        }
    }
    script.end(&shell)
}
