//! Lines that begin with `#`.

use super::Preprocessor;
use super::expand::Calling;
use super::token::{Kind, PpToken};
use crate::source::Span;

/// An open `#if`: whether its current branch is taken, and whether any of its branches was taken so far.
pub(super) struct Conditional {
    pub(super) taken: bool,
    any_taken: bool,
    /// The `#else`, if there was one.
    ended: Option<Span>,
    pub(super) span: Span,
    /// Where the `#` of the `#if` is, and where the `#` of the current branch is.
    opens: u32,
    begin: u32,
    /// No macro can select the current branch: its condition is `0`, or the condition of an earlier branch is `1`.
    never: bool,
    /// The condition of the current branch, or of an earlier one, is `1`.
    always: bool,
}

/// A branch of a conditional in the program's own file. `opens`, `begin` and `end` are positions of a `#`.
#[derive(Clone, Debug)]
pub struct Branch {
    pub opens: u32,
    pub begin: u32,
    pub end: u32,
    /// The beginnings of the branches around this one, the outermost first.
    pub within: Vec<u32>,
    /// Whether the preprocessor took the branch into the program.
    pub taken: bool,
    /// No macro can select the branch: `#if 0`.
    pub never: bool,
}

const DIRECTIVES: &[&str] = &[
    "include", "define", "undef", "if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else",
    "endif", "error", "warning", "line", "pragma", "import", "ident",
];

impl Preprocessor<'_> {
    /// Executes a directive; `calling` says whether the directive is among the arguments of a macro.
    pub(super) fn directive(&mut self, line: &[PpToken], calling: Calling) {
        let Some((hash, rest)) = line.split_first() else {
            return;
        };
        let span = rest
            .last()
            .map_or(hash.span, |last| hash.span.to(last.span));
        if hash.is("##") {
            return;
        }
        let active = self.is_active();
        let Some(name) = rest.first().and_then(PpToken::name).cloned() else {
            // `# 12 "file"` is a line marker; any other such line is a comment, as in an assembler's file.
            let is_marker = rest.first().is_some_and(|token| token.kind == Kind::Number)
                && rest.get(1).is_none_or(|token| token.kind == Kind::Str);
            if active && is_marker {
                self.line_marker(rest, span);
            }
            return;
        };
        let (directive, rest) = (&rest[0], &rest[1..]);
        match &*name {
            "if" | "ifdef" | "ifndef" => {
                self.open_conditional(&name, rest, span, hash.span.start);
            }
            "elif" | "elifdef" | "elifndef" | "else" | "endif" => {
                self.end_branch(hash.span.start);
                self.branch(&name, rest, span);
                self.begin_branch(&name, rest, hash.span.start);
            }
            _ if !active => {}
            "include" | "import" if calling != Calling::No => {
                let message = format!("`#{name}` stands among the arguments of a macro");
                self.sink.error("E0112", span, message);
            }
            "include" | "import" => self.include(rest, span, &*name == "import"),
            "define" => self.define(rest, span),
            "undef" => {
                if let Some(name) = self.macro_name("undef", rest, span) {
                    self.nothing_more("undef", &rest[1..]);
                    self.macros.remove(&name.text);
                }
            }
            "error" => {
                let text = self.behind(directive, rest);
                self.sink.error("E0113", span, format!("#error: {text}"));
            }
            "warning" => {
                let text = self.behind(directive, rest);
                self.sink
                    .warning("W0863", span, format!("#warning: {text}"));
            }
            "line" => self.line(rest, span),
            "pragma" => self.pragma(rest, span),
            "ident" | "sccs" => {}
            _ => self.unknown(directive, span),
        }
    }

    pub(super) fn is_active(&self) -> bool {
        let file = self.files.last();
        file.is_some_and(|file| file.conditionals.iter().all(|open| open.taken))
    }

    /// Returns the text after the directive's name, unchanged.
    fn behind(&self, directive: &PpToken, rest: &[PpToken]) -> String {
        let (Some(first), Some(last)) = (rest.first(), rest.last()) else {
            return "(without a text)".to_owned();
        };
        if rest.iter().any(|token| token.made) || directive.span.file != first.span.file {
            return spelled(rest);
        }
        self.sources.text(first.span.to(last.span)).to_owned()
    }

    /// Handles a `#` line whose word is no directive: the line is a comment, unless the word looks misspelt.
    fn unknown(&mut self, directive: &PpToken, span: Span) {
        let name = &directive.text;
        let known = DIRECTIVES.iter().copied();
        let meant = match &**name {
            "elsif" | "elseif" => Some("elif".to_owned()),
            _ => names::nearest(name, known),
        };
        match meant {
            Some(meant) if !directive.space => {
                self.sink
                    .error(
                        "E0114",
                        directive.span,
                        format!("unknown directive `#{name}`"),
                    )
                    .did_you_mean(directive.span, Some(meant));
            }
            None if directive.space => {}
            meant => {
                let message = format!("`#{name}` is no directive: the line is taken for a comment");
                self.sink
                    .warning("W0864", span, message)
                    .help("write `//` where it is a comment")
                    .did_you_mean(directive.span, meant);
            }
        }
    }

    pub(super) fn nothing_more(&mut self, name: &str, rest: &[PpToken]) {
        let (Some(first), Some(last)) = (rest.first(), rest.last()) else {
            return;
        };
        let raw = self.sink.warning(
            "W0866",
            first.span.to(last.span),
            format!("this text after `#{name}` has no effect"),
        );
        match name {
            "else" if &*first.text == "if" => raw.help("write `#elif`"),
            "ifdef" | "ifndef" => raw.help("write `#if` with `defined(X)` for more than one name"),
            _ => raw.help("write it as a comment"),
        };
    }

    fn branch(&mut self, name: &str, rest: &[PpToken], span: Span) {
        let Some(file) = self.files.last_mut() else {
            return;
        };
        let Some((open, outer)) = file.conditionals.split_last_mut() else {
            let message = format!("`#{name}` without `#if`");
            self.sink.error("E0115", span, message);
            return;
        };
        if name == "endif" {
            file.conditionals.pop();
            self.nothing_more(name, rest);
            return;
        }
        if let Some(ended) = open.ended {
            self.sink
                .error("E0115", span, format!("`#{name}` after `#else`"))
                .note_at(ended, "the `#else` is here");
        }
        let possible = outer.iter().all(|open| open.taken) && !open.any_taken;
        // The previous branch ends here, so it is no longer taken.
        open.taken = false;
        open.ended = (name == "else").then_some(span);
        let condition = if name == "elif" {
            "if"
        } else {
            &name[2.min(name.len())..]
        };
        if name == "else" {
            self.nothing_more(name, rest);
        }
        let taken = possible && (name == "else" || self.condition(condition, rest, span));
        let open = self
            .files
            .last_mut()
            .and_then(|file| file.conditionals.last_mut());
        if let Some(open) = open {
            open.taken = taken;
            open.any_taken |= taken;
        }
    }

    fn open_conditional(&mut self, name: &str, rest: &[PpToken], span: Span, begin: u32) {
        let holds = match self.is_chosen(begin) {
            Some(chosen) => chosen,
            None => self.is_active() && self.condition(name, rest, span),
        };
        if let Some(file) = self.files.last_mut() {
            file.conditionals.push(Conditional {
                taken: holds,
                any_taken: holds,
                ended: None,
                span,
                opens: begin,
                begin,
                never: says(name, rest, "0"),
                always: says(name, rest, "1"),
            });
        }
    }

    fn end_branch(&mut self, end: u32) {
        let [file] = self.files.as_slice() else {
            return;
        };
        let Some((open, outer)) = file.conditionals.split_last() else {
            return;
        };
        self.branches.push(Branch {
            opens: open.opens,
            begin: open.begin,
            end,
            within: outer.iter().map(|open| open.begin).collect(),
            taken: open.taken && outer.iter().all(|open| open.taken),
            never: open.never,
        });
    }

    fn begin_branch(&mut self, name: &str, rest: &[PpToken], begin: u32) {
        if name == "endif" {
            return;
        }
        let chosen = self.is_chosen(begin);
        let file = self.files.last_mut();
        if let Some(open) = file.and_then(|file| file.conditionals.last_mut()) {
            open.begin = begin;
            open.never = open.always || says(name, rest, "0");
            open.always |= says(name, rest, "1");
            open.taken = chosen.unwrap_or(open.taken);
        }
    }

    /// Returns whether the caller wants the branch that begins here to be taken; `None` if the caller did not choose,
    /// or if the branch is not in the program's own file.
    fn is_chosen(&self, begin: u32) -> Option<bool> {
        let chosen = self.chosen.get(&begin).copied();
        chosen.filter(|_| self.files.len() == 1)
    }

    fn pragma(&mut self, rest: &[PpToken], span: Span) {
        let word = |at: usize| rest.get(at).and_then(PpToken::name).map(|name| &**name);
        match word(0) {
            Some("once") => {
                if let Some(file) = self.files.last().filter(|_| self.files.len() > 1) {
                    self.once.insert(file.name.clone());
                }
            }
            Some(how @ ("push_macro" | "pop_macro")) => {
                let named = rest.get(2).filter(|token| token.kind == Kind::Str);
                let Some(named) = named else {
                    let message = format!("expected `(\"NAME\")` after `#pragma {how}`");
                    self.sink.error("E0112", span, message);
                    return;
                };
                let name: std::rc::Rc<str> = named.text.trim_matches('"').into();
                let current = self.macros.get(&name).cloned();
                if how == "push_macro" {
                    self.pushed.entry(name).or_default().push(current);
                } else if let Some(before) = self.pushed.get_mut(&name).and_then(Vec::pop) {
                    match before {
                        Some(before) => self.macros.insert(name, before),
                        None => self.macros.remove(&name),
                    };
                }
            }
            Some("GCC") if matches!(word(1), Some("error" | "warning")) => {
                let text = rest.get(2).map_or("", |token| token.text.trim_matches('"'));
                if word(1) == Some("error") {
                    self.sink.error("E0113", span, format!("#error: {text}"));
                } else {
                    self.sink
                        .warning("W0863", span, format!("#warning: {text}"));
                }
            }
            _ => {}
        }
    }

    /// Reads `_Pragma("text")`, which expands to nothing.
    pub(super) fn pragma_operator(&mut self, name: &PpToken) -> Vec<PpToken> {
        let wanted = |token: &PpToken, at: usize| match at {
            0 => token.is("("),
            1 => token.kind == Kind::Str,
            _ => token.is(")"),
        };
        for at in 0..3 {
            let token = self.next_token();
            if !wanted(&token, at) {
                if token.kind != Kind::End {
                    self.give_back();
                }
                let message = "expected `(\"text\")` after `_Pragma`";
                self.sink.error("E0112", name.span, message);
                break;
            }
        }
        Vec::new()
    }
}

/// Whether a condition consists of this number only.
fn says(name: &str, rest: &[PpToken], number: &str) -> bool {
    matches!(name, "if" | "elif") && matches!(rest, [only] if &*only.text == number)
}

/// Returns the text of tokens, with spaces where white space was.
pub(super) fn spelled(tokens: &[PpToken]) -> String {
    let mut out = String::new();
    for token in tokens {
        if token.space && !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&token.text);
    }
    out
}
