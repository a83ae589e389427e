//! Reads tokens and expands their macros (C17, 6.10.3).
//!
//! The expansion of a macro is put in front of the remaining input, as a [`Context`]. Until all tokens of the context
//! are read, the macro is not expanded again. A use of its name that is read during this time is never expanded, not
//! even later.

use std::rc::Rc;

use super::Preprocessor;
use super::macros::{Function, Macro, Meaning};
use super::token::{Kind, PpToken};
use crate::limits;
use crate::source::Span;
use crate::spelling::counted;

/// Tokens to read before the rest of the input.
pub(super) struct Context {
    tokens: Vec<PpToken>,
    at: usize,
    name: Option<Rc<str>>,
    /// Reading stops after these tokens: they are an argument or a directive.
    closed: bool,
}

/// The part of a macro's call that is being read.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Calling {
    #[default]
    No,
    /// Looking for the `(` after the name.
    Parenthesis,
    Arguments,
}

impl Preprocessor<'_> {
    pub(super) fn next(&mut self) -> PpToken {
        let mut token = self.take();
        if token.kind != Kind::Name || token.painted {
            return token;
        }
        let Some(found) = self.macros.get(&token.text).cloned() else {
            return token;
        };
        if self.entered.contains(&token.text) {
            token.painted = true;
            return token;
        }
        if !self.verbatim && self.enter(&token, &found) {
            return PpToken::edge_before(&token);
        }
        token
    }

    /// Returns the next token other than an edge ([`Kind::Edge`]).
    pub(super) fn next_token(&mut self) -> PpToken {
        loop {
            let token = self.next();
            if token.kind != Kind::Edge {
                return token;
            }
        }
    }

    fn take(&mut self) -> PpToken {
        if self.exhausted {
            return PpToken::end(Span::default());
        }
        let Some(context) = self.contexts.last_mut() else {
            return self.read();
        };
        if let Some(token) = context.tokens.get(context.at) {
            context.at += 1;
            return token.clone();
        }
        if context.closed {
            return PpToken::end(Span::default());
        }
        self.leave();
        PpToken::edge_behind(Span::default())
    }

    /// Puts the last token back.
    pub(super) fn give_back(&mut self) {
        if let Some(context) = self.contexts.last_mut() {
            context.at = context.at.saturating_sub(1);
        } else if let Some(file) = self.files.last_mut() {
            file.at = file.at.saturating_sub(1);
        }
    }

    fn leave(&mut self) {
        let Some(Context {
            name: Some(name), ..
        }) = self.contexts.pop()
        else {
            return;
        };
        self.entered.remove(&name);
    }

    fn put_in_front(&mut self, tokens: Vec<PpToken>, name: Option<&Rc<str>>, closed: bool) {
        self.spend(tokens.len(), tokens.first().map(|token| token.span));
        if let Some(name) = name {
            self.entered.insert(name.clone());
        }
        self.contexts.push(Context {
            tokens,
            at: 0,
            name: name.cloned(),
            closed,
        });
    }

    /// Counts expanded tokens. If the macros make too many tokens, reports an error and ends the input.
    pub(super) fn spend(&mut self, amount: usize, at: Option<Span>) {
        self.budget = self.budget.saturating_sub(amount);
        if self.budget == 0 && !self.exhausted {
            self.exhausted = true;
            self.sink
                .error(
                    "E0119",
                    at.unwrap_or_default(),
                    format!(
                        "the macros of the program make more than {} tokens",
                        limits::TOKENS
                    ),
                )
                .help("a macro that names others more than once multiplies them at each level");
        }
    }

    pub(super) fn expand_alone(&mut self, tokens: &[PpToken]) -> Vec<PpToken> {
        self.alone(tokens, |this| {
            let mut out = Vec::new();
            loop {
                let token = this.next();
                if token.kind == Kind::End {
                    return out;
                }
                out.push(token);
            }
        })
    }

    /// Calls `read` with these tokens, and nothing after them, as the input.
    pub(super) fn alone<T>(&mut self, tokens: &[PpToken], read: impl FnOnce(&mut Self) -> T) -> T {
        let depth = self.contexts.len();
        let before = (
            std::mem::take(&mut self.verbatim),
            std::mem::take(&mut self.calling),
        );
        self.put_in_front(tokens.to_vec(), None, true);
        let value = read(self);
        while self.contexts.len() > depth {
            self.leave();
        }
        (self.verbatim, self.calling) = before;
        value
    }

    /// Expands an argument. This is recursive, so the nesting of arguments is bounded.
    pub(super) fn expand_argument(&mut self, tokens: &[PpToken], name: &PpToken) -> Vec<PpToken> {
        if self.depth >= limits::MACRO_DEPTH {
            let message = format!(
                "arguments of macros are nested more than {} levels deep",
                limits::MACRO_DEPTH
            );
            self.sink.error("E0119", name.span, message);
            self.exhausted = true;
            return Vec::new();
        }
        self.depth += 1;
        let expanded = self.expand_alone(tokens);
        self.depth -= 1;
        expanded
    }

    /// Puts a macro's expansion in front of the input. Returns false if the macro needs arguments and has none, so that
    /// the name is no call.
    fn enter(&mut self, name: &PpToken, found: &Rc<Macro>) -> bool {
        let mut call = name.span;
        let (tokens, entered) = match &found.meaning {
            Meaning::Builtin(builtin) => (self.builtin(*builtin, name), None),
            Meaning::Object(body) => {
                let tokens = self.replace(body, name, None);
                (tokens, Some(&name.text))
            }
            Meaning::Function(function) => {
                let Some(arguments) = self.arguments(name, found, function) else {
                    return false;
                };
                if !name.made {
                    call = name.span.to(self.call_end);
                }
                let tokens = self.replace(&function.body, name, Some((function, arguments)));
                (tokens, Some(&name.text))
            }
        };
        if found.span != Span::default() {
            self.sources
                .add_macro_use(name.span, call, &name.text, found.span);
        }
        self.put_in_front(tokens, entered, false);
        true
    }

    /// Returns the arguments after a macro's name; `None` if the `(` or the `)` is missing.
    fn arguments(
        &mut self,
        name: &PpToken,
        found: &Macro,
        function: &Function,
    ) -> Option<Vec<Vec<PpToken>>> {
        let before = (self.verbatim, self.calling);
        (self.verbatim, self.calling) = (true, Calling::Parenthesis);
        let mut edge: Option<PpToken> = None;
        let token = loop {
            let token = self.next();
            if token.kind != Kind::Edge {
                break token;
            }
            let kept = edge
                .as_ref()
                .is_some_and(|edge| !edge.painted && (edge.space || !token.painted));
            if !kept {
                edge = Some(token);
            }
        };
        let arguments = if token.is("(") {
            self.calling = Calling::Arguments;
            self.collect(name, found, function)
        } else {
            if token.kind != Kind::End {
                self.give_back();
            }
            if let Some(edge) = edge {
                self.put_in_front(vec![edge], None, false);
            }
            None
        };
        (self.verbatim, self.calling) = before;
        arguments
    }

    /// Reads the arguments up to the `)`. Commas within parentheses and in the argument of `...` do not separate
    /// arguments.
    fn collect(
        &mut self,
        name: &PpToken,
        found: &Macro,
        function: &Function,
    ) -> Option<Vec<Vec<PpToken>>> {
        let wanted = function.parameters.len();
        let mut arguments = vec![Vec::new()];
        let mut depth = 0_usize;
        loop {
            let mut token = self.next();
            let count = arguments.len();
            let last = arguments.last_mut()?;
            match token.kind {
                Kind::Edge if last.is_empty() => continue,
                Kind::End => {
                    self.not_closed(name, found);
                    return None;
                }
                Kind::Punct => match &*token.text {
                    "(" => depth += 1,
                    ")" if depth == 0 => {
                        self.call_end = token.span;
                        break;
                    }
                    ")" => depth -= 1,
                    "," if depth == 0 && !(function.variadic && count == wanted) => {
                        arguments.push(Vec::new());
                        continue;
                    }
                    _ => {}
                },
                _ => {}
            }
            token.space |= token.first;
            token.first = false;
            last.push(token);
        }
        for argument in &mut arguments {
            while argument
                .last()
                .is_some_and(|token| token.kind == Kind::Edge)
            {
                argument.pop();
            }
        }
        self.check_count(name, found, function, &mut arguments);
        Some(arguments)
    }

    fn not_closed(&mut self, name: &PpToken, found: &Macro) {
        if self.exhausted {
            return;
        }
        let message = format!("the arguments of the macro `{}` are not closed", name.text);
        self.sink
            .error("E0120", name.span, message)
            .label("a `)` is missing")
            .note_at(found.span, format!("`{}` is defined here", name.text));
    }

    /// Reports a wrong number of arguments, and then cuts or fills the list to as many as the macro takes. The argument
    /// of `...` may be missing.
    fn check_count(
        &mut self,
        name: &PpToken,
        found: &Macro,
        function: &Function,
        arguments: &mut Vec<Vec<PpToken>>,
    ) {
        let wanted = function.parameters.len();
        if wanted == 0 && arguments.len() == 1 && arguments[0].is_empty() {
            arguments.clear();
        }
        let given = arguments.len();
        if given == wanted || (function.variadic && given + 1 == wanted) {
            return;
        }
        let least = wanted - usize::from(function.variadic);
        let takes = if function.variadic {
            format!("at least {}", counted(least, "argument", "arguments"))
        } else {
            counted(wanted, "argument", "arguments")
        };
        let message = format!(
            "macro `{}` takes {takes}, {} given",
            name.text,
            counted(given, "was", "were")
        );
        self.sink
            .error("E0120", name.span, message)
            .note_at(found.span, format!("`{}` is defined here", name.text));
        arguments.resize(wanted, Vec::new());
    }
}
