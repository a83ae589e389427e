//! Tracks at each point which variables may have no value and which headers may be invalid.
//!
//! The analysis runs the architecture's blocks in the switch's order, with calls inlined. Each branch gets a copy of
//! the facts, and where branches meet, their facts are joined. This decides which errors are reported:
//! - an error on every path is always reported;
//! - an error on only some paths is not reported inside a later condition, because the condition may exclude these
//!   paths, as in `if (a) x = 1; if (a) use(x);`. The control plane's choice of an action counts as a condition too.
//!   Inside a condition, and after a condition with a branch that leaves the block, an earlier [`Fact::Maybe`] becomes
//!   [`Fact::Silent`].

mod call;
mod loops;
mod pipeline;
mod run;
mod vars;

use std::collections::HashSet;
use std::rc::Rc;

use super::Subject;
use crate::diagnostic::Sink;
use crate::ir::{Program, StructKind, VarId};
use crate::source::Span;
use crate::types::Type;
use vars::Vars;

/// Maximum number of statements that the analysis runs. If a program's calls unfold into more, nothing is reported.
const STATEMENTS_MAX: usize = 300_000;
/// Depth of nested calls. Deeper calls are recursion, which another pass reports as an error.
const DEPTH_MAX: usize = 40;

/// Whether a value is set, or whether a header is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fact {
    /// The value is set, or the header valid, on no path.
    Bad,
    /// It is set or valid on some paths.
    Maybe,
    /// It is set or valid on some paths, but a condition may have chosen these paths, so nothing is reported.
    Silent,
    Good,
}

impl Fact {
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Self::Maybe | Self::Bad, _) | (_, Self::Maybe | Self::Bad) => Self::Maybe,
            _ => Self::Silent,
        }
    }
}

/// The facts about a variable or field, in the structure of its type. Copies share equal parts, so unchanged
/// parts are never copied.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Leaf(Fact),
    /// Whether the header is valid. Its fields have no facts of their own.
    Header(Fact),
    Struct(Rc<Vec<Node>>),
    Union(Rc<Vec<Node>>),
    Stack(Rc<Vec<Node>>),
}

impl Node {
    /// Makes a node for a type. Every value in it gets the fact `value`, every header in it the fact `header`.
    fn new(program: &Program, ty: &Type, value: Fact, header: Fact) -> Self {
        match program.underlying(ty) {
            Type::Struct(id) => {
                let found = &program.structs[*id];
                let fields = || {
                    let make =
                        |field: &crate::ir::Field| Self::new(program, &field.ty, value, header);
                    Rc::new(found.fields.iter().map(make).collect())
                };
                match found.kind {
                    StructKind::Header => Self::Header(header),
                    StructKind::Union => Self::Union(fields()),
                    StructKind::Struct => Self::Struct(fields()),
                }
            }
            Type::Stack(element, size) => {
                let element = Self::new(program, element, value, header);
                Self::Stack(Rc::new(vec![element; *size as usize]))
            }
            _ => Self::Leaf(value),
        }
    }

    fn children(&self) -> Option<&Rc<Vec<Self>>> {
        match self {
            Self::Struct(inner) | Self::Union(inner) | Self::Stack(inner) => Some(inner),
            _ => None,
        }
    }

    fn children_mut(&mut self) -> Option<&mut Vec<Self>> {
        match self {
            Self::Struct(inner) | Self::Union(inner) | Self::Stack(inner) => {
                Some(Rc::make_mut(inner))
            }
            _ => None,
        }
    }

    fn at(&self, path: &[usize]) -> Option<&Self> {
        match path.split_first() {
            None => Some(self),
            // A field has the fact of its header.
            Some(_) if matches!(self, Self::Header(_) | Self::Leaf(_)) => Some(self),
            Some((first, rest)) => self.children()?.get(*first)?.at(rest),
        }
    }

    fn at_mut(&mut self, path: &[usize]) -> Option<&mut Self> {
        match path.split_first() {
            None => Some(self),
            Some(_) if matches!(self, Self::Header(_) | Self::Leaf(_)) => Some(self),
            Some((first, rest)) => self.children_mut()?.get_mut(*first)?.at_mut(rest),
        }
    }

    /// Whether [`Node::map`] would change anything.
    fn changes(&self, change: &impl Fn(bool, Fact) -> Fact) -> bool {
        match self {
            Self::Leaf(fact) => change(false, *fact) != *fact,
            Self::Header(fact) => change(true, *fact) != *fact,
            Self::Struct(inner) | Self::Union(inner) | Self::Stack(inner) => {
                inner.iter().any(|child| child.changes(change))
            }
        }
    }

    /// Changes the fact of every value and header inside; `change` gets true for a header.
    fn map(&mut self, change: &impl Fn(bool, Fact) -> Fact) {
        if self.changes(change) {
            self.map_each(change);
        }
    }

    fn map_each(&mut self, change: &impl Fn(bool, Fact) -> Fact) {
        match self {
            Self::Leaf(fact) => *fact = change(false, *fact),
            Self::Header(fact) => *fact = change(true, *fact),
            _ => {
                for child in self.children_mut().into_iter().flatten() {
                    child.map(change);
                }
            }
        }
    }

    /// Collects the facts of all values inside, not those of headers.
    fn values(&self, out: &mut Vec<Fact>) {
        match self {
            Self::Leaf(fact) => out.push(*fact),
            Self::Header(_) => {}
            _ => {
                for child in self.children().into_iter().flat_map(|inner| inner.iter()) {
                    child.values(out);
                }
            }
        }
    }

    fn combine(&self, other: &Self, with: &impl Fn(Fact, Fact) -> Fact) -> Self {
        match (self, other) {
            (Self::Leaf(a), Self::Leaf(b)) => Self::Leaf(with(*a, *b)),
            (Self::Header(a), Self::Header(b)) => Self::Header(with(*a, *b)),
            (a, b) => match (a.children(), b.children()) {
                (Some(left), Some(right)) if Rc::ptr_eq(left, right) && is_idempotent(with) => {
                    a.clone()
                }
                (Some(left), Some(right)) => {
                    let pairs = left.iter().zip(right.iter());
                    let both: Vec<Self> = pairs.map(|(a, b)| a.combine(b, with)).collect();
                    match a {
                        _ if both == **left => a.clone(),
                        _ if both == **right => b.clone(),
                        Self::Union(_) => Self::Union(Rc::new(both)),
                        Self::Stack(_) => Self::Stack(Rc::new(both)),
                        _ => Self::Struct(Rc::new(both)),
                    }
                }
                _ => a.clone(),
            },
        }
    }
}

/// Whether combining equal facts changes nothing, so that shared parts can be skipped.
fn is_idempotent(with: &impl Fn(Fact, Fact) -> Fact) -> bool {
    [Fact::Bad, Fact::Maybe, Fact::Silent, Fact::Good]
        .into_iter()
        .all(|fact| with(fact, fact) == fact)
}

/// The path to a place in a variable: the variable, then the numbers of the fields and elements that lead to the place.
type Path = (VarId, Vec<usize>);

#[derive(Debug, Clone, Default, PartialEq)]
struct Env {
    vars: Vars,
}

impl Env {
    fn get(&self, path: &Path) -> Option<&Node> {
        self.vars.get(&path.0)?.at(&path.1)
    }

    fn get_mut(&mut self, path: &Path) -> Option<&mut Node> {
        self.vars.get_mut(&path.0)?.at_mut(&path.1)
    }

    fn set(&mut self, path: &Path, node: Node) {
        if let Some(slot) = self.get_mut(path) {
            // A write to a field leaves its header's validity unchanged.
            if matches!((&*slot, &node), (Node::Header(_), Node::Leaf(_))) {
                return;
            }
            *slot = node;
        }
    }

    fn map(&mut self, change: &impl Fn(bool, Fact) -> Fact) {
        self.vars.map(change);
    }

    /// Returns the facts as they count inside a condition: `Maybe` becomes `Silent`.
    fn guarded(&self) -> Self {
        let mut out = self.clone();
        out.map(&|_, fact| {
            if fact == Fact::Maybe {
                Fact::Silent
            } else {
                fact
            }
        });
        out
    }

    fn join(&self, other: &Self) -> Self {
        self.combine(other, &Fact::join)
    }

    fn combine(&self, other: &Self, with: &impl Fn(Fact, Fact) -> Fact) -> Self {
        Self {
            vars: self.vars.combine(&other.vars, with),
        }
    }

    /// Returns the facts after a condition: a fact that was `Maybe` before the condition is `Maybe` again.
    fn restored(&self, before: &Self) -> Self {
        self.combine(before, &|now, before| match (before, now) {
            (Fact::Maybe, Fact::Silent) => Fact::Maybe,
            // A fact that was silent before the condition stays silent.
            (Fact::Silent, Fact::Maybe) => Fact::Silent,
            _ => now,
        })
    }
}

/// `None` if no path leads here.
type State = Option<Env>;

fn join_states(states: impl IntoIterator<Item = State>) -> State {
    states.into_iter().flatten().reduce(|a, b| a.join(&b))
}

struct Flow<'a> {
    subject: &'a Subject<'a>,
    program: &'a Program,
    sink: &'a mut Sink,
    /// Set while the analysis searches for a fixed point: nothing is reported.
    quiet: bool,
    /// Set in a parser, where every state is under a condition: only errors on every path are reported.
    certain_only: bool,
    /// Headers whose validity is a key of the table that is being applied, so that its entries can depend on the
    /// validity.
    asked: Vec<Path>,
    returns: Vec<Env>,
    exits: Vec<Env>,
    breaks: Vec<Env>,
    continues: Vec<Env>,
    reported: HashSet<(Span, &'static str)>,
    /// Controls and parsers that the pipeline ran.
    visited: HashSet<Span>,
    depth: usize,
    statements: usize,
}

pub fn check(subject: &Subject<'_>, sink: &mut Sink) {
    let mut found = Sink::default();
    let mut flow = Flow {
        subject,
        program: subject.program,
        sink: &mut found,
        quiet: false,
        certain_only: false,
        asked: Vec::new(),
        returns: Vec::new(),
        exits: Vec::new(),
        breaks: Vec::new(),
        continues: Vec::new(),
        reported: HashSet::new(),
        visited: HashSet::new(),
        depth: 0,
        statements: 0,
    };
    flow.pipeline();
    flow.rest();
    let whole = flow.statements <= STATEMENTS_MAX;
    // An analysis that stopped early would report values as unset that the rest of the program sets.
    if whole {
        sink.append(found);
    }
}
