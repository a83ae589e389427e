//! Names and what they mean, in nested scopes.

use std::collections::HashMap;
use std::rc::Rc;

use crate::ir::{ActionId, Expr, InstanceId, TableId, VarId};
use crate::source::Span;
use crate::syntax::ast;
use crate::types::Type;

/// What a name can mean.
#[derive(Clone)]
pub enum Symbol {
    Var(VarId),
    Const(Expr),
    Type(Type),
    /// A struct, header or union with type parameters, resolved at each use.
    GenericStruct(Rc<ast::Struct>),
    /// A control or parser with type parameters: index into the checker's.
    GenericBlock(usize),
    Extern(usize),
    Package(usize),
    Control(usize),
    Parser(usize),
    ControlType(usize),
    ParserType(usize),
    /// All overloads.
    Functions(Vec<FunctionSymbol>),
    Action(ActionId),
    Table(TableId),
    Instance(InstanceId),
    ValueSet(usize),
    /// A declaration that had errors: say nothing more about it.
    Broken,
}

#[derive(Clone)]
pub enum FunctionSymbol {
    User(usize),
    Extern(usize),
}

#[derive(Default)]
pub struct Scopes {
    stack: Vec<HashMap<Rc<str>, (Symbol, Span)>>,
}

impl Scopes {
    pub fn push(&mut self) {
        self.stack.push(HashMap::new());
    }

    pub fn pop(&mut self) {
        self.stack.pop();
    }

    /// Takes away all scopes above the global one.
    pub fn detach(&mut self) -> Vec<HashMap<Rc<str>, (Symbol, Span)>> {
        if self.stack.is_empty() {
            Vec::new()
        } else {
            self.stack.split_off(1)
        }
    }

    /// Puts detached scopes back.
    pub fn attach(&mut self, mut inner: Vec<HashMap<Rc<str>, (Symbol, Span)>>) {
        self.stack.truncate(1);
        self.stack.append(&mut inner);
    }

    /// Declares; gives the place of what had the name in the same scope.
    pub fn declare(&mut self, name: &Rc<str>, symbol: Symbol, span: Span) -> Option<Span> {
        let top = self.stack.last_mut()?;
        top.insert(name.clone(), (symbol, span))
            .map(|(_, before)| before)
    }

    /// Replaces or adds without looking for a clash.
    pub fn set_global(&mut self, name: &Rc<str>, symbol: Symbol, span: Span) {
        if let Some(global) = self.stack.first_mut() {
            global.insert(name.clone(), (symbol, span));
        }
    }

    pub fn lookup(&self, name: &str, global: bool) -> Option<&Symbol> {
        let scopes = if global {
            &self.stack[..self.stack.len().min(1)]
        } else {
            &self.stack[..]
        };
        scopes
            .iter()
            .rev()
            .find_map(|scope| scope.get(name))
            .map(|(symbol, _)| symbol)
    }

    /// The visible name nearest to a misspelt one.
    pub fn similar(&self, name: &str) -> Option<String> {
        let names = self.stack.iter().flat_map(HashMap::keys);
        nearest(name, names.map(|name| &**name))
    }
}

/// The candidate that differs least, where it is near enough to be meant.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let bound = (name.len() / 3).max(1);
    let near = candidates
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(far, _)| *far <= bound);
    near.min().map(|(_, candidate)| candidate.to_owned())
}

/// Levenshtein's distance, on bytes.
fn distance(left: &str, right: &str) -> usize {
    let right = right.as_bytes();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}
