//! Warns about `@secret` (an annotation for values that the switch shows to no reader) where it hides nothing, and
//! about misspellings of it. In both cases the author would believe that the value is hidden.

use std::collections::HashSet;

use names::distance;

use super::Subject;
use crate::diagnostic::Sink;
use crate::source::Span;
use crate::syntax::ast::{
    Action, Annotation, Declaration, Direction, Instance, Local, Property, Table, TypeKind,
};

const SECRET: &str = "secret";

pub fn check(subject: &Subject<'_>, sink: &mut Sink) {
    let effective = effective(subject.tree);
    for window in subject.tokens.windows(2) {
        let [sign, word] = window else { continue };
        let Some(name) = word.word().filter(|_| sign.is("@")) else {
            continue;
        };
        let span = sign.span.to(word.span);
        if subject.is_library(span) {
            continue;
        }
        if name == SECRET {
            if !effective.contains(&place(sign.span)) {
                misplaced(span, sink);
            }
        } else if is_nearly_secret(name) {
            sink.warning("W0858", span, format!("nothing reads `@{name}`"))
                .help("did you mean `@secret`?");
        }
    }
}

fn misplaced(span: Span, sink: &mut Sink) {
    sink.warning("W0857", span, "`@secret` has no effect here")
        .label("hides nothing: every reader sees the values")
        .help(
            "it belongs to a table, a field of a table's key, an action, an action's parameter that controllers set, or a register",
        );
}

/// Whether a name differs from `secret` by at most one letter, whatever its case. Other words, such as `@secure`, may
/// have a meaning elsewhere.
fn is_nearly_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let least = lower.trim_matches('_');
    distance(least.as_bytes(), SECRET.as_bytes()) <= 1
}

/// The file and first byte of a token.
type Place = (u32, u32);

fn place(span: Span) -> Place {
    (span.file, span.start)
}

/// Returns the places of all annotations in which the compiler looks for `@secret`.
fn effective(tree: &[Declaration]) -> HashSet<Place> {
    let mut found = Effective::default();
    for declaration in tree {
        match declaration {
            Declaration::Action(action) => found.action(action),
            Declaration::Instance(instance) => found.instance(instance),
            Declaration::Control(control) => {
                let locals = control.body.iter().flat_map(|(locals, _)| locals);
                locals.for_each(|local| found.local(local));
            }
            Declaration::Parser(parser) => {
                let locals = parser.body.iter().flat_map(|(locals, _)| locals);
                locals.for_each(|local| found.local(local));
            }
            _ => {}
        }
    }
    found.places
}

#[derive(Default)]
struct Effective {
    places: HashSet<Place>,
}

impl Effective {
    fn take(&mut self, annotations: &[Annotation]) {
        let places = annotations.iter().map(|it| place(it.span));
        self.places.extend(places);
    }

    fn local(&mut self, local: &Local) {
        match local {
            Local::Action(action) => self.action(action),
            Local::Table(table) => self.table(table),
            Local::Instance(instance) => self.instance(instance),
            Local::Const(_) | Local::Var(..) | Local::ValueSet(_) => {}
        }
    }

    /// Collects the annotations of an action and of the parameters that a controller sets.
    fn action(&mut self, action: &Action) {
        self.take(&action.annotations);
        let params = action.parameters.iter();
        let of_controllers = params.filter(|param| param.direction == Direction::None);
        of_controllers.for_each(|param| self.take(&param.annotations));
    }

    fn table(&mut self, table: &Table) {
        self.take(&table.annotations);
        for property in &table.properties {
            if let Property::Key(fields) = property {
                fields
                    .iter()
                    .for_each(|field| self.take(&field.annotations));
            }
        }
    }

    fn instance(&mut self, instance: &Instance) {
        if let TypeKind::Name(name, ..) = &instance.ty.kind
            && &*name.name == "register"
        {
            self.take(&instance.annotations);
        }
    }
}
