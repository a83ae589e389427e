//! Completion at a terminal: commands, then the names that a command accepts.

use std::rc::Rc;

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use crate::commands::{COMMANDS, Takes};
use crate::program::Program;
use crate::session::SharedProgram;

pub struct Completion(SharedProgram);

impl Completion {
    pub fn new(program: &SharedProgram) -> Self {
        Self(Rc::clone(program))
    }
}

impl Helper for Completion {}
impl Highlighter for Completion {}
impl Hinter for Completion {
    type Hint = String;
}
impl Validator for Completion {}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..at];
        let start = before
            .rfind(char::is_whitespace)
            .map_or(0, |space| space + 1);
        let names = names(&self.0.borrow(), &before[..start]);
        let typed = &before[start..];
        let found = names.into_iter().filter(|name| begins(name, typed));
        let pairs = found.map(|name| Pair {
            display: name.clone(),
            replacement: name + " ",
        });
        Ok((start, pairs.collect()))
    }
}

/// Whether the name, or a part of it after a dot, starts with the typed text.
fn begins(name: &str, typed: &str) -> bool {
    let mut ends = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
    name.starts_with(typed) || ends.any(|end| end.starts_with(typed))
}

fn names(program: &Program, before: &str) -> Vec<String> {
    let mut words = before.split_whitespace();
    let commands = || COMMANDS.iter().map(|command| command.name.to_owned());
    let Some(first) = words.next() else {
        return commands().chain(["help".to_owned()]).collect();
    };
    if first == "help" {
        return commands().collect();
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == first) else {
        return Vec::new();
    };
    let words: Vec<&str> = words.collect();
    let of_crc = |bits| {
        let crcs = program.crcs.iter();
        crcs.filter(|(_, found)| **found == bits)
            .map(|(name, _)| name.clone())
            .collect()
    };
    match (command.takes, &words[..]) {
        (Takes::Table | Takes::TableAndAction, []) => program.tables.names().cloned().collect(),
        (Takes::TableAndAction, [table]) => {
            let table = program.tables.get(table);
            table.map_or_else(Vec::new, |it| it.actions.iter().cloned().collect())
        }
        (Takes::Profile | Takes::ProfileAndAction, []) => {
            program.profiles.names().cloned().collect()
        }
        (Takes::ProfileAndAction, [profile]) => {
            let profile = program.profiles.get(profile);
            profile.map_or_else(Vec::new, |it| it.actions.iter().cloned().collect())
        }
        (Takes::Meter, []) => program.meters.names().cloned().collect(),
        (Takes::Counter, []) => program.counters.names().cloned().collect(),
        (Takes::Register, []) => program.registers.names().cloned().collect(),
        (Takes::ValueSet, []) => program.value_sets.names().cloned().collect(),
        (Takes::Crc(bits), []) => of_crc(bits),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_those_that_the_command_takes() {
        let json = json!({
            "actions": [{"name": "In.drop", "runtime_data": []}, {"name": "In.out", "runtime_data": []}],
            "pipelines": [{"tables": [{"name": "In.routes", "type": "simple", "match_type": "exact",
                "key": [], "actions": ["In.drop"]}]}],
            "register_arrays": [{"name": "In.seen"}],
            "calculations": [{"name": "c", "algo": "crc16_custom"}],
        });
        let program = Program::from_json(json.to_string().as_bytes()).unwrap();
        assert!(names(&program, "").contains(&"table_add".to_owned()));
        assert_eq!(names(&program, "table_add "), ["In.routes"]);
        assert_eq!(names(&program, "table_add routes "), ["In.drop"]);
        assert_eq!(names(&program, "register_read "), ["In.seen"]);
        assert_eq!(names(&program, "set_crc16_parameters "), ["c"]);
        assert!(names(&program, "set_crc32_parameters ").is_empty());
        assert!(names(&program, "nothing ").is_empty());
        assert!(
            begins("In.routes", "rou") && begins("In.routes", "In.") && !begins("In.routes", "n")
        );
    }
}
