//! Table application: the key is packed into words on the stack, a call finds the entry and
//! counts, a jump by the entry's action leads to its primitives.

use std::mem::offset_of;

use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};
use cranelift_frontend::Switch;
use dataplane::{
    MatchKind, TableId, TableInfo,
    engine::ir::{Expr, KeySource, NextNode, NodeId},
};

use super::{Emit, Native, Region, control::Control, range::Range};
use crate::{
    context::PassContext,
    fallback::Interpretable,
    lookup::key_shape,
    runtime::{ENTRY_ACTION, ENTRY_HIT, position_of, runnable},
};

impl Emit<'_, '_, '_> {
    /// Applies a table and goes to the nodes behind it.
    pub(super) fn table(&mut self, control: &mut Control, id: TableId) {
        let program = self.unit.program;
        let Some(info) = program.table_info(id) else {
            return;
        };
        let node = &program.ir().table_nodes[id.index()];
        self.place = format!("table \"{}\"", info.name);
        let entry = self.entry(id, info, &node.key);
        let number = self.load(types::I32, Region::Entry, entry, ENTRY_ACTION);
        let hit = match node.next {
            NextNode::HitMiss { .. } => {
                Some(self.load(types::I32, Region::Entry, entry, ENTRY_HIT))
            }
            NextNode::PerAction(_) => None,
        };
        let mut switch = Switch::new();
        let actions = runnable(program, id);
        let blocks: Vec<_> = actions.iter().map(|_| self.b.create_block()).collect();
        for (position, block) in (0u128..).zip(&blocks) {
            switch.set_entry(position, *block);
        }
        let nothing = self.b.create_block();
        switch.emit(&mut self.b, number, nothing);
        for (action, block) in actions.iter().zip(blocks) {
            self.begin(block);
            self.run_action(*action, Some(entry), control.end);
            let next = match &node.next {
                NextNode::PerAction(next) => position_of(program, info, *action)
                    .and_then(|position| next.get(position).copied().flatten()),
                NextNode::HitMiss { .. } => None,
            };
            self.go_on(control, &node.next, hit, next);
        }
        self.begin(nothing);
        self.go_on(control, &node.next, hit, node.default_next);
    }

    fn go_on(
        &mut self,
        control: &mut Control,
        next: &NextNode,
        hit: Option<Value>,
        otherwise: Option<NodeId>,
    ) {
        match (next, hit) {
            (NextNode::HitMiss { hit: yes, miss: no }, Some(hit)) => {
                let (yes, no) = (control.block(self, *yes), control.block(self, *no));
                self.branch(hit, yes, no);
            }
            _ => {
                let next = control.block(self, otherwise);
                self.jump(next);
            }
        }
    }

    /// The entry that runs; one without an action where nothing does.
    fn entry(&mut self, id: TableId, info: &TableInfo, key: &[KeySource]) -> Value {
        if !key.is_empty() || info.action_profile.is_some() {
            return self.look_up(id, info, key);
        }
        // Without a key there is nothing to look up, unless someone has made an entry.
        let all = self.load_context(types::I64, offset_of!(PassContext, direct));
        let offset = u32::try_from(8 * id.index()).unwrap_or(u32::MAX);
        let direct = self.load(types::I64, Region::Entry, all, offset);
        let (found, other, after) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        let entry = self.b.declare_var(types::I64);
        self.b.def_var(entry, direct);
        self.branch(direct, found, other);
        self.b.set_cold_block(other);
        self.begin(other);
        let looked_up = self.look_up(id, info, key);
        self.b.def_var(entry, looked_up);
        self.jump(after);
        self.begin(found);
        self.count_miss(id);
        self.jump(after);
        self.begin(after);
        self.b.use_var(entry)
    }

    fn look_up(&mut self, id: TableId, info: &TableInfo, key: &[KeySource]) -> Value {
        let address = match self.key(info, key) {
            Ok(address) => address,
            Err(reason) => {
                self.leave(Interpretable::Key, reason);
                self.constant(0)
            }
        };
        let (pass, vector) = (self.pass, self.vector);
        let number = self.constant32(u32::try_from(id.index()).unwrap_or(u32::MAX));
        let entry = self.call("apply_table", &[pass, vector, number, address]);
        entry.unwrap_or(address)
    }

    fn count_miss(&mut self, id: TableId) {
        let counters = self.load_context(types::I64, offset_of!(PassContext, table_counters));
        let offset = u32::try_from(16 * id.index() + 8).unwrap_or(u32::MAX);
        let misses = self.load(types::I64, Region::State, counters, offset);
        let misses = self.b.ins().iadd_imm_u(misses, 1);
        self.store(Region::State, misses, counters, offset);
    }

    /// Packs a key on the stack and gives its address.
    fn key(&mut self, info: &TableInfo, key: &[KeySource]) -> Native<Value> {
        let shape = key_shape(info);
        let mut words: Vec<Option<Value>> = vec![None; shape.words()];
        for ((field, source), place) in info.key.iter().zip(key).zip(shape.fields()) {
            self.check_key(info, field.kind, field.width_bits, source)?;
            let n = place.words();
            let mut value = self.low(&source.value, n)?;
            if let Some(mask) = &source.mask {
                let mask = self.low(&Expr::Const(mask.clone()), n)?;
                let pairs = value.into_iter().zip(mask);
                value = pairs
                    .map(|(word, mask)| self.b.ins().band(word, mask))
                    .collect();
            }
            let range = match &source.mask {
                None => self.names().range(&source.value),
                Some(_) => None,
            };
            let width = Range::field(field.width_bits, false);
            if !range.is_some_and(|range| range.is_within(&width)) {
                value = self.wrap(value, field.width_bits, false);
            }
            if let Expr::Field(of) = source.value {
                value = self.zero_if_invalid(of, value);
            }
            for (limb, value) in value.into_iter().enumerate() {
                let shift = i64::from(place.shift);
                let value = match shift {
                    0 => value,
                    _ => self.b.ins().ishl_imm_u(value, shift),
                };
                if let Some(word) = words.get_mut(place.word + limb) {
                    *word = Some(match *word {
                        Some(other) => self.b.ins().bor(other, value),
                        None => value,
                    });
                }
            }
        }
        let bytes = u32::try_from(8 * words.len().max(1)).unwrap_or(u32::MAX);
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3);
        let slot = self.b.create_sized_stack_slot(data);
        let address = self.b.ins().stack_addr(types::I64, slot, 0);
        for (position, word) in (0i32..).zip(words) {
            let word = match word {
                Some(word) => word,
                None => self.constant(0),
            };
            let flags = cranelift_codegen::ir::MemFlagsData::trusted();
            self.b.ins().store(flags, word, address, 8 * position);
        }
        Ok(address)
    }

    /// Where a value that does not fit the key's width would be compared whole, cutting it is
    /// not the same.
    fn check_key(
        &self,
        info: &TableInfo,
        kind: MatchKind,
        bits: u32,
        source: &KeySource,
    ) -> Native {
        let is_cut = match kind {
            MatchKind::Lpm | MatchKind::Ternary => true,
            MatchKind::Exact => !info.has_priority(),
            MatchKind::Range | MatchKind::Optional => false,
        };
        let range = self.names().range(&source.value);
        let fits = |range: Range| range.is_within(&Range::field(bits, false));
        match is_cut || range.is_some_and(fits) {
            true => Ok(()),
            false => Err("a key that may not fit its width".into()),
        }
    }

    fn zero_if_invalid(
        &mut self,
        field: dataplane::engine::ir::FieldId,
        value: Vec<Value>,
    ) -> Vec<Value> {
        let ir = self.ir();
        let header = ir.fields[field.index()].header;
        if ir.headers[header.index()].metadata {
            return value;
        }
        let valid = self.valid(header);
        let zero = self.constant(0);
        value
            .into_iter()
            .map(|word| self.b.ins().select(valid, word, zero))
            .collect()
    }
}
