//! The order in which P4Info lists tables and actions. It is the same as p4c's order.
//!
//! p4c writes P4Info after it has inlined sub-controls into the controls that apply them. The declarations of a
//! sub-control are inserted where its instance is declared; those of a control that is applied by its type's name come
//! after all other declarations. Tables and actions are then listed in the order of declaration, not of application,
//! and ingress comes before egress. Global actions come before the actions of the first control that uses them.

use super::{BlockInstance, Lower, Resources};
use crate::ir::{Control, InstanceKind, Local, Program};

/// The position of a declaration, as a list of numbers: first the pipeline, then, for each enclosing control from the
/// outermost inwards, the position among that control's declarations.
pub type DeclaredAt = Vec<usize>;

#[derive(Default)]
pub struct Standing {
    pub order: DeclaredAt,
    control: Option<usize>,
    /// Number of controls that were applied by their types' names.
    n_by_type: usize,
}

impl Standing {
    /// Enters a control; returns the position outside the control, to which `leave` returns.
    pub fn enter(
        &mut self,
        block: &BlockInstance,
        order: &DeclaredAt,
    ) -> (DeclaredAt, Option<usize>) {
        let control = match block.kind {
            InstanceKind::Control(id) => Some(id),
            _ => None,
        };
        (
            std::mem::replace(&mut self.order, order.clone()),
            std::mem::replace(&mut self.control, control),
        )
    }

    /// Leaves a control; `outer` is what `enter` returned.
    pub fn leave(&mut self, outer: (DeclaredAt, Option<usize>)) {
        (self.order, self.control) = outer;
    }
}

impl Lower<'_> {
    /// Returns the position of a declaration in the control that is being lowered.
    pub fn declared(&self, local: Local) -> DeclaredAt {
        let locals = self.declarations();
        let at = locals.iter().position(|other| *other == local);
        self.standing_at(at.unwrap_or(locals.len()))
    }

    /// Returns the position of the next control that is applied by its type's name.
    pub fn behind_declarations(&mut self) -> DeclaredAt {
        self.standing.n_by_type += 1;
        self.standing_at(self.declarations().len() + self.standing.n_by_type)
    }

    fn declarations(&self) -> &[Local] {
        let control: Option<&Control> = self.standing.control.map(|id| &self.program.controls[id]);
        control.map_or(&[], |control| &control.locals)
    }

    fn standing_at(&self, at: usize) -> DeclaredAt {
        let mut order = self.standing.order.clone();
        order.push(at);
        order
    }
}

impl Resources {
    pub fn sort(&mut self, program: &Program) {
        self.tables.sort_by(|a, b| a.order.cmp(&b.order));
        let tables = &self.tables;
        self.actions.sort_by_cached_key(|action| {
            let pipeline = action.order.first().copied();
            if !program.actions[action.action].is_global {
                return (pipeline, usize::MAX, 0, action.order.clone());
            }
            let uses = tables.iter().enumerate().find_map(|(at, table)| {
                let mut listed = table.actions.iter();
                let place = listed.position(|(name, _)| *name == action.name)?;
                Some((table.order.first().copied(), at, place))
            });
            // An action that no table has, but that is called, comes after the actions of tables.
            let (pipeline, table, place) = uses.unwrap_or((pipeline, usize::MAX - 1, 0));
            (pipeline, table, place, DeclaredAt::new())
        });
    }
}
