//! Table application: the generated code packs the key into words, calls the table's own lookup, counts a hit of the
//! entry that the lookup finds, and jumps to the primitives of the entry's action.

use std::mem::offset_of;

use cranelift_codegen::ir::{
    Block, BlockArg, Inst, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Type, Value,
    condcodes::IntCC, types,
};
use cranelift_frontend::Switch;
use dataplane::{
    ActionId, CounterValue, KeyField, MatchKind, TableCounters, TableId, TableInfo,
    engine::{
        EntryAccount,
        ir::{Expr, Int, KeySource, NextNode, NodeId, TableNode, range::Range},
    },
};

use super::{Emit, Emitted, Region, control::Control};
use crate::{
    context::PassContext,
    fallback::Interpretable,
    flow::OPEN,
    lookup::{MISS, TableIndex, key_shape, shape::FieldPlace},
    tables::{ENTRY_ACTION, ENTRY_HIT, RESOLVE, TableRecord, entry_words, position_of, runnable},
};

struct Applied<'p> {
    id: TableId,
    info: &'p TableInfo,
    node: &'p TableNode,
    /// The address of the tables' [`TableRecord`]s.
    records: Value,
}

/// Whether a lookup hit, as far as it is known at compile time.
#[derive(Debug, Clone, Copy)]
enum Hit {
    Known(bool),
    /// Known only at run time, from the hit flag of this entry.
    Entry(Value),
}

fn size32(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("an entry has fewer than 2^32 bytes")
}

impl Applied<'_> {
    fn number(&self) -> u32 {
        size32(self.id.index())
    }
}

impl<'p> Emit<'_, '_, 'p> {
    /// Applies a table, then jumps to the node that follows it in the control.
    pub(super) fn table(&mut self, control: &mut Control, id: TableId) {
        let program = self.unit.program;
        let Some(info) = program.table_info(id) else {
            return;
        };
        self.place = format!("table \"{}\"", info.name);
        let applied = Applied {
            id,
            info,
            node: &program.ir().table_nodes[id.index()],
            records: self.load_context(types::I64, offset_of!(PassContext, tables)),
        };
        let before = self.known();
        let [hit, miss] = self.blocks();
        let number = self.number(&applied, miss);
        let is_miss = i64::from(MISS.cast_signed());
        let is_miss = self.b.ins().icmp_imm_s(IntCC::Equal, number, is_miss);
        self.branch(is_miss, miss, hit);
        let fixed = self.unit.options.action_specialisation && info.is_default_const;
        let actions = runnable(program, id);
        if fixed {
            self.begin_inner(hit);
            let entry = self.hit(&applied, number);
            let entry = self.resolved(&applied, entry, Some(number));
            self.dispatch(control, &applied, &actions, entry, Hit::Known(true));
            self.begin_knowing(miss, before);
            self.count(&applied, offset_of!(TableCounters, misses));
            self.run_default(control, &applied);
            return;
        }
        let dispatch = self.b.create_block();
        let entry = self.b.append_block_param(dispatch, types::I64);
        self.begin_inner(hit);
        let found = self.hit(&applied, number);
        let found = self.resolved(&applied, found, Some(number));
        self.b.ins().jump(dispatch, &[BlockArg::Value(found)]);
        self.begin_knowing(miss, before);
        self.count(&applied, offset_of!(TableCounters, misses));
        let default = self.of_record(&applied, offset_of!(TableRecord, default));
        let default = self.resolved(&applied, default, None);
        self.b.ins().jump(dispatch, &[BlockArg::Value(default)]);
        self.begin(dispatch);
        self.dispatch(control, &applied, &actions, entry, Hit::Entry(entry));
    }

    /// Gives the number of the entry that the packet hits, or [`MISS`]. If the table has no entries, the code jumps to
    /// `miss` at once.
    fn number(&mut self, applied: &Applied<'_>, miss: Block) -> Value {
        let look_up = self.b.create_block();
        let Some(cell) = self.cell(applied.id) else {
            let n_entries = self.of_record(applied, offset_of!(TableRecord, n_entries));
            self.branch(n_entries, look_up, miss);
            if applied.node.key.is_empty() {
                self.b.set_cold_block(look_up);
            }
            self.begin_inner(look_up);
            return self.find_entry(applied);
        };
        let known = self.known();
        let [ask, found] = self.blocks();
        let result = self.b.append_block_param(found, types::I32);
        let open = i64::from(OPEN.cast_signed());
        let is_open = self.b.ins().icmp_imm_s(IntCC::Equal, cell, open);
        let kept = [BlockArg::Value(cell)];
        self.b.ins().brif(is_open, ask, &[], found, &kept);
        self.begin_inner(ask);
        let nothing = self.constant32(MISS);
        self.keep_cell(applied.id, nothing);
        let n_entries = self.of_record(applied, offset_of!(TableRecord, n_entries));
        let nothing = [BlockArg::Value(nothing)];
        self.b.ins().brif(n_entries, look_up, &[], found, &nothing);
        self.begin_inner(look_up);
        let number = self.find_entry(applied);
        self.keep_cell(applied.id, number);
        self.b.ins().jump(found, &[BlockArg::Value(number)]);
        self.begin_knowing(found, known);
        result
    }

    fn of_record(&mut self, applied: &Applied<'_>, offset: usize) -> Value {
        let offset = size32(applied.id.index() * size_of::<TableRecord>() + offset);
        self.load(types::I64, Region::Entry, applied.records, offset)
    }

    /// Handles a miss of a table whose default action is constant.
    fn run_default(&mut self, control: &mut Control, applied: &Applied<'p>) {
        let init = &self.ir().table_inits[applied.id.index()];
        let Some(default) = &init.default else {
            let otherwise = applied.node.default_next;
            self.go_on(control, applied.node, Hit::Known(false), otherwise);
            return;
        };
        let entry = self.of_record(applied, offset_of!(TableRecord, default));
        self.bound = &default.args;
        self.run_action(default.action, Some(entry), control.end);
        self.bound = &[];
        self.go_on_behind(control, applied, default.action, Hit::Known(false));
    }

    fn dispatch(
        &mut self,
        control: &mut Control,
        applied: &Applied<'p>,
        actions: &[ActionId],
        entry: Value,
        hit: Hit,
    ) {
        let nothing = self.b.create_block();
        let blocks: Vec<Block> = actions.iter().map(|_| self.b.create_block()).collect();
        let number = self.load(types::I32, Region::Entry, entry, ENTRY_ACTION);
        let known = self.known();
        // An entry runs one of the table's actions, unless it leads to an empty group of an action profile.
        let always = applied.node.profile.is_none() && matches!(hit, Hit::Known(true));
        let always = always && self.unit.options.action_specialisation;
        let mut switch = Switch::new();
        let n_cases = blocks.len() - usize::from(always && !blocks.is_empty());
        for (position, block) in (0u128..).zip(&blocks[..n_cases]) {
            switch.set_entry(position, *block);
        }
        let last = blocks.last().filter(|_| always).copied();
        match (last, n_cases) {
            (Some(last), 0) => self.jump(last),
            (last, _) => switch.emit(&mut self.b, number, last.unwrap_or(nothing)),
        }
        for (action, block) in actions.iter().zip(blocks) {
            self.begin_knowing(block, known.clone());
            self.run_action(*action, Some(entry), control.end);
            self.go_on_behind(control, applied, *action, hit);
        }
        self.begin_knowing(nothing, known);
        self.go_on(control, applied.node, hit, applied.node.default_next);
    }

    fn go_on_behind(
        &mut self,
        control: &mut Control,
        applied: &Applied<'p>,
        action: ActionId,
        hit: Hit,
    ) {
        let next = match &applied.node.next {
            NextNode::PerAction(next) => {
                let position = position_of(self.unit.program, applied.info, action);
                position.and_then(|position| next.get(position).copied().flatten())
            }
            NextNode::HitMiss { .. } => None,
        };
        self.go_on(control, applied.node, hit, next);
    }

    fn go_on(
        &mut self,
        control: &mut Control,
        node: &TableNode,
        hit: Hit,
        otherwise: Option<NodeId>,
    ) {
        let next = match (&node.next, hit) {
            (NextNode::HitMiss { hit: yes, .. }, Hit::Known(true)) => *yes,
            (NextNode::HitMiss { miss: no, .. }, Hit::Known(false)) => *no,
            (NextNode::HitMiss { hit: yes, miss: no }, Hit::Entry(entry)) => {
                let hit = self.load(types::I32, Region::Entry, entry, ENTRY_HIT);
                let (yes, no) = (control.block(self, *yes), control.block(self, *no));
                self.branch(hit, yes, no);
                return;
            }
            (NextNode::PerAction(_), _) => otherwise,
        };
        let next = control.block(self, next);
        self.jump(next);
    }

    /// Looks up the entry that the packet hits. The result is the entry's number, or [`MISS`].
    fn find_entry(&mut self, applied: &Applied<'_>) -> Value {
        let words = match self.key(applied.info, &applied.node.key) {
            Ok(words) => words,
            Err(reason) => {
                self.leave(Interpretable::Key, reason);
                let number = self.constant32(applied.number());
                return self.ask("look_up", &[number]);
            }
        };
        let function = TableIndex::new(applied.info).function();
        let target = self.of_record(applied, offset_of!(TableRecord, target));
        let mut args = vec![target];
        if function.takes_words {
            args.extend(words);
        } else {
            args.push(self.on_stack(words));
        }
        self.call_address((function.address, "lookup"), &args, types::I32)
    }

    /// Stores words on the stack. Returns their address.
    pub(crate) fn on_stack(&mut self, words: Vec<Value>) -> Value {
        let address = self.room(words.len());
        for (position, word) in (0i32..).zip(words) {
            let flags = MemFlagsData::trusted();
            self.b.ins().store(flags, word, address, 8 * position);
        }
        address
    }

    /// Reserves `n_words` words on the stack. Returns their address.
    pub(crate) fn room(&mut self, n_words: usize) -> Value {
        let bytes = size32(8 * n_words.max(1));
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3);
        let slot = self.b.create_sized_stack_slot(data);
        self.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// Calls a function that does not write to the packet.
    pub(super) fn call_address(
        &mut self,
        function: (*const u8, &'static str),
        args: &[Value],
        gives: Type,
    ) -> Value {
        let call = self.call_any(function, args, Some(gives));
        self.b.inst_results(call)[0]
    }

    /// Calls a function as `call_address` does, but returns the call instruction. The function may have no result.
    pub(super) fn call_any(
        &mut self,
        (function, name): (*const u8, &'static str),
        args: &[Value],
        gives: Option<Type>,
    ) -> Inst {
        let params = vec![types::I64; args.len()];
        let signature = self.unit.signature(&params, gives);
        let signature = self.b.import_signature(signature);
        let address = self.address(function, name);
        self.b.ins().call_indirect(signature, address, args)
    }

    /// Counts a hit of the table and of its entry, runs the direct meter, and returns the entry.
    fn hit(&mut self, applied: &Applied<'_>, number: Value) -> Value {
        self.count(applied, offset_of!(TableCounters, hits));
        if let Some(meter) = &applied.node.meter {
            let (pass, table) = (self.pass, self.constant32(applied.number()));
            let color = self.value_of("execute_direct_meter", &[pass, table, number]);
            self.put_field(meter.result, vec![color], &Range::field(8, false));
        }
        let position = self.b.ins().uextend(types::I64, number);
        self.count_entry(applied, number, position);
        let entries = self.of_record(applied, offset_of!(TableRecord, entries));
        let stride = 8 * i64::from(entry_words(self.unit.program, applied.id));
        let offset = self.b.ins().imul_imm_u(position, stride);
        self.b.ins().iadd(entries, offset)
    }

    fn count_entry(&mut self, applied: &Applied<'_>, number: Value, position: Value) {
        const PACKETS: usize =
            offset_of!(EntryAccount, counter) + offset_of!(CounterValue, packets);
        const BYTES: usize = offset_of!(EntryAccount, counter) + offset_of!(CounterValue, bytes);
        let accounts = self.of_record(applied, offset_of!(TableRecord, accounts));
        let size = i64::from(size32(size_of::<EntryAccount>()));
        let offset = self.b.ins().imul_imm_u(position, size);
        let account = self.b.ins().iadd(accounts, offset);
        let specialised = self.unit.options.action_specialisation;
        let after = (applied.info.has_idle_timeout || !specialised).then(|| {
            let idle = size32(offset_of!(EntryAccount, is_idle));
            let idle = self.load(types::I8, Region::State, account, idle);
            let [wake, plain, after] = self.blocks();
            self.branch(idle, wake, plain);
            self.b.set_cold_block(wake);
            self.b.switch_to_block(wake);
            let (pass, table) = (self.pass, self.constant32(applied.number()));
            self.call("count_hit", &[pass, table, number]);
            self.jump(after);
            self.begin(plain);
            after
        });
        // If the P4 program declares no direct counter for a table, nobody reads the counters of its entries.
        if applied.info.with_counters || !specialised {
            let bytes = self.load_context(types::I64, offset_of!(PassContext, ingress_bytes));
            self.increase(account, size32(PACKETS), None);
            self.increase(account, size32(BYTES), Some(bytes));
        }
        let now = self.load_context(types::I64, offset_of!(PassContext, now));
        let last_hit = size32(offset_of!(EntryAccount, last_hit));
        self.store(Region::State, now, account, last_hit);
        if let Some(after) = after {
            self.jump(after);
            self.begin(after);
        }
    }

    /// Adds `by` to a counter, or 1 if `by` is `None`.
    fn increase(&mut self, base: Value, offset: u32, by: Option<Value>) {
        let before = self.load(types::I64, Region::State, base, offset);
        let now = match by {
            Some(by) => self.b.ins().iadd(before, by),
            None => self.b.ins().iadd_imm_u(before, 1),
        };
        self.store(Region::State, now, base, offset);
    }

    /// Increments one of the table's counters.
    fn count(&mut self, applied: &Applied<'_>, counter: usize) {
        let counters = self.load_context(types::I64, offset_of!(PassContext, table_counters));
        let offset = applied.id.index() * size_of::<TableCounters>() + counter;
        self.increase(counters, size32(offset), None);
    }

    /// Gives the entry whose action runs. In a table with an action profile, the profile decides which entry this is.
    fn resolved(&mut self, applied: &Applied<'_>, entry: Value, number: Option<Value>) -> Value {
        if applied.node.profile.is_none() {
            return entry;
        }
        let action = self.load(types::I32, Region::Entry, entry, ENTRY_ACTION);
        let resolve = i64::from(RESOLVE.cast_signed());
        let is_open = self.b.ins().icmp_imm_s(IntCC::Equal, action, resolve);
        self.where_true(is_open, entry, |emit| {
            let table = emit.constant32(applied.number());
            let number = number.unwrap_or_else(|| emit.constant32(MISS));
            emit.ask("resolve", &[table, number])
        })
    }

    fn key(&mut self, info: &TableInfo, key: &[KeySource]) -> Emitted<Vec<Value>> {
        let shape = key_shape(info);
        let mut words: Vec<Option<Value>> = vec![None; shape.words()];
        for ((field, source), place) in info.key.iter().zip(key).zip(shape.fields()) {
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
            if field.kind == MatchKind::Range && field.is_signed {
                value = self.order(field, value);
            }
            self.place(&mut words, *place, value);
        }
        let words = words.into_iter();
        let words = words.map(|word| word.unwrap_or_else(|| self.constant(0)));
        Ok(words.collect())
    }

    /// Puts a value into a key's words. The caller has cut the value to its field's width.
    pub(super) fn place(
        &mut self,
        words: &mut [Option<Value>],
        place: FieldPlace,
        value: Vec<Value>,
    ) {
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

    /// Computes [`KeyField::order`] of a value. The caller has cut the value to its field's width.
    fn order(&mut self, field: &KeyField, value: Vec<Value>) -> Vec<Value> {
        let least = field.order(&Int::ZERO);
        let least = least.as_sign_words().1;
        let words = value.into_iter().enumerate();
        let words = words.map(|(at, word)| match least.get(at) {
            Some(least) if *least > 0 => {
                let least = self.b.ins().iconst(types::I64, least.cast_signed());
                self.b.ins().bxor(word, least)
            }
            _ => word,
        });
        words.collect()
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
