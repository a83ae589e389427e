//! Names and their meanings, in nested scopes.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

pub use names::nearest;

use crate::ir::{ActionId, Expr, InstanceId, Program, TableId, VarId};
use crate::source::Span;
use crate::syntax::ast;
use crate::types::Type;

#[derive(Clone)]
pub enum Symbol {
    Var(VarId),
    Const(Expr),
    Type(Type),
    /// A struct, header or union with type parameters, resolved at each use.
    GenericStruct(Rc<ast::Struct>),
    /// A control or parser with type parameters: index into the checker's list.
    GenericBlock(usize),
    Extern(usize),
    Package(usize),
    Control(usize),
    Parser(usize),
    ControlType(usize),
    ParserType(usize),
    Functions(Vec<FunctionSymbol>),
    Action(ActionId),
    Table(TableId),
    Instance(InstanceId),
    ValueSet(usize),
    /// A declaration with a reported error; no further messages are about it.
    Broken,
}

#[derive(Clone)]
pub enum FunctionSymbol {
    User(usize),
    Extern(usize),
}

/// The kind of a declaration, for the lints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Var(VarId),
    Const,
    Type,
    Function,
    Control,
    Parser,
    Action,
    Table,
    Instance(InstanceId),
    ValueSet,
}

impl Kind {
    fn of(symbol: &Symbol) -> Option<Self> {
        Some(match symbol {
            Symbol::Var(id) => Self::Var(*id),
            Symbol::Const(_) => Self::Const,
            Symbol::Type(Type::Variable(_)) => return None,
            Symbol::Type(_) | Symbol::GenericStruct(_) => Self::Type,
            Symbol::Functions(_) => Self::Function,
            Symbol::Control(_) | Symbol::GenericBlock(_) => Self::Control,
            Symbol::Parser(_) => Self::Parser,
            Symbol::Action(_) => Self::Action,
            Symbol::Table(_) => Self::Table,
            Symbol::Instance(id) => Self::Instance(*id),
            Symbol::ValueSet(_) => Self::ValueSet,
            _ => return None,
        })
    }
}

#[derive(Debug, Clone)]
pub struct Declared {
    pub name: Rc<str>,
    pub span: Span,
    pub kind: Kind,
    pub is_global: bool,
    pub hides: Option<(Kind, Span)>,
}

/// All declarations, and which of them were looked up.
#[derive(Debug, Default)]
pub struct Names {
    pub declared: Vec<Declared>,
    used: RefCell<HashSet<(Rc<str>, Span)>>,
}

impl Names {
    /// Returns the key under which a use is recorded. A use of one overload counts for all overloads of the function.
    fn key(name: &Rc<str>, kind: Kind, span: Span) -> (Rc<str>, Span) {
        let span = if kind == Kind::Function {
            Span::default()
        } else {
            span
        };
        (name.clone(), span)
    }

    pub fn is_used(&self, declared: &Declared) -> bool {
        let key = Self::key(&declared.name, declared.kind, declared.span);
        self.used.borrow().contains(&key)
    }
}

#[derive(Default)]
pub struct Scopes {
    stack: Vec<HashMap<Rc<str>, (Symbol, Span)>>,
    names: Names,
}

impl Scopes {
    pub fn push(&mut self) {
        self.stack.push(HashMap::new());
    }

    pub fn pop(&mut self) {
        self.stack.pop();
    }

    pub fn detach(&mut self) -> Vec<HashMap<Rc<str>, (Symbol, Span)>> {
        if self.stack.is_empty() {
            Vec::new()
        } else {
            self.stack.split_off(1)
        }
    }

    pub fn attach(&mut self, mut inner: Vec<HashMap<Rc<str>, (Symbol, Span)>>) {
        self.stack.truncate(1);
        self.stack.append(&mut inner);
    }

    /// Declares a name; returns the place of an earlier declaration in the same scope.
    pub fn declare(&mut self, name: &Rc<str>, symbol: Symbol, span: Span) -> Option<Span> {
        self.record(name, &symbol, span);
        self.declare_member(name, symbol, span)
    }

    /// Declares a name like `declare`, but the lints do not count it as a declaration. Used for the members of an enum
    /// and for a table's own name inside the table.
    pub fn declare_member(&mut self, name: &Rc<str>, symbol: Symbol, span: Span) -> Option<Span> {
        let top = self.stack.last_mut()?;
        top.insert(name.clone(), (symbol, span))
            .map(|(_, before)| before)
    }

    /// Replaces or adds a global name, without checking for a clash.
    pub fn set_global(&mut self, name: &Rc<str>, symbol: Symbol, span: Span) {
        self.record(name, &symbol, span);
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
            .find_map(|scope| scope.get_key_value(name))
            .map(|(name, (symbol, span))| {
                if let Some(kind) = Kind::of(symbol) {
                    let key = Names::key(name, kind, *span);
                    self.names.used.borrow_mut().insert(key);
                }
                symbol
            })
    }

    fn record(&mut self, name: &Rc<str>, symbol: &Symbol, span: Span) {
        let Some(kind) = Kind::of(symbol) else {
            return;
        };
        let outer = self.stack.len().saturating_sub(1);
        let hides = self.stack[..outer]
            .iter()
            .rev()
            .find_map(|scope| scope.get(name))
            .and_then(|(symbol, span)| Kind::of(symbol).map(|kind| (kind, *span)));
        self.names.declared.push(Declared {
            name: name.clone(),
            span,
            kind,
            is_global: self.stack.len() <= 1 || kind == Kind::Function,
            hides: hides.filter(|_| kind != Kind::Function),
        });
    }

    pub fn n_declared(&self) -> usize {
        self.names.declared.len()
    }

    /// Keeps only the first `n_declared` declarations in the record. Names that the removed declarations used still
    /// count as used.
    pub fn forget_declared(&mut self, n_declared: usize) {
        self.names.declared.truncate(n_declared);
    }

    pub fn into_names(self) -> Names {
        self.names
    }

    /// Returns the name of the innermost visible variable or parameter of this struct type. So the parameter of type
    /// `standard_metadata_t` is found whatever its name is.
    pub fn of_type(&self, type_name: &str, program: &Program) -> Option<String> {
        let is_it = |symbol: &Symbol| match symbol {
            Symbol::Var(id) => match program.vars[*id].ty {
                Type::Struct(ty) => &*program.structs[ty].name == type_name,
                _ => false,
            },
            _ => false,
        };
        let found = self.stack.iter().rev().find_map(|scope| {
            let mut names = scope.iter().filter(|(_, (symbol, _))| is_it(symbol));
            names.next()
        });
        found.map(|(name, _)| name.to_string())
    }

    pub fn similar(&self, name: &str) -> Option<String> {
        let names = self.stack.iter().flat_map(HashMap::keys);
        nearest(name, names.map(|name| &**name))
    }
}
