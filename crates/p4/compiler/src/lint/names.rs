//! Warns about names that nothing uses, and about names that hide others.
//!
//! The checker records every lookup of a name. Unused constants, types, functions, controls and parsers are reported
//! only in the file that is compiled, not in an included file: other programs may include the same file and use these
//! names. A name that begins with `_` is meant to be unused.

use std::collections::HashSet;

use super::Subject;
use crate::diagnostic::Sink;
use crate::ir::{InstanceKind, StructKind};
use crate::lex::Token;
use crate::source::Span;
use crate::syntax::ast::Declaration;
use crate::types::scope::{Declared, Kind};

pub fn check(subject: &Subject<'_>, sink: &mut Sink) {
    let elsewhere = words_elsewhere(subject);
    for declared in &subject.program.names.declared {
        if subject.is_library(declared.span) || declared.name.starts_with('_') {
            continue;
        }
        hiding(subject, declared, sink);
        if !subject.program.names.is_used(declared) && !elsewhere.contains(&*declared.name) {
            unused(subject, declared, sink);
        }
    }
}

fn unused(subject: &Subject<'_>, declared: &Declared, sink: &mut Sink) {
    let is_controllers = subject.program.structs.iter().any(|found| {
        found.span == declared.span
            && crate::ir::has_annotation(&found.annotations, "controller_header")
    });
    if is_controllers {
        return;
    }
    let shared = declared.is_global && !subject.is_main_file(declared.span);
    let (code, what, why) = match declared.kind {
        Kind::Action => ("W0804", "action", "no table has it and nothing calls it"),
        Kind::Table => ("W0805", "table", "it is never applied"),
        Kind::Function => ("W0806", "function", "nothing calls it"),
        Kind::Const => ("W0807", "constant", "nothing reads it"),
        Kind::Type if declared.is_global => (
            "W0808",
            type_word(subject, declared),
            "nothing has this type",
        ),
        Kind::Control => ("W0809", "control", "nothing instantiates it"),
        Kind::Parser => ("W0809", "parser", "nothing instantiates it"),
        Kind::Instance(id) => match subject.program.instances[id].kind {
            InstanceKind::Package(..) => return,
            InstanceKind::Extern(..) => ("W0810", "instance", "nothing uses it"),
            _ => ("W0810", "instance", "it is never applied"),
        },
        Kind::ValueSet => ("W0810", "value set", "no `select` has it"),
        Kind::Type | Kind::Var(_) => return,
    };
    if shared {
        return;
    }
    let message = format!("unused {what} `{}`", declared.name);
    sink.warning(code, declared.span, message).label(why);
}

fn type_word(subject: &Subject<'_>, declared: &Declared) -> &'static str {
    let found = subject
        .program
        .structs
        .iter()
        .find(|found| found.span == declared.span);
    match found.map(|found| found.kind) {
        Some(StructKind::Header) => "header",
        Some(StructKind::Union) => "header union",
        Some(StructKind::Struct) => "struct",
        None => "type",
    }
}

fn hiding(subject: &Subject<'_>, declared: &Declared, sink: &mut Sink) {
    let Some((kind, before)) = declared.hides else {
        return;
    };
    // Names of the architecture are often common words, so a name that hides one of them is not reported. A type that
    // hides another name is not reported either.
    if subject.is_library(before) || declared.kind == Kind::Type {
        return;
    }
    // A value and a name that is not a value cannot be mixed up, for example an instance that has its type's name.
    let is_value = |kind| matches!(kind, Kind::Var(_) | Kind::Const | Kind::Instance(_));
    if is_value(declared.kind) != is_value(kind) {
        return;
    }
    sink.warning(
        "W0811",
        declared.span,
        format!("`{}` hides another `{}`", declared.name, declared.name),
    )
    .note_at(before, "this one is hidden there and cannot be used")
    .help("give one of them another name");
}

/// Collects the words in places that are not checked: in annotations, and in generics that nothing instantiates.
fn words_elsewhere<'a>(subject: &Subject<'a>) -> HashSet<&'a str> {
    let mut out = HashSet::new();
    let mut add = |tokens: &'a [Token]| out.extend(tokens.iter().filter_map(Token::word));
    for (at, token) in subject.tokens.iter().enumerate() {
        if token.is("@") {
            add(group(&subject.tokens[at..], &["(", "["], &[")", "]"]));
        }
    }
    for declaration in subject.tree {
        let name = match declaration {
            Declaration::Function(decl) if !decl.type_parameters.is_empty() => &decl.name,
            Declaration::Struct(decl) if !decl.type_parameters.is_empty() => &decl.name,
            Declaration::Control(decl) if !decl.type_parameters.is_empty() => &decl.name,
            Declaration::Parser(decl) if !decl.type_parameters.is_empty() => &decl.name,
            _ => continue,
        };
        let at = subject
            .tokens
            .iter()
            .position(|token| token.span == name.span);
        if let Some(at) = at.filter(|_| is_unused(subject, name.span)) {
            add(group(&subject.tokens[at + 1..], &["{"], &["}"]));
        }
    }
    out
}

fn is_unused(subject: &Subject<'_>, span: Span) -> bool {
    let names = &subject.program.names;
    names
        .declared
        .iter()
        .any(|declared| declared.span == span && !names.is_used(declared))
}

/// Returns the tokens up to the end of their first bracketed group. In an annotation this group begins at the third
/// token; for an annotation without such a group the result is empty.
fn group<'a>(tokens: &'a [Token], open: &[&str], close: &[&str]) -> &'a [Token] {
    if tokens.first().is_some_and(|first| first.is("@"))
        && !tokens
            .get(2)
            .is_some_and(|third| open.iter().any(|sign| third.is(sign)))
    {
        return &[];
    }
    let mut depth = 0_i32;
    for (at, token) in tokens.iter().enumerate() {
        if open.iter().any(|sign| token.is(sign)) {
            depth += 1;
        } else if close.iter().any(|sign| token.is(sign)) {
            depth -= 1;
            if depth <= 0 {
                return &tokens[..at];
            }
        }
    }
    tokens
}
