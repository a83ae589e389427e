//! Actions that tables run.

use bmv2_json::RuntimeDatum;

use super::copy::{CopyOut, PendingBlock};
use super::place::Place;
use super::{ActionInfo, Binding, Lower, qualify};
use crate::ir::{self, Direction, Expr};

fn runtime_datum(var: &ir::Var, action: &ir::Action, bitwidth: u32) -> RuntimeDatum {
    let name = ir::name_annotation(&var.annotations).unwrap_or_else(|| var.name.to_string());
    let secret = ir::is_secret(&var.annotations) || ir::is_secret(&action.annotations);
    RuntimeDatum {
        name,
        bitwidth,
        secret,
    }
}

impl Lower<'_> {
    /// Returns the control plane's name of an action, in the control instance that is being lowered.
    pub fn action_name(&self, id: usize) -> String {
        let action = &self.program.actions[id];
        let name =
            ir::name_annotation(&action.annotations).unwrap_or_else(|| action.name.to_string());
        if action.is_global {
            qualify("", &name)
        } else {
            qualify(&self.path, &name)
        }
    }

    /// Makes an action known to the control plane even if no table has it.
    pub fn register_action(&mut self, id: usize) {
        let name = self.action_name(id);
        let mut known = self.resources.actions.iter();
        let Some(other) = known.find(|known| known.name == name) else {
            let order = self.declared(ir::Local::Action(id));
            let action = ActionInfo {
                name,
                action: id,
                order,
            };
            return self.resources.actions.push(action);
        };
        if other.action != id {
            let (span, first) = (
                self.program.actions[id].span,
                self.program.actions[other.action].span,
            );
            let message = format!("two actions have the control plane's name `{name}`");
            self.sink
                .error("E0702", span, message)
                .note_at(first, "the other one")
                .help("give one of them another @name");
        }
    }

    /// Registers an action that a control calls directly, because P4Info lists this action too.
    pub fn called_action(&mut self, id: usize) {
        let parameters = &self.program.actions[id].parameters;
        let plain = |id: &usize| self.program.vars[*id].direction == Direction::None;
        if parameters.iter().all(plain) {
            self.lower_action(id, &vec![None; parameters.len()], "");
        } else {
            self.register_action(id);
        }
    }

    /// Lowers the action to which a table refers and returns the id of the JSON action. If the reference gives
    /// arguments, the table gets a JSON action of its own.
    pub fn lower_action(&mut self, id: usize, arguments: &[Option<Expr>], table: &str) -> u32 {
        self.register_action(id);
        let name = self.action_name(id);
        let action = &self.program.actions[id];
        let directed =
            |parameter: &usize| self.program.vars[*parameter].direction != Direction::None;
        let own = action.parameters.iter().any(directed);
        let key = if own {
            format!("{name} in {table}")
        } else {
            name.clone()
        };
        let leaving = self.leaving(action.is_global);
        if let Some(known) = self.action_done(&key, leaving.as_deref()) {
            return known;
        }
        let mut runtime_data = Vec::new();
        let mut bound = Vec::new();
        for (parameter, argument) in action.parameters.iter().zip(arguments) {
            let var = &self.program.vars[*parameter];
            if var.direction != Direction::None {
                bound.push((*parameter, argument.clone()));
                continue;
            }
            let Some(bitwidth) = self.program.width(&var.ty) else {
                let message = format!(
                    "an action's parameter cannot have the type {}",
                    self.program.type_name(&var.ty)
                );
                self.sink
                    .error("E0604", var.span, message)
                    .help("use bit<W>, int<W>, bool or an enum");
                continue;
            };
            let place = Place::Data(runtime_data.len() as u32, var.ty.clone());
            self.env.insert(*parameter, Binding::Place(place));
            runtime_data.push(runtime_datum(var, action, bitwidth));
        }
        // The primitives of a JSON action are not part of the controls around the action. So an `exit` in the action
        // must itself do the copy-out of these controls. An action that no table has needs no copy-out, because its
        // JSON action never runs.
        let is_shared = |block: &PendingBlock| block.repeated && !block.copies.is_empty();
        let is_unknown = !table.is_empty() && self.copy_outs.of_blocks.iter().any(is_shared);
        let outer = (
            std::mem::take(&mut self.copy_outs.of_calls),
            std::mem::replace(&mut self.copy_outs.exit_is_unknown, is_unknown),
        );
        self.action_depth += 1;
        let primitives = self.straight_line(|lower| {
            let copies = lower.bind_action(&bound);
            lower.copy_outs.of_calls.push(copies.clone());
            lower.statements(&action.body);
            for copy in &copies {
                lower.copy_out(copy, action.span);
            }
        });
        self.action_depth -= 1;
        (self.copy_outs.of_calls, self.copy_outs.exit_is_unknown) = outer;
        let json_id = self.json.actions.len() as u32;
        let leaving = leaving.filter(|_| primitives.iter().any(|primitive| primitive.op == "exit"));
        let key = leaving.map_or(key.clone(), |leaving| format!("{key} {leaving}"));
        let source_info = self.source_info(action.span);
        self.json.actions.push(bmv2_json::Action {
            name,
            id: json_id,
            runtime_data,
            primitives,
            source_info,
        });
        self.actions_done.insert(key, json_id);
        json_id
    }

    /// Returns a key for the copy-outs that an `exit` in a global action does. `None` if the action is not global, or
    /// no control around it has `out` or `inout` arguments.
    fn leaving(&self, is_global: bool) -> Option<String> {
        let blocks = self.copy_outs.of_blocks.iter();
        let copies: Vec<&CopyOut> = blocks.flat_map(|block| &block.copies).collect();
        (is_global && !copies.is_empty()).then(|| format!("leaving {copies:?}"))
    }

    /// Returns the action that is already lowered under this key, if it can be reused. An action with `exit` is reused
    /// only where the same copy-outs are due; another control gets its own action with the same name.
    fn action_done(&self, key: &str, leaving: Option<&str>) -> Option<u32> {
        let has_exit = |id: &u32| {
            let primitives = &self.json.actions[*id as usize].primitives;
            primitives.iter().any(|primitive| primitive.op == "exit")
        };
        let plain = self.actions_done.get(key).copied();
        let Some(leaving) = leaving else {
            return plain;
        };
        let own = || self.actions_done.get(&format!("{key} {leaving}")).copied();
        plain.filter(|id| !has_exit(id)).or_else(own)
    }

    fn bind_action(&mut self, bound: &[(usize, Option<Expr>)]) -> Vec<CopyOut> {
        let mut copies = Vec::new();
        for (parameter, argument) in bound {
            let var = &self.program.vars[*parameter];
            let Some(argument) = argument else { continue };
            let local = self.temp(&var.name, &var.ty, var.span);
            if var.direction != Direction::Out {
                self.assign(&local, argument);
            }
            if var.direction != Direction::In
                && let Some(target) = self.write_target(argument)
            {
                copies.push(CopyOut {
                    target,
                    source: local.clone(),
                });
            }
            self.env.insert(*parameter, Binding::Place(local));
        }
        copies
    }
}
