//! P4 source in one layout, from its tokens: nothing is added, removed or reordered.
//!
//! [`piece`] takes the text apart into tokens, comments and preprocessor lines and says between
//! which of them a space belongs; [`tree`] nests them by their brackets; [`layout`] decides on
//! lines. Macros are not expanded, so a file is formatted as it is written, every branch of a
//! conditional too. The style is described in `docs/compiler.md`.

mod layout;
mod piece;
mod spacing;
mod tree;

use crate::diagnostic::{Diagnostic, Sink};
use crate::lex::{Tok, Token, lex};
use crate::source::SourceMap;
use crate::{Options, SourceProvider};

/// Characters that a line should not exceed.
const WIDTH: usize = 100;
/// Spaces of one level of indentation.
const INDENT: usize = 4;

/// Formats the file in `text`, which was read from `path`.
///
/// # Errors
/// The file by itself, with the files that it includes, is not P4, or its brackets do not match.
pub fn format(
    path: &str,
    text: &str,
    provider: &dyn SourceProvider,
    options: &Options,
) -> Result<String, Vec<Diagnostic>> {
    parses(path, text, provider, options)?;
    let mut sources = SourceMap::default();
    let mut sink = Sink::default();
    let file = sources.add(path, text);
    let before = lex(file, text, &mut sink);
    if sink.has_errors() {
        return Err(sink.finish(&sources));
    }
    let mut pieces = piece::pieces(text);
    tree::hide_unbalanced_branches(text, &mut pieces);
    spacing::decide(&mut pieces);
    let formatted = match tree::nest(&pieces) {
        Ok(nodes) => layout::print(&nodes),
        Err(unmatched) => {
            let span = crate::source::Span {
                file,
                start: unmatched.start as u32,
                end: (unmatched.start + unmatched.text.len()) as u32,
            };
            let message = format!("`{}` has no counterpart", unmatched.text);
            sink.error("E0201", span, message)
                .help("a file is formatted only where its brackets match");
            return Err(sink.finish(&sources));
        }
    };
    let after = lex(file, &formatted, &mut Sink::default());
    if is_same(&before, &after) {
        return Ok(formatted);
    }
    let span = before.first().map(|token| token.span).unwrap_or_default();
    sink.error(
        "E0201",
        span,
        "this file cannot be formatted without changing its tokens",
    );
    Err(sink.finish(&sources))
}

/// Whether the tokens are the same. Two `>` that touch are a shift, so they must go on to.
fn is_same(before: &[Token], after: &[Token]) -> bool {
    let shifts = |tokens: &[Token], at: usize| {
        let angle = |at: usize| matches!(tokens[at].tok, Tok::Punct(">" | ">="));
        at > 0 && tokens[at].joint && angle(at) && tokens[at - 1].is(">")
    };
    before.len() == after.len()
        && (0..before.len())
            .all(|at| before[at].tok == after[at].tok && (!shifts(before, at) || shifts(after, at)))
}

/// Whether the file is P4, as far as that can be said: what an include that is not there would
/// have declared, nobody knows.
fn parses(
    path: &str,
    text: &str,
    provider: &dyn SourceProvider,
    options: &Options,
) -> Result<(), Vec<Diagnostic>> {
    let mut sources = SourceMap::default();
    let mut sink = Sink::default();
    let main = (path, text);
    let tokens = crate::preprocess::preprocess(main, options, provider, &mut sources, &mut sink);
    let whole = !sink.has_errors();
    crate::syntax::parse(&tokens, &sources, &mut sink);
    let found = sink.finish(&sources);
    if whole && found.iter().any(|diagnostic| diagnostic.file == path) {
        return Err(found);
    }
    Ok(())
}
