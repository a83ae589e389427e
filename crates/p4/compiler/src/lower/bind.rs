//! Binds the arguments of a control or parser to its parameters.

use super::copy::CopyOut;
use super::place::{Place, Roots};
use super::{Binding, Lower, Object};
use crate::ir::{Direction, Expr, ExprKind, VarId};
use crate::source::Span;
use crate::types::Type;

impl Lower<'_> {
    /// Binds parameters; returns the values to copy out.
    ///
    /// A parameter shares its argument's storage if no other argument overlaps the argument, since a control can reach
    /// nothing but its parameters. If `storage` (the block's path) is given, each parameter has storage of its own,
    /// which is the same each time the block is applied.
    pub fn bind_block(
        &mut self,
        parameters: &[VarId],
        arguments: &[Option<Expr>],
        storage: Option<&str>,
        span: Span,
    ) -> Vec<CopyOut> {
        let resolved: Vec<Option<Expr>> = arguments
            .iter()
            .map(|argument| argument.as_ref().map(|argument| self.resolve(argument)))
            .collect();
        let places: Vec<Option<Place>> = resolved
            .iter()
            .map(|argument| self.shared_place(argument.as_ref()))
            .collect();
        // An argument that is copied back may also overlap other arguments, although its parameter has its own storage.
        let written: Vec<Option<Place>> = parameters
            .iter()
            .zip(&resolved)
            .map(
                |(parameter, argument)| match self.program.vars[*parameter].direction {
                    Direction::Out | Direction::InOut => self.written_place(argument.as_ref()?),
                    _ => None,
                },
            )
            .collect();
        let roots: Vec<Option<Roots<'_>>> = places
            .iter()
            .zip(&written)
            .map(|(place, written)| place.as_ref().or(written.as_ref()).map(Roots::of))
            .collect();
        let mut bound = Vec::new();
        let mut copies = Vec::new();
        for (at, (parameter, argument)) in parameters.iter().zip(&resolved).enumerate() {
            let var = &self.program.vars[*parameter];
            let object = argument
                .as_ref()
                .and_then(|argument| self.object(argument))
                .or_else(|| self.packet(&var.ty));
            if let Some(object) = object {
                bound.push((*parameter, Binding::Object(object)));
                continue;
            }
            let place = places[at].clone();
            let shares = |other: usize| match (&roots[other], &roots[at]) {
                (Some(other), Some(own)) => other.overlap(own),
                _ => false,
            };
            let alone = || (0..roots.len()).all(|other| other == at || !shares(other));
            let binding = match (place, argument) {
                (Some(place), _) if storage.is_none() && alone() => {
                    if var.direction == Direction::Out {
                        self.invalidate(&place, span);
                    }
                    Binding::Place(place)
                }
                (_, argument) => {
                    let local = self.parameter_storage(*parameter, storage);
                    self.bind_copy(var.direction, argument.as_ref(), &local, span, &mut copies);
                    Binding::Place(local)
                }
            };
            bound.push((*parameter, binding));
        }
        self.env.extend(bound);
        copies
    }

    /// Copies an argument in, and records where to copy it out.
    fn bind_copy(
        &mut self,
        direction: Direction,
        argument: Option<&Expr>,
        local: &Place,
        span: Span,
        copies: &mut Vec<CopyOut>,
    ) {
        let writes = matches!(direction, Direction::Out | Direction::InOut);
        let target = argument
            .filter(|_| writes)
            .map(|argument| self.write_target(argument));
        match (direction, argument, &target) {
            (Direction::Out, ..) => self.invalidate(local, span),
            (_, Some(argument), Some(Some(target))) => self.copy_in(local, target, argument),
            (_, Some(argument), _) => self.assign(local, argument),
            _ => {}
        }
        match target {
            Some(Some(target)) => copies.push(CopyOut {
                target,
                source: local.clone(),
            }),
            Some(None) => self.unsupported(span, "this argument for an `out` or `inout` parameter"),
            None => {}
        }
    }

    fn packet(&self, ty: &Type) -> Option<Object> {
        match ty {
            Type::Extern(id, _)
                if matches!(&*self.program.extern_names[*id], "packet_in" | "packet_out") =>
            {
                Some(Object::Packet)
            }
            _ => None,
        }
    }

    /// Returns the storage of an argument that is a variable, a field or an element with a constant index.
    fn shared_place(&mut self, argument: Option<&Expr>) -> Option<Place> {
        let argument = argument?;
        if !matches!(
            argument.kind,
            ExprKind::Var(_) | ExprKind::Field(..) | ExprKind::Index(..)
        ) {
            return None;
        }
        let place = self.place(argument)?;
        let fixed = |leaf: &Place| {
            matches!(
                leaf,
                Place::Field { .. }
                    | Place::Header { .. }
                    | Place::Union { .. }
                    | Place::Stack { .. }
            )
        };
        self.leaves(&place).iter().all(fixed).then_some(place)
    }

    /// Returns the storage that the argument names, or of which the argument is a slice.
    fn written_place(&mut self, argument: &Expr) -> Option<Place> {
        match &argument.kind {
            ExprKind::Slice(inner, ..) => self.written_place(inner),
            ExprKind::Var(_) | ExprKind::Field(..) | ExprKind::Index(..) => self.place(argument),
            _ => None,
        }
    }

    fn parameter_storage(&mut self, parameter: VarId, storage: Option<&str>) -> Place {
        let known = storage
            .and_then(|path| self.blocks.storage.get(path))
            .and_then(|known| known.get(&parameter));
        if let Some(Binding::Place(place)) = known {
            return place.clone();
        }
        let var = &self.program.vars[parameter];
        let place = self.temp(&var.name, &var.ty, var.span);
        if let Some(path) = storage {
            self.blocks
                .storage
                .entry(path.to_owned())
                .or_default()
                .insert(parameter, Binding::Place(place.clone()));
        }
        place
    }
}
