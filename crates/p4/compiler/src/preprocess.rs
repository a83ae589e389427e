//! `#include`, macros and conditional text: the C preprocessor on tokens, so that every token keeps its source
//! position.
//!
//! The preprocessor does the same as `cpp -undef -nostdinc -x assembler-with-cpp`, which p4c runs ([`expand`] and
//! [`replace`] for macros, [`condition`] for `#if`). It has C's rules and GNU's extensions, and one of the assembler's
//! rules: it ignores a line `# text` that is no directive. [`program`] makes P4 tokens from the output. A token of a
//! macro's body has the position of the macro's use, a token of an argument has its own position.

mod builtin;
mod condition;
mod directive;
mod expand;
mod include;
mod line;
mod macros;
pub mod print;
pub mod program;
mod replace;
pub mod token;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

pub use self::directive::Branch;
use self::directive::Conditional;
use self::expand::{Calling, Context};
use self::macros::Macro;
use self::token::{Kind, Lexer, PpToken};
use crate::SourceProvider;
use crate::diagnostic::Sink;
use crate::lex::Token;
use crate::limits;
use crate::source::{SourceMap, Span};

const EMBEDDED: &[(&str, &str)] = &[
    ("core.p4", include_str!("../../../../p4/include/core.p4")),
    (
        "v1model.p4",
        include_str!("../../../../p4/include/v1model.p4"),
    ),
];

/// The file name that messages show for macros from the command line.
const COMMAND_LINE: &str = "<command line>";

/// Whether messages use this name for an embedded file or for the command line.
pub fn is_embedded(name: &str) -> bool {
    let inner = name
        .strip_prefix('<')
        .and_then(|name| name.strip_suffix('>'));
    name == COMMAND_LINE || EMBEDDED.iter().any(|(known, _)| inner == Some(*known))
}

/// Returns the name of the embedded file (`core.p4` or `v1model.p4`) that declares `name` at its top level.
pub fn embedded_file_with(name: &str) -> Option<&'static str> {
    const BEGINNINGS: &[&str] = &["extern ", "struct ", "action ", "package ", "enum "];
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let declares = |line: &str| {
        BEGINNINGS
            .iter()
            .any(|beginning| line.starts_with(beginning))
            && line
                .split(['(', '<', '{'])
                .next()
                .and_then(|head| head.trim_end().rsplit(|c| !is_word(c)).next())
                == Some(name)
    };
    let found = EMBEDDED.iter().find(|(_, text)| text.lines().any(declares));
    found.map(|(file, _)| *file)
}

struct Reading {
    name: String,
    lexer: Lexer,
    line: Vec<PpToken>,
    at: usize,
    conditionals: Vec<Conditional>,
}

pub struct Preprocessor<'a> {
    sources: &'a mut SourceMap,
    provider: &'a dyn SourceProvider,
    include_dirs: &'a [String],
    sink: &'a mut Sink,
    macros: HashMap<Rc<str>, Rc<Macro>>,
    /// Definitions that `#pragma push_macro` saved.
    pushed: HashMap<Rc<str>, Vec<Option<Rc<Macro>>>>,
    /// Files with `#pragma once`, or read by `#import`.
    once: HashSet<String>,
    counter: usize,
    /// The program, and the files that are being included.
    files: Vec<Reading>,
    contexts: Vec<Context>,
    entered: HashSet<Rc<str>>,
    /// Depth of arguments within arguments.
    depth: usize,
    calling: Calling,
    /// The parenthesis that closed the last arguments.
    call_end: Span,
    /// Set while macros are not expanded.
    verbatim: bool,
    in_condition: bool,
    /// Bytes of the texts read so far.
    source_bytes: u64,
    /// Tokens that macros may still produce.
    budget: usize,
    exhausted: bool,
    out: Vec<PpToken>,
    /// `None` if no macro's expansion began or ended after the last token. Otherwise the inner value says whether that
    /// place counts as a space; an inner `None` means that the next token decides.
    edge: Option<Option<bool>>,
    line_begins: bool,
    same_lines: bool,
    stringifying: HashSet<Rc<str>>,
    branches: Vec<Branch>,
    /// Branches to take or to leave out regardless of their conditions, by the position of their `#`.
    chosen: HashMap<u32, bool>,
}

pub struct Outline {
    /// All tokens, with every `__LINE__` the same.
    pub tokens: Vec<Token>,
    /// Macros that make strings of their arguments, so that the white space in the arguments matters.
    pub stringifying: HashSet<Rc<str>>,
    pub branches: Vec<Branch>,
}

/// Returns the program's tokens after preprocessing, with an end marker.
pub fn preprocess(
    main: (&str, &str),
    options: &crate::Options,
    provider: &dyn SourceProvider,
    sources: &mut SourceMap,
    sink: &mut Sink,
) -> Vec<Token> {
    program::tokens(&expanded(main, options, provider, sources, sink), sink)
}

/// Returns the program's preprocessing tokens, after all directives and macros.
pub fn expanded(
    main: (&str, &str),
    options: &crate::Options,
    provider: &dyn SourceProvider,
    sources: &mut SourceMap,
    sink: &mut Sink,
) -> Vec<PpToken> {
    let mut pre = Preprocessor::new(options, provider, sources, sink);
    pre.program(main, options);
    pre.out
}

/// Returns the tokens that formatting must not change. `chosen` are branches to take or to leave out regardless of
/// their conditions.
pub fn outline(
    main: (&str, &str),
    chosen: &HashMap<u32, bool>,
    options: &crate::Options,
    provider: &dyn SourceProvider,
    sources: &mut SourceMap,
    sink: &mut Sink,
) -> Outline {
    let mut pre = Preprocessor::new(options, provider, sources, sink);
    pre.same_lines = true;
    pre.chosen.clone_from(chosen);
    pre.program(main, options);
    pre.find_stringifying();
    let (out, stringifying, branches) = (pre.out, pre.stringifying, pre.branches);
    Outline {
        tokens: program::tokens(&out, sink),
        stringifying,
        branches,
    }
}

impl<'a> Preprocessor<'a> {
    fn new(
        options: &'a crate::Options,
        provider: &'a dyn SourceProvider,
        sources: &'a mut SourceMap,
        sink: &'a mut Sink,
    ) -> Self {
        Self {
            sources,
            provider,
            include_dirs: &options.include_dirs,
            sink,
            macros: HashMap::new(),
            pushed: HashMap::new(),
            once: HashSet::new(),
            counter: 0,
            files: Vec::new(),
            contexts: Vec::new(),
            entered: HashSet::new(),
            depth: 0,
            calling: Calling::No,
            call_end: Span::default(),
            verbatim: false,
            in_condition: false,
            source_bytes: 0,
            budget: limits::TOKENS,
            exhausted: false,
            out: Vec::new(),
            edge: None,
            line_begins: false,
            same_lines: false,
            stringifying: HashSet::new(),
            branches: Vec::new(),
            chosen: HashMap::new(),
        }
    }

    fn program(&mut self, main: (&str, &str), options: &crate::Options) {
        let pre = self;
        // The program is file 0, to which messages without a position refer.
        let program = pre.sources.add(main.0, main.1);
        pre.define_builtins();
        // Programs for several targets recognise BMv2 by this macro.
        let target = ("__TARGET_BMV2__".to_owned(), "1".to_owned());
        for (name, value) in std::iter::once(&target).chain(&options.defines) {
            let text = format!("{name} {value}");
            let file = pre.sources.add(COMMAND_LINE, &text);
            let tokens = token::lex(file, &text, pre.sink);
            let span = tokens.first().map_or(Span::default(), |token| token.span);
            pre.define(&tokens, span);
        }
        for name in &options.undefines {
            pre.macros.remove(name.as_str());
        }
        if pre.takes(main.1, Span::default()) {
            pre.open(program, main.0, main.1);
            pre.run();
        }
    }

    fn open(&mut self, file: u32, name: &str, text: &str) {
        self.files.push(Reading {
            name: name.to_owned(),
            lexer: Lexer::new(file, text),
            line: Vec::new(),
            at: 0,
            conditionals: Vec::new(),
        });
    }

    fn run(&mut self) {
        loop {
            let token = self.next();
            match token.kind {
                Kind::End => return,
                Kind::Edge => {
                    self.line_begins |= token.first;
                    self.edge = Some(self.merged_edge(&token));
                }
                _ => self.write(token),
            }
            if self.out.len() > limits::TOKENS {
                let span = self.out.last().map_or(Span::default(), |token| token.span);
                let message = format!("the program has more than {} tokens", limits::TOKENS);
                self.sink.error("E0119", span, message);
                return;
            }
        }
    }

    /// Returns whether adjacent edges (the places where a macro's expansion begins or ends) stand for a space. The
    /// first edge that decides this wins; `None` if no edge has decided it yet.
    fn merged_edge(&self, edge: &PpToken) -> Option<bool> {
        match self.edge {
            Some(Some(true)) => Some(true),
            Some(Some(false)) if !edge.painted => Some(false),
            _ => (!edge.painted).then_some(edge.space),
        }
    }

    fn write(&mut self, mut token: PpToken) {
        token.first |= std::mem::take(&mut self.line_begins);
        if let Some(edge) = self.edge.take()
            && !token.first
        {
            let apart = |before: &PpToken| print::must_stand_apart(before, &token);
            token.space = edge.unwrap_or(token.space) || self.out.last().is_some_and(apart);
        }
        self.out.push(token);
    }

    /// Reads the next token of the files, and executes directives on the way.
    fn read(&mut self) -> PpToken {
        loop {
            let Some(file) = self.files.last_mut() else {
                return PpToken::end(Span::default());
            };
            let active = file.conditionals.iter().all(|open| open.taken);
            let Some(token) = file.line.get(file.at) else {
                file.line.clear();
                file.at = 0;
                let more = file.lexer.next_line(active, &mut file.line, self.sink);
                if !more && (self.calling != Calling::No || !self.close()) {
                    return PpToken::end(Span::default());
                }
                continue;
            };
            if token.begins_directive() && self.calling != Calling::Parenthesis {
                let line = std::mem::take(&mut file.line);
                self.directive_line(&line);
            } else if active {
                file.at += 1;
                return token.clone();
            } else {
                file.line.clear();
            }
        }
    }

    /// Closes the current file. Returns false if the current file is the program itself.
    fn close(&mut self) -> bool {
        let Some(file) = self.files.last_mut() else {
            return false;
        };
        if let Some(open) = file.conditionals.pop() {
            file.conditionals.clear();
            self.sink
                .error("E0111", open.span, "this conditional is not closed")
                .help("add `#endif`");
        }
        let inner = self.files.len() > 1;
        if inner {
            self.files.pop();
        }
        inner
    }

    /// Executes a directive. The directive may stand among the arguments of a macro call, but it is not an argument.
    fn directive_line(&mut self, line: &[PpToken]) {
        let before = (
            std::mem::take(&mut self.verbatim),
            std::mem::take(&mut self.calling),
        );
        self.directive(line, before.1);
        (self.verbatim, self.calling) = before;
    }
}
