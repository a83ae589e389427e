//! The fields that each part of the switch may write, and the facts that follow for the beginning of a part: metadata
//! that nothing has written is zero, a header that nothing can have made valid is invalid.

use bmv2_json::Program;

use super::effect;
use super::facts::Facts;
use super::graph;
use super::model::{FieldId, Model, Role, VALID};
use super::{HashMap, HashSet};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    Parser,
    Ingress,
    Egress,
}

pub struct Written {
    by: HashMap<Stage, HashSet<FieldId>>,
    /// An unknown operation may write any field.
    anything: bool,
}

impl Written {
    pub fn new(program: &Program, model: &Model) -> Self {
        let mut written = Self {
            by: HashMap::default(),
            anything: false,
        };
        for op in program
            .parsers
            .iter()
            .flat_map(|parser| &parser.parse_states)
            .flat_map(|state| &state.parser_ops)
        {
            written.add(Stage::Parser, &effect::parser_op(model, op));
        }
        // The fields in a field list may have been kept when the packet was resubmitted or recirculated, so they may be
        // set before the parser runs.
        let kept = program.field_lists.iter().flat_map(|list| &list.elements);
        for value in kept {
            let touched = effect::reads(model, value);
            written.anything |= touched.all;
            written
                .by
                .entry(Stage::Parser)
                .or_default()
                .extend(touched.fields);
        }
        let positions = graph::action_positions(program);
        for pipeline in &program.pipelines {
            let stage = match pipeline.name.as_str() {
                "ingress" => Stage::Ingress,
                _ => Stage::Egress,
            };
            let tables = pipeline.tables.iter();
            let ids = tables.flat_map(|table| graph::table_actions(program, table));
            let called = pipeline.action_calls.iter().map(|call| call.action_id);
            for at in ids.chain(called).filter_map(|id| positions.get(&id)) {
                for primitive in &program.actions[*at].primitives {
                    written.add(stage, &effect::primitive(model, primitive));
                }
            }
        }
        for (header, field) in program
            .meter_arrays
            .iter()
            .filter_map(|meter| meter.result_target.as_ref())
        {
            if let Some(id) = model.id(header, field) {
                written.by.entry(Stage::Parser).or_default().insert(id);
            }
        }
        written
    }

    fn add(&mut self, stage: Stage, effect: &effect::Effect) {
        self.anything |= effect.writes.all;
        self.by
            .entry(stage)
            .or_default()
            .extend(&effect.writes.fields);
    }

    fn has(&self, stage: Stage, field: FieldId) -> bool {
        self.by
            .get(&stage)
            .is_some_and(|fields| fields.contains(&field))
    }

    /// Returns the facts that hold after these parts of the switch, about fields that the parts do not write.
    pub fn start(&self, model: &Model, behind: &[Stage]) -> Facts {
        let mut facts = Facts::default();
        if self.anything {
            return facts;
        }
        for (id, info) in (0..).zip(&model.fields) {
            let untouched = behind.iter().all(|stage| !self.has(*stage, id));
            let is_known = match info.role {
                Role::Local => info.is_plain(),
                // A clone made in egress has the headers that egress made valid.
                Role::Hidden => {
                    info.name == VALID
                        && model
                            .headers
                            .get(&info.header)
                            .is_some_and(|header| !header.metadata)
                        && (behind.len() == 1 || !self.has(Stage::Egress, id))
                }
                Role::Header | Role::Architecture => false,
            };
            if untouched && is_known {
                facts.set_constant(id, 0);
            }
        }
        facts
    }
}
