//! Removes objects that nothing names: metadata fields, headers, stacks, header types, calculations, field lists,
//! actions that no control plane sees. Then renumbers the rest.
//!
//! The pass is sound because nothing outside the JSON file refers to the names and ids of these objects. Objects that a
//! control plane can name (tables, their actions, counters, meters, registers, profiles, digests, value sets) stay, and
//! so does every field of a header, since the header's length counts. A header that nothing can make valid is never
//! sent, so the deparser need not list it. The scratch header `scalars` stays even if it is empty, as targets expect
//! it.

use bmv2_json::{Field, FieldWidth, Program, Value};

use super::effect::{self, Touch};
use super::graph::{self, Visible};
use super::model::Model;
use super::number;
use super::walk;
use super::{HashMap, HashSet};

/// The compiler's own header of temporaries and metadata.
const SCALARS: &str = "scalars";
const PADDING: &str = "_padding";

pub fn run(program: &mut Program, visible: &Visible) -> bool {
    let before = look(program);
    actions(program, visible);
    field_lists(program);
    calculations(program);
    never_sent(program);
    headers(program);
    fields(program);
    header_types(program);
    renumber(program);
    before != look(program)
}

/// Returns what the pass can change in a program, so that `run` can compare it before and after the pass. Leaves out
/// the primitives, which are most of the program.
fn look(program: &Program) -> impl PartialEq + use<> {
    let actions = program.actions.iter();
    let actions: Vec<_> = actions
        .map(|it| (it.id, it.primitives.is_empty()))
        .collect();
    let nodes = program.pipelines.iter().map(|it| {
        let tables: Vec<_> = it.tables.iter().map(|it| it.id).collect();
        let conditionals: Vec<_> = it.conditionals.iter().map(|it| it.id).collect();
        let calls: Vec<_> = it.action_calls.iter().map(|it| it.id).collect();
        (tables, conditionals, calls)
    });
    let states = program.parsers.iter().flat_map(|it| &it.parse_states);
    let orders = program.deparsers.iter().map(|it| it.order.clone());
    (
        actions,
        nodes.collect::<Vec<_>>(),
        states.map(|it| it.id).collect::<Vec<_>>(),
        orders.collect::<Vec<_>>(),
        program.field_lists.len(),
        program.calculations.clone(),
        (program.headers.clone(), program.header_types.clone()),
        program.header_stacks.clone(),
    )
}

fn actions(program: &mut Program, visible: &Visible) {
    let mut used: HashSet<u32> = HashSet::default();
    for pipeline in &program.pipelines {
        for table in &pipeline.tables {
            used.extend(graph::table_actions(program, table));
            used.extend(table.default_entry.iter().map(|entry| entry.action_id));
            let entries = table.entries.iter().flatten();
            used.extend(entries.map(|entry| entry.action_entry.action_id));
        }
        used.extend(pipeline.action_calls.iter().map(|call| call.action_id));
    }
    program.actions.retain(|action| {
        let seen = visible.actions.as_ref();
        used.contains(&action.id) || seen.is_some_and(|seen| seen.contains(&action.name))
    });
    // Nothing runs these JSON actions: controls that call the actions have copies of the bodies. They stay because the
    // P4Info names them. Their bodies are cleared so that each calculation occurs once: control planes identify custom
    // hashes by the order of their names.
    let idle = program.actions.iter_mut();
    for action in idle.filter(|action| !used.contains(&action.id)) {
        action.primitives.clear();
    }
}

fn all_primitives(program: &Program) -> impl Iterator<Item = &bmv2_json::Primitive> {
    let bodies = program.actions.iter().flat_map(|it| &it.primitives);
    let parsers = program.parsers.iter().flat_map(|it| &it.parse_states);
    let ops = parsers.flat_map(|state| &state.parser_ops);
    let inner = ops
        .flat_map(|op| &op.parameters)
        .filter_map(|parameter| match parameter {
            bmv2_json::ParserOpParameter::Primitive(primitive) => Some(primitive),
            _ => None,
        });
    let deparsers = program.deparsers.iter().flat_map(|it| &it.primitives);
    bodies.chain(inner).chain(deparsers)
}

fn field_lists(program: &mut Program) {
    let mut used = HashSet::default();
    for primitive in all_primitives(program) {
        let list = match primitive.op.as_str() {
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => {
                primitive.parameters.get(1)
            }
            "resubmit" | "recirculate" => primitive.parameters.first(),
            _ => continue,
        };
        match list.map(number::constant) {
            Some(Some(id)) => drop(used.insert(id)),
            // The list's id is known only at run time, so every list may be used.
            Some(None) => return,
            None => {}
        }
    }
    program
        .field_lists
        .retain(|list| used.contains(&list.id.into()));
}

fn calculations(program: &mut Program) {
    let mut used: HashSet<String> = program
        .checksums
        .iter()
        .map(|checksum| checksum.calculation.clone())
        .collect();
    walk::values(program, &mut |value| {
        if let Value::Calculation(name) = value {
            used.insert(name.clone());
        }
    });
    program
        .calculations
        .retain(|calculation| used.contains(&calculation.name));
    rename_calculations(program);
}

/// Renames the calculations as if the removed ones had never existed: control planes that set the parameters of custom
/// hashes identify the hashes by the order of their names.
fn rename_calculations(program: &mut Program) {
    let mut names: HashMap<String, String> = HashMap::default();
    for (place, calculation) in program.calculations.iter_mut().enumerate() {
        let name = match place.checked_sub(1) {
            None => "calc".to_owned(),
            Some(number) => format!("calc_{number}"),
        };
        names.insert(std::mem::replace(&mut calculation.name, name.clone()), name);
    }
    for checksum in &mut program.checksums {
        if let Some(name) = names.get(&checksum.calculation) {
            checksum.calculation.clone_from(name);
        }
    }
    let actions = program.actions.iter_mut();
    let bodies = actions.flat_map(|action| &mut action.primitives);
    let deparsers = program.deparsers.iter_mut();
    let deparsed = deparsers.flat_map(|deparser| &mut deparser.primitives);
    let states = program
        .parsers
        .iter_mut()
        .flat_map(|it| &mut it.parse_states);
    let ops = states.flat_map(|state| &mut state.parser_ops);
    let parsed = ops
        .flat_map(|op| &mut op.parameters)
        .filter_map(|parameter| match parameter {
            bmv2_json::ParserOpParameter::Primitive(primitive) => Some(primitive),
            _ => None,
        });
    for primitive in bodies.chain(deparsed).chain(parsed) {
        for parameter in &mut primitive.parameters {
            if let Value::Calculation(name) = parameter
                && let Some(new) = names.get(name)
            {
                name.clone_from(new);
            }
        }
    }
}

/// Removes headers that are never valid from the deparser's order.
fn never_sent(program: &mut Program) {
    let model = Model::new(program);
    let mut written = Touch::default();
    let states = program.parsers.iter().flat_map(|it| &it.parse_states);
    for op in states.flat_map(|state| &state.parser_ops) {
        let effect = effect::parser_op(&model, op);
        written.all |= effect.writes.all;
        written.fields.extend(effect.writes.fields);
    }
    for primitive in all_primitives(program) {
        let effect = effect::primitive(&model, primitive);
        written.all |= effect.writes.all;
        written.fields.extend(effect.writes.fields);
    }
    if written.all {
        return;
    }
    let written: HashSet<u32> = written.fields.into_iter().collect();
    for deparser in &mut program.deparsers {
        deparser.order.retain(|name| {
            let header = model.headers.get(name);
            header.is_none_or(|header| header.metadata || written.contains(&header.valid))
        });
    }
}

fn named(program: &Program) -> HashSet<String> {
    let mut names: HashSet<String> = HashSet::default();
    walk::values(program, &mut |value| match value {
        Value::Field((name, _))
        | Value::Header(name)
        | Value::Regular(name)
        | Value::HeaderStack(name)
        | Value::HeaderUnion(name)
        | Value::HeaderUnionStack(name)
        | Value::StackField((name, _))
        | Value::UnionStackField((name, _, _))
        | Value::Stack(name)
        | Value::UnionStack((name, _))
        | Value::Payload(Some(name)) => {
            names.insert(name.clone());
        }
        _ => {}
    });
    names.extend(walk::bare_fields(program).map(|(header, _)| header.clone()));
    names.extend(program.deparsers.iter().flat_map(|it| it.order.clone()));
    names
}

fn headers(program: &mut Program) {
    let names = named(program);
    let model = Model::new(program);
    let by_id: HashMap<u32, String> = program
        .headers
        .iter()
        .map(|header| (header.id, header.name.clone()))
        .collect();
    let has_name = |id: &u32| by_id.get(id).is_some_and(|name| names.contains(name));
    program
        .header_stacks
        .retain(|stack| names.contains(&stack.name) || stack.header_ids.iter().any(has_name));
    let stacks = program.header_stacks.iter().map(|stack| &stack.header_ids);
    let unions = program.header_unions.iter().map(|union| &union.header_ids);
    let members: HashSet<u32> = stacks.chain(unions).flatten().copied().collect();
    program.headers.retain(|header| {
        let own = model.headers.get(&header.name);
        let target = own.is_some_and(|info| {
            header.metadata
                && info
                    .fields
                    .iter()
                    .any(|id| !model.is_local(*id) && *id != info.valid)
        });
        target
            || header.name == SCALARS
            || names.contains(&header.name)
            || members.contains(&header.id)
    });
}

/// Removes metadata fields that nothing names, and pads the remaining fields again.
fn fields(program: &mut Program) {
    let model = Model::new(program);
    let mut used: HashSet<(String, String)> = HashSet::default();
    walk::values(program, &mut |value| {
        if let Value::Field(field) = value {
            used.insert(field.clone());
        }
    });
    used.extend(walk::bare_fields(program).cloned());
    for header_type in &mut program.header_types {
        let mut instances = program
            .headers
            .iter()
            .filter(|header| header.header_type == header_type.name);
        let (Some(header), None) = (instances.next(), instances.next()) else {
            continue;
        };
        let local = |name: &str| {
            let id = model.id(&header.name, name);
            id.is_some_and(|id| model.is_local(id))
        };
        if !header.metadata || !header_type.fields.iter().all(|field| local(&field.name)) {
            continue;
        }
        header_type
            .fields
            .retain(|field| used.contains(&(header.name.clone(), field.name.clone())));
        pad(&mut header_type.fields);
    }
}

fn pad(fields: &mut Vec<Field>) {
    let bits: u32 = fields
        .iter()
        .map(|field| match field.width {
            FieldWidth::Fixed(bits) => bits,
            FieldWidth::Variable => 0,
        })
        .sum();
    if !bits.is_multiple_of(8) {
        fields.push(Field {
            name: format!("{PADDING}_0"),
            width: FieldWidth::Fixed(8 - bits % 8),
            signed: false,
        });
    }
}

fn header_types(program: &mut Program) {
    let mut used: HashSet<String> = HashSet::default();
    used.extend(program.headers.iter().map(|it| it.header_type.clone()));
    used.extend(
        program
            .header_stacks
            .iter()
            .map(|it| it.header_type.clone()),
    );
    let unions = program.header_union_types.iter();
    used.extend(unions.flat_map(|ty| ty.headers.iter().map(|(_, member)| member.clone())));
    program.header_types.retain(|ty| used.contains(&ty.name));
}

/// Renumbers ids from 0 without gaps, as the switches expect.
fn renumber(program: &mut Program) {
    let mut headers: HashMap<u32, u32> = HashMap::default();
    for (new, header) in (0..).zip(&mut program.headers) {
        headers.insert(header.id, new);
        header.id = new;
    }
    let stacks = program
        .header_stacks
        .iter_mut()
        .map(|stack| &mut stack.header_ids);
    let unions = program
        .header_unions
        .iter_mut()
        .map(|union| &mut union.header_ids);
    for id in stacks.chain(unions).flatten() {
        *id = headers.get(id).copied().unwrap_or(*id);
    }
    let mut actions: HashMap<u32, u32> = HashMap::default();
    for (new, action) in (0..).zip(&mut program.actions) {
        actions.insert(action.id, new);
        action.id = new;
    }
    let mut to_new = |id: &mut u32| *id = actions.get(id).copied().unwrap_or(*id);
    for pipeline in &mut program.pipelines {
        for table in &mut pipeline.tables {
            table.action_ids.iter_mut().for_each(&mut to_new);
            if let Some(default) = &mut table.default_entry {
                to_new(&mut default.action_id);
            }
            let entries = table.entries.iter_mut().flatten();
            entries.for_each(|entry| to_new(&mut entry.action_entry.action_id));
        }
        pipeline
            .action_calls
            .iter_mut()
            .for_each(|call| to_new(&mut call.action_id));
    }
    renumber_plain(program);
}

/// Renumbers ids that nothing refers to.
fn renumber_plain(program: &mut Program) {
    fn count<'a>(ids: impl Iterator<Item = &'a mut u32>) {
        ids.zip(0..).for_each(|(id, new)| *id = new);
    }
    count(program.header_types.iter_mut().map(|it| &mut it.id));
    count(program.header_stacks.iter_mut().map(|it| &mut it.id));
    count(program.calculations.iter_mut().map(|it| &mut it.id));
    let tables = program.pipelines.iter_mut().flat_map(|it| &mut it.tables);
    count(tables.map(|it| &mut it.id));
    let ifs = program.pipelines.iter_mut();
    count(ifs.flat_map(|it| &mut it.conditionals).map(|it| &mut it.id));
    let calls = program.pipelines.iter_mut();
    count(
        calls
            .flat_map(|it| &mut it.action_calls)
            .map(|it| &mut it.id),
    );
    let states = program
        .parsers
        .iter_mut()
        .flat_map(|it| &mut it.parse_states);
    count(states.map(|it| &mut it.id));
}
