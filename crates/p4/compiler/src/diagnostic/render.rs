//! Renders a diagnostic in rustc's form, with every place underlined in its line.

use std::fmt::Write as _;

use super::{Diagnostic, Place, Severity, Suggestion};

/// Printed instead of a tab, so that marks are below the right characters.
const TAB: &str = "    ";

/// A range of a source line to underline, and the text to print at the underline.
struct Mark<'a> {
    file: &'a str,
    line: u32,
    column: u32,
    length: u32,
    source_line: &'a str,
    text: &'a str,
    is_primary: bool,
}

impl<'a> Mark<'a> {
    fn new(place: &'a Place, text: &'a str) -> Self {
        Self {
            file: &place.file,
            line: place.line,
            column: place.column,
            length: place.length,
            source_line: &place.source_line,
            text,
            is_primary: false,
        }
    }

    /// Returns the mark's first screen column, and the column after the mark's last column.
    fn columns(&self) -> (usize, usize) {
        let start = screen_column(self.source_line, self.column as usize - 1);
        let behind = self.column as usize - 1 + self.length.max(1) as usize;
        (start, screen_column(self.source_line, behind))
    }
}

/// Returns the screen column, counted from 0, of the character that follows the first `characters` characters of the
/// line. Characters past the line's end are one column wide.
fn screen_column(line: &str, characters: usize) -> usize {
    let mut chars = line.chars();
    let mut column = 0;
    for _ in 0..characters {
        column += if chars.next() == Some('\t') {
            TAB.len()
        } else {
            1
        };
    }
    column
}

impl Diagnostic {
    /// Formats the diagnostic for people: several lines, with a newline at the end.
    pub fn render(&self) -> String {
        let kind = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let mut marks = vec![Mark {
            file: &self.file,
            line: self.line,
            column: self.column,
            length: self.length,
            source_line: &self.source_line,
            text: &self.label,
            is_primary: true,
        }];
        marks.extend(
            self.notes
                .iter()
                .filter_map(|note| Some(Mark::new(note.place.as_ref()?, &note.message))),
        );
        let widest = marks.iter().map(|mark| mark.line).max().unwrap_or(0);
        let gutter = " ".repeat(widest.to_string().len());
        let mut out = format!("{kind}[{}]: {}\n", self.code, self.message);
        // Writing to a string cannot fail, so the results of `writeln!` are ignored.
        let mut files: Vec<&str> = Vec::new();
        for mark in &marks {
            if !files.contains(&mark.file) {
                files.push(mark.file);
            }
        }
        for file in files {
            let of_file: Vec<&Mark<'_>> = marks.iter().filter(|mark| mark.file == file).collect();
            write_file(&mut out, &of_file, &gutter);
        }
        for note in self.notes.iter().filter(|note| note.place.is_none()) {
            let _ = writeln!(out, "{gutter} = note: {}", note.message);
        }
        if let Some(help) = &self.help {
            let _ = writeln!(out, "{gutter} = help: {help}");
        }
        if let Some(suggestion) = &self.suggestion {
            self.write_suggestion(&mut out, suggestion, &gutter);
        }
        out
    }

    /// Writes the suggestion's message. Also writes the source line as changed, unless the change is at the underlined
    /// text or spans several lines.
    fn write_suggestion(&self, out: &mut String, suggestion: &Suggestion, gutter: &str) {
        let place = &suggestion.place;
        let at_primary = (place.line, place.column, place.length, &place.file)
            == (self.line, self.column, self.length, &self.file);
        let has_lines = suggestion.replacement.contains('\n') || place.end_line != place.line;
        if at_primary || has_lines {
            let _ = writeln!(out, "{gutter} = help: {}", suggestion.message);
            return;
        }
        let chars: Vec<char> = place.source_line.chars().collect();
        let start = (place.column as usize - 1).min(chars.len());
        let end = (start + place.length as usize).min(chars.len());
        let before: String = chars[..start].iter().collect();
        let after: String = chars[end..].iter().collect();
        let line = format!("{before}{}{after}", suggestion.replacement);
        let sign = if end == start { "+" } else { "~" };
        let blanks = " ".repeat(screen_column(&before, start));
        let signs = sign.repeat(suggestion.replacement.chars().count());
        let _ = write!(
            out,
            "{gutter} |\nhelp: {}\n{gutter} |\n{:<width$} | {}\n{gutter} | {blanks}{signs}\n",
            suggestion.message,
            place.line,
            line.replace('\t', TAB),
            width = gutter.len(),
        );
    }
}

/// Escapes control characters in a file's name: a line end could forge another line of output.
fn one_line(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_control() {
            out.extend(c.escape_default())
        } else {
            out.push(c)
        }
    }
    out
}

fn write_file(out: &mut String, marks: &[&Mark<'_>], gutter: &str) {
    let Some(first) = marks.first() else { return };
    let arrow = if first.is_primary { "-->" } else { ":::" };
    let _ = writeln!(
        out,
        "{gutter}{arrow} {}:{}:{}\n{gutter} |",
        one_line(first.file),
        first.line,
        first.column
    );
    let mut lines: Vec<u32> = marks.iter().map(|mark| mark.line).collect();
    lines.sort_unstable();
    lines.dedup();
    let mut before = None;
    for line in lines {
        if before.is_some_and(|before| before + 1 != line) {
            let _ = writeln!(out, "...");
        }
        before = Some(line);
        let on_line: Vec<&Mark<'_>> = marks
            .iter()
            .filter(|mark| mark.line == line)
            .copied()
            .collect();
        write_line(out, line, &on_line, gutter);
    }
}

/// Writes a source line with its underlines and their texts: the rightmost text after its underline, the others
/// below, each under the start of its underline.
fn write_line(out: &mut String, line: u32, marks: &[&Mark<'_>], gutter: &str) {
    let Some(any) = marks.first() else { return };
    let text = any.source_line.replace('\t', TAB);
    let _ = writeln!(out, "{line:<width$} | {text}", width = gutter.len());
    let mut sorted = marks.to_vec();
    // Among marks that start in one column the primary mark comes last, so that its text may follow the underline.
    sorted.sort_by_key(|mark| (mark.columns().0, mark.is_primary));
    let mut under: Vec<char> = Vec::new();
    for primary in [false, true] {
        for mark in sorted.iter().filter(|mark| mark.is_primary == primary) {
            let (start, end) = mark.columns();
            if under.len() < end {
                under.resize(end, ' ');
            }
            under[start..end].fill(if primary { '^' } else { '-' });
        }
    }
    let under: String = under.into_iter().collect();
    let inline = sorted.pop_if(|last| last.columns().1 == under.chars().count());
    let label = match inline {
        Some(mark) if !mark.text.is_empty() => format!(" {}", mark.text),
        _ => String::new(),
    };
    let _ = writeln!(out, "{gutter} | {under}{label}");
    sorted.retain(|mark| !mark.text.is_empty());
    if !sorted.is_empty() {
        let bars = bars(&sorted);
        let _ = writeln!(out, "{gutter} | {}", bars.trim_end());
    }
    while let Some(mark) = sorted.pop() {
        let bars = bars(&sorted);
        let (start, _) = mark.columns();
        let lead: String = bars.chars().take(start).collect();
        let _ = writeln!(out, "{gutter} | {lead:<start$}{}", mark.text);
    }
}

/// Returns a line of output with `|` under the start of each mark.
fn bars(marks: &[&Mark<'_>]) -> String {
    let mut row: Vec<char> = Vec::new();
    for mark in marks {
        let (start, _) = mark.columns();
        if row.len() <= start {
            row.resize(start + 1, ' ');
        }
        row[start] = '|';
    }
    row.into_iter().collect()
}
