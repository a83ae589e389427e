//! Reports unknown names, with suggestions. Each name is reported at most once for each declaration that uses it.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::check::Checker;
use crate::ir::Enum;
use crate::preprocess;
use crate::source::Span;
use crate::syntax::ast::{self, Declaration};
use crate::syntax::hint::foreign_type;

/// The declared names, from which messages about unknown names take suggestions, and the names already reported.
#[derive(Default)]
pub struct Unknowns {
    /// Names that are declared outside blocks, and where.
    declared: HashMap<Rc<str>, Span>,
    /// Names that the current control declares, where, and whether each is a table.
    local: HashMap<Rc<str>, (Span, bool)>,
    /// Names that were reported, with the number of the declaration that uses them: each pair is reported once.
    reported: HashSet<(Rc<str>, usize)>,
    declaration: usize,
    current: Option<Span>,
    pub action: Option<Span>,
}

impl Unknowns {
    pub fn new(declarations: &[Declaration]) -> Self {
        let name = |declaration| {
            let name: &ast::Ident = super::declare::declaration_name(declaration)?;
            Some((name.name.clone(), name.span))
        };
        Self {
            declared: declarations.iter().filter_map(name).collect(),
            ..Self::default()
        }
    }

    pub fn next_declaration(&mut self, name: Option<Span>) {
        self.declaration += 1;
        self.current = name;
        self.local.clear();
    }

    /// Records a control's declarations, which may be below their uses.
    pub fn enter_control(&mut self, locals: &[ast::Local]) {
        let declared = locals.iter().map(|local| {
            let (name, is_table) = match local {
                ast::Local::Const(constant) => (&constant.name, false),
                ast::Local::Var(variable, _) => (&variable.name, false),
                ast::Local::Instance(instance) => (&instance.name, false),
                ast::Local::Action(action) => (&action.name, false),
                ast::Local::Table(table) => (&table.name, true),
                ast::Local::ValueSet(set) => (&set.name, false),
            };
            (name.name.clone(), (name.span, is_table))
        });
        self.local = declared.collect();
    }
}

impl Checker<'_> {
    /// Reports the use of a table above its declaration. Such a use is in an action, which cannot apply tables.
    fn early_table(&mut self, name: &ast::Ident, declared: Span) {
        let message = "a table can be applied only in a control's apply block";
        let declares = format!("the table `{}` is declared here", name.name);
        self.sink
            .error("E0309", name.span, message)
            .note_at(declared, declares)
            .help("an action or function cannot apply tables");
    }

    /// The enumerator with this name, as `Enum.member`.
    fn enumerator(&self, name: &str) -> Option<String> {
        let has_it = |found: &&Enum| found.members.iter().any(|(member, _)| &**member == name);
        let found = self.program.enums.iter().find(has_it)?;
        Some(format!("{}.{name}", found.name))
    }

    /// Reports an unknown name, with a similar name if there is one.
    pub fn unknown(&mut self, what: &str, name: &ast::Ident) {
        let text = &*name.name;
        if self.sink.is_unreliable(text) {
            return;
        }
        // A type is missing everywhere or nowhere, so it is reported once in the whole program.
        let scope = if what == "type" {
            0
        } else {
            self.unknowns.declaration
        };
        if !self.unknowns.reported.insert((name.name.clone(), scope)) {
            return;
        }
        let of_type = (what == "value")
            .then(|| self.scopes.of_type(&format!("{text}_t"), &self.program))
            .flatten();
        let similar = of_type.or_else(|| self.scopes.similar(text)).or_else(|| {
            let names = self.unknowns.declared.keys().map(|name| &**name);
            super::scope::nearest(text, names)
        });
        let enumerator = (what == "value").then(|| self.enumerator(text)).flatten();
        let embedded = preprocess::embedded_file_with(text).filter(|file| {
            let sign = if *file == "core.p4" {
                "packet_in"
            } else {
                "V1Switch"
            };
            self.scopes.lookup(sign, true).is_none()
        });
        let local = self.unknowns.local.get(text).copied();
        if let Some((declared, true)) = local {
            self.early_table(name, declared);
            return;
        }
        let local = local.map(|(declared, _)| declared);
        let below = local.or(self.unknowns.declared.get(text).copied());
        let is_inside =
            |below: &Span| [self.unknowns.current, self.unknowns.action].contains(&Some(*below));
        if let Some(itself) = below.filter(is_inside) {
            self.sink
                .error("E0204", name.span, format!("`{text}` uses itself"))
                .note_at(itself, "this is declared here")
                .help("P4 has no recursion");
            return;
        }
        if let Some(file) = embedded
            && below.is_none()
            && !self.unknowns.reported.insert((file.into(), usize::MAX))
        {
            // A missing include is reported only once.
            return;
        }
        let raw = self
            .sink
            .error("E0301", name.span, format!("cannot find {what} `{text}`"));
        if let Some((meant, why)) = foreign_type(text) {
            match meant {
                Some(meant) => raw.suggest(name.span, meant, why),
                None => raw.help(why),
            };
        } else if let Some(below) = below {
            raw.note_at(below, "it is declared here, below its use")
                .help("a program is read from top to bottom: move the declaration up");
        } else if let Some(file) = embedded {
            raw.help(format!("it is declared in {file}: add `#include <{file}>`"));
        } else if matches!(text, "True" | "TRUE" | "False" | "FALSE") {
            let lower = text.to_ascii_lowercase();
            raw.did_you_mean(name.span, Some(lower));
        } else {
            raw.did_you_mean(name.span, enumerator.or(similar));
        }
    }
}
