//! Manual pages: one for each program and each of its commands.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::commands::{self, is_of_another_program, listed};

/// Returns each page's path and text.
pub fn all() -> Vec<(String, Vec<u8>)> {
    let reprise = commands::reprise();
    let conference = commands::conference();
    let mut pages = Vec::new();
    with_all_below(&reprise, &mut pages);
    // `reprise-conference` itself needs no page, since the page of `reprise` describes it.
    for command in listed(&conference) {
        with_all_below(command, &mut pages);
    }
    with_all_below(&commands::switch(), &mut pages);
    with_all_below(&commands::signer(), &mut pages);
    pages
}

fn with_all_below(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) {
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name());
    pages.push((format!("man/{name}.1"), page(command)));
    for below in listed(command).filter(|it| !is_of_another_program(it)) {
        with_all_below(below, pages);
    }
}

/// Returns the page that clap_mangen makes of a command, except that the text after the command's help keeps its own
/// lines.
fn page(command: &Command) -> Vec<u8> {
    let man = Man::new(command.clone())
        .source(format!("Reprise {}", env!("CARGO_PKG_VERSION")))
        .manual("Reprise");
    let mut page = Vec::new();
    let mut write = |section: fn(&Man, &mut dyn std::io::Write) -> std::io::Result<()>| {
        section(&man, &mut page).unwrap_or_else(|_| unreachable!("memory"));
    };
    write(Man::render_title);
    write(Man::render_name_section);
    write(Man::render_synopsis_section);
    write(Man::render_description_section);
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        write(Man::render_options_section);
    }
    if listed(command).next().is_some() {
        write(Man::render_subcommands_section);
    }
    if let Some(notes) = notes(command) {
        page.extend(notes.into_bytes());
    }
    page
}

/// Returns the text after a command's help, line by line.
fn notes(command: &Command) -> Option<String> {
    let text = command
        .get_after_long_help()
        .or_else(|| command.get_after_help())?;
    let mut roff = Roff::new();
    roff.control("SH", ["NOTES"]);
    roff.control("nf", []);
    for line in text.to_string().lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    Some(roff.render())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_name_and_purpose() {
        let pages = all();
        let names: BTreeSet<&str> = pages.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(names.len(), pages.len());
        for path in [
            "man/reprise.1",
            "man/reprise-serve.1",
            "man/reprise-group-add.1",
            "man/reprise-switch.1",
            "man/reprise-signer-key-new.1",
        ] {
            assert!(names.contains(path), "{path}: {names:?}");
        }
        for (path, text) in &pages {
            let text = String::from_utf8(text.clone()).expect("text");
            let name = path["man/".len()..path.len() - ".1".len()].replace('-', "\\-");
            let line = format!("\n.SH NAME\n{name} \\- ");
            assert!(text.contains(&line), "{path}: {text}");
        }
    }

    #[test]
    fn examples_keep_their_lines() {
        let pages = all();
        let (_, serve) = pages
            .iter()
            .find(|(path, _)| path == "man/reprise-serve.1")
            .expect("a page");
        let text = String::from_utf8_lossy(serve);
        let (_, notes) = text.split_once(".SH NOTES\n.nf\n").expect("notes");
        assert!(
            notes
                .lines()
                .any(|line| { line.trim_start().starts_with("reprise serve \\-\\-dev") })
        );
        assert!(!text.contains("takeover"), "{text}");
    }
}
