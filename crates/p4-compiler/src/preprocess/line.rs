//! `#line 12 "file"`, and `# 12 "file" 1` as C preprocessors write it: where the lines behind are from.

use num_traits::ToPrimitive as _;

use super::Preprocessor;
use crate::lex::{Tok, Token};
use crate::source::Span;

impl Preprocessor<'_> {
    /// `rest` is what stands behind `#line` or `#`; numbers behind the file's name are flags that
    /// say how it came in.
    pub(super) fn line(&mut self, rest: &[Token], directive: Span) {
        let number = match rest.first().map(|token| &token.tok) {
            Some(Tok::Int(number, _)) => number.to_i32().and_then(|number| number.to_u32()),
            _ => None,
        };
        let name = match rest.get(1).map(|token| &token.tok) {
            None => Some(None),
            Some(Tok::Str(name)) => Some(Some(&**name)),
            Some(_) => None,
        };
        let (Some(number), Some(name)) = (number, name) else {
            self.sink
                .error("E0112", directive, "expected a line's number and a file")
                .help("write `#line 12 \"file.p4\"`; the file may be left out");
            return;
        };
        self.sources.renumber(directive, number, name);
    }
}
