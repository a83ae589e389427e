//! Macros and `#define`. [`super::expand`] expands a use of a macro.

use std::rc::Rc;

use super::Preprocessor;
use super::builtin::Builtin;
use super::token::{Kind, PpToken};
use crate::source::Span;

pub(super) struct Macro {
    /// The name in the `#define` or in the options.
    pub(super) span: Span,
    pub(super) meaning: Meaning,
}

pub(super) enum Meaning {
    Builtin(Builtin),
    /// `#define NAME body`
    Object(Vec<PpToken>),
    /// `#define NAME(parameters) body`
    Function(Function),
}

pub(super) struct Function {
    pub(super) parameters: Vec<Rc<str>>,
    /// The last parameter takes all remaining arguments.
    pub(super) variadic: bool,
    pub(super) body: Vec<PpToken>,
}

impl Function {
    pub(super) fn parameter(&self, token: &PpToken) -> Option<usize> {
        let name = token.name()?;
        self.parameters.iter().position(|known| known == name)
    }
}

const VA_ARGS: &str = "__VA_ARGS__";
/// Names that a program may neither define nor undefine.
const RESERVED: &[&str] = &["defined", VA_ARGS, "__VA_OPT__"];

impl Preprocessor<'_> {
    /// Returns the name after `#define`, `#undef`, `#ifdef` or `#ifndef`, and reports errors in the name.
    pub(super) fn macro_name(
        &mut self,
        directive: &str,
        rest: &[PpToken],
        span: Span,
    ) -> Option<PpToken> {
        let found = rest.first();
        if let Some(token) = found.filter(|token| token.kind == Kind::Name) {
            let tested = directive.starts_with("if") || directive.starts_with("elif");
            if tested || !RESERVED.contains(&&*token.text) {
                return Some(token.clone());
            }
            self.sink.error(
                "E0112",
                token.span,
                format!("`{}` cannot be the name of a macro", token.text),
            );
            return None;
        }
        let message = match found {
            Some(token) => format!(
                "expected a name after `#{directive}`, found `{}`",
                token.text
            ),
            None => format!("expected a name after `#{directive}`"),
        };
        let at = found.map_or(span, |token| token.span);
        self.sink.error("E0112", at, message);
        None
    }

    pub(super) fn define(&mut self, rest: &[PpToken], span: Span) {
        let Some(name) = self.macro_name("define", rest, span) else {
            return;
        };
        let meaning = match rest.get(1) {
            Some(open) if open.is("(") && !open.space => self.function(&name, &rest[2..]),
            _ => Some(Meaning::Object(body(&rest[1..]))),
        };
        let Some(meaning) = meaning else { return };
        let at_end = |tokens: &[PpToken]| {
            let ends = [tokens.first(), tokens.last()];
            ends.into_iter().flatten().find(|t| t.is("##")).cloned()
        };
        let stray = match &meaning {
            Meaning::Object(body) | Meaning::Function(Function { body, .. }) => at_end(body),
            Meaning::Builtin(_) => None,
        };
        if let Some(paste) = stray {
            self.sink
                .error("E0112", paste.span, "`##` stands at an end of the macro")
                .help("`##` joins what stands before it with what stands after it");
            return;
        }
        let found = Macro {
            span: name.span,
            meaning,
        };
        self.warn_of_redefinition(&name, &found);
        if self.stringifies(&found.meaning) {
            self.stringifying.insert(name.text.clone());
        }
        self.macros.insert(name.text, Rc::new(found));
    }

    /// Whether a macro makes strings of its arguments, itself or by a macro in its body.
    fn stringifies(&self, meaning: &Meaning) -> bool {
        let known = |token: &PpToken| self.stringifying.contains(&token.text);
        match meaning {
            Meaning::Builtin(_) => false,
            Meaning::Object(body) => body.iter().any(known),
            Meaning::Function(function) => {
                let makes =
                    |pair: &[PpToken]| pair[0].is("#") && function.parameter(&pair[1]).is_some();
                function.body.windows(2).any(makes) || function.body.iter().any(known)
            }
        }
    }

    /// Finds macros that make strings of their arguments, whatever the order of their definitions.
    pub(super) fn find_stringifying(&mut self) {
        loop {
            let is_new = |(name, found): &(&Rc<str>, &Rc<Macro>)| {
                !self.stringifying.contains(*name) && self.stringifies(&found.meaning)
            };
            let found: Vec<Rc<str>> = self
                .macros
                .iter()
                .filter(is_new)
                .map(|(name, _)| name.clone())
                .collect();
            if found.is_empty() {
                return;
            }
            self.stringifying.extend(found);
        }
    }

    fn warn_of_redefinition(&mut self, name: &PpToken, new: &Macro) {
        let Some(old) = self.macros.get(&name.text) else {
            return;
        };
        if !is_same(&old.meaning, &new.meaning) {
            let message = format!("the macro `{}` is defined a second time", name.text);
            self.sink
                .warning("W0862", name.span, message)
                .label("from here on it means something else")
                .note_at(old.span, "it was defined here")
                .help("if that is intended, write `#undef` before it");
        }
    }

    /// Parses a macro with parameters; `rest` begins after the `(`.
    fn function(&mut self, name: &PpToken, rest: &[PpToken]) -> Option<Meaning> {
        let mut parameters: Vec<Rc<str>> = Vec::new();
        let mut variadic = false;
        let mut at = 0;
        if rest.first().is_some_and(|token| token.is(")")) {
            let body = body(&rest[1..]);
            let function = Function {
                parameters,
                variadic,
                body,
            };
            return Some(Meaning::Function(function));
        }
        loop {
            let token = rest.get(at);
            match token {
                Some(token) if token.kind == Kind::Name => {
                    if parameters.contains(&token.text) || RESERVED.contains(&&*token.text) {
                        let why = format!("`{}` cannot be another parameter", token.text);
                        self.sink.error("E0112", token.span, why);
                        return None;
                    }
                    parameters.push(token.text.clone());
                    at += 1;
                    if rest.get(at).is_some_and(|token| token.is("...")) {
                        (variadic, at) = (true, at + 1);
                    }
                }
                Some(token) if token.is("...") => {
                    parameters.push(VA_ARGS.into());
                    (variadic, at) = (true, at + 1);
                }
                _ => return self.bad_parameter(name, token, "a parameter"),
            }
            let token = rest.get(at);
            at += 1;
            match token {
                Some(token) if token.is(")") => break,
                Some(token) if token.is(",") && !variadic => {}
                _ if variadic => return self.bad_parameter(name, token, "`)`"),
                _ => return self.bad_parameter(name, token, "`,` or `)`"),
            }
        }
        let function = Function {
            parameters,
            variadic,
            body: body(&rest[at..]),
        };
        Some(Meaning::Function(function))
    }

    fn bad_parameter(
        &mut self,
        name: &PpToken,
        found: Option<&PpToken>,
        wanted: &str,
    ) -> Option<Meaning> {
        let (at, what) = match found {
            Some(token) => (token.span, format!("found `{}`", token.text)),
            None => (name.span, "the line ends before it".to_owned()),
        };
        let message = format!(
            "expected {wanted} in the parameters of the macro `{}`, {what}",
            name.text
        );
        let raw = self.sink.error("E0112", at, message);
        raw.help("a macro's parameters are `(a, b)` or `(a, ...)`; with a space before its `(` a macro has none");
        None
    }
}

/// Returns a macro's body: the text after the name or the parameters, without the space before it.
fn body(tokens: &[PpToken]) -> Vec<PpToken> {
    let mut body = tokens.to_vec();
    if let Some(first) = body.first_mut() {
        first.space = false;
    }
    body
}

fn is_same(old: &Meaning, new: &Meaning) -> bool {
    let same_bodies = |old: &[PpToken], new: &[PpToken]| {
        old.len() == new.len()
            && old.iter().zip(new).all(|(old, new)| {
                old.kind == new.kind && old.text == new.text && old.space == new.space
            })
    };
    match (old, new) {
        (Meaning::Object(old), Meaning::Object(new)) => same_bodies(old, new),
        (Meaning::Function(old), Meaning::Function(new)) => {
            old.parameters == new.parameters
                && old.variadic == new.variadic
                && same_bodies(&old.body, &new.body)
        }
        _ => false,
    }
}
