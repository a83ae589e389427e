//! BMv2 JSON to verified program: names become ids, and a name without an object is an error that says
//! where it is. A program that was loaded cannot fail later.

mod action;
mod arity;
mod arrays;
mod calculation;
mod declarations;
mod expression;
mod metadata;
mod parser;
mod payload;
mod pipeline;
mod table;

pub(crate) use arity::is_primitive;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use bmv2_json as json;

use super::{
    ActionId, ActionInfo, ActionProfileId, CounterId, LoadError, MeterId, PayloadSignature,
    RegisterId, TableInfo, ValueSetId,
    ir::{
        CalculationId, CoreErrors, Deparser, DigestId, DirectMeter, FieldId, FieldListId, HeaderId,
        Ir, Parser, StackId, UnionId, UnionStackId,
    },
};
use crate::program::ir::{Architecture, SourceLine, StandardMetadata};

type Load<T = ()> = Result<T, LoadError>;

/// Where the loader is, for messages, and the widths of the parameters that may be named there.
#[derive(Default)]
struct Context {
    place: String,
    param_bits: Rc<[u32]>,
}

impl Context {
    fn new(kind: &str, name: &str) -> Self {
        Self {
            place: format!("{kind} \"{name}\""),
            ..Self::default()
        }
    }

    fn error(&self, message: impl Into<String>) -> LoadError {
        LoadError {
            place: self.place.clone(),
            message: message.into(),
        }
    }

    fn fail<T>(&self, message: impl Into<String>) -> Load<T> {
        Err(self.error(message))
    }

    /// A name's meaning, or a message that says what kind of thing is missing.
    fn find<K, V>(&self, map: &HashMap<K, V>, kind: &str, name: &str) -> Load<V>
    where
        K: std::borrow::Borrow<str> + std::hash::Hash + Eq,
        V: Copy,
    {
        map.get(name)
            .copied()
            .ok_or_else(|| self.error(format!("unknown {kind} \"{name}\"")))
    }
}

/// What names and JSON ids mean.
#[derive(Default)]
struct Names<'a> {
    headers: HashMap<&'a str, HeaderId>,
    header_ids: HashMap<u32, HeaderId>,
    fields: HashMap<&'a str, HashMap<&'a str, FieldId>>,
    stacks: HashMap<&'a str, StackId>,
    unions: HashMap<&'a str, UnionId>,
    union_ids: HashMap<u32, UnionId>,
    /// Member names of each union, in order.
    union_members: HashMap<UnionId, Vec<&'a str>>,
    union_stacks: HashMap<&'a str, UnionStackId>,
    registers: HashMap<&'a str, RegisterId>,
    counters: HashMap<&'a str, CounterId>,
    meters: HashMap<&'a str, MeterId>,
    direct_meters: HashMap<&'a str, DirectMeter>,
    value_sets: HashMap<&'a str, ValueSetId>,
    action_profiles: HashMap<&'a str, ActionProfileId>,
    calculations: HashMap<&'a str, CalculationId>,
    field_lists: HashMap<u32, FieldListId>,
    digests: HashMap<u32, DigestId>,
    actions: HashMap<u32, ActionId>,
}

pub(super) struct Loader<'a> {
    json: &'a json::Program,
    names: Names<'a>,
    ir: Ir,
    tables: Vec<TableInfo>,
    actions: Vec<ActionInfo>,
    /// Registers of which a cell stands as an operand.
    operands: RefCell<BTreeSet<RegisterId>>,
    /// What the program may call, and what it does call.
    payload_externs: (&'a [PayloadSignature], RefCell<Vec<PayloadSignature>>),
}

/// The position as an id; a file with more than 2^32 objects of a kind cannot be.
fn index_u32(index: usize) -> u32 {
    u32::try_from(index).expect("a program in memory has fewer than 2^32 of anything")
}

/// Where an object is in the source, if the JSON says so.
fn source_line(info: &Option<json::SourceInfo>) -> Option<SourceLine> {
    info.as_ref().map(|info| SourceLine {
        file: info.filename.as_str().into(),
        line: info.line,
    })
}

/// Loads a program.
pub(super) fn load(
    json: &json::Program,
    architecture: &'static Architecture,
    externs: &[PayloadSignature],
) -> Load<(Ir, Vec<TableInfo>, Vec<ActionInfo>)> {
    if json.meta.version[0] != json::FORMAT_VERSION[0] {
        return Err(LoadError {
            place: "__meta__".into(),
            message: format!(
                "expected format version {}.x, found {}.{}",
                json::FORMAT_VERSION[0],
                json.meta.version[0],
                json.meta.version[1]
            ),
        });
    }
    let mut loader = Loader {
        json,
        names: Names::default(),
        ir: empty_ir(architecture),
        tables: Vec::new(),
        actions: Vec::new(),
        operands: RefCell::default(),
        payload_externs: (externs, RefCell::default()),
    };
    loader.header_types_and_instances()?;
    loader.stacks_and_unions()?;
    loader.standard_metadata()?;
    loader.errors();
    loader.arrays()?;
    loader.meters()?;
    loader.value_sets()?;
    loader.calculations()?;
    loader.field_lists()?;
    loader.action_ids()?;
    loader.digests()?;
    loader.action_bodies()?;
    loader.parser()?;
    loader.deparser()?;
    loader.checksums()?;
    loader.action_profiles()?;
    loader.pipelines()?;
    loader.payload_externs()?;
    for register in loader.operands.take() {
        loader.ir.registers[register.index()].is_operand = true;
    }
    Ok((loader.ir, loader.tables, loader.actions))
}

fn empty_ir(architecture: &'static Architecture) -> Ir {
    Ir {
        architecture,
        fields: Vec::new(),
        headers: Vec::new(),
        stacks: Vec::new(),
        unions: Vec::new(),
        union_stacks: Vec::new(),
        metadata: StandardMetadata::default(),
        errors: Vec::new(),
        core_errors: CoreErrors {
            no_error: 0,
            packet_too_short: 1,
            stack_out_of_bounds: 3,
            header_too_short: 4,
            parser_timeout: 5,
            parser_invalid_argument: 6,
        },
        parser: Parser::default(),
        deparser: Deparser::default(),
        actions: Vec::new(),
        table_nodes: Vec::new(),
        table_inits: Vec::new(),
        nodes: Vec::new(),
        ingress: None,
        egress: None,
        calculations: Vec::new(),
        checksums: Vec::new(),
        field_lists: Vec::new(),
        digests: Vec::new(),
        registers: Vec::new(),
        counters: Vec::new(),
        meters: Vec::new(),
        value_sets: Vec::new(),
        action_profiles: Vec::new(),
        payload_externs: Vec::new(),
    }
}
