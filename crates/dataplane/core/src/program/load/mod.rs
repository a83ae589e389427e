//! Converts BMv2 JSON to a verified program. Names become ids; the error for an unknown name says which object refers
//! to the name. A loaded program cannot fail later.

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

use std::{
    borrow::Borrow,
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    hash::Hash,
    rc::Rc,
};

use bmv2_json as json;

use super::{
    ActionId, ActionInfo, ActionProfileId, CounterId, LoadError, MeterId, ParamInfo,
    PayloadSignature, RegisterId, TableInfo, ValueSetId,
    ir::{
        Architecture, CalculationId, CoreErrors, DigestId, DirectMeter, Expr, FieldId, FieldListId,
        HeaderId, Ir, ParserOp, Primitive, Secrets, SourceLine, StackId, UnionId, UnionStackId,
    },
};

type Load<T = ()> = Result<T, LoadError>;

/// A position for error messages, and the widths of the action parameters visible there.
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

    fn within(&self, part: &str) -> Self {
        Self {
            place: format!("{}: {part}", self.place),
            param_bits: self.param_bits.clone(),
        }
    }

    fn find_id<V: Copy>(&self, map: &HashMap<u32, V>, kind: &str, id: u32) -> Load<V> {
        let meaning = map.get(&id).copied();
        meaning.ok_or_else(|| self.error(format!("unknown {kind} id {id}")))
    }

    /// Binds a new name or id; refuses a name or id that is already bound.
    fn declare<K: Hash + Eq, V>(&self, names: &mut HashMap<K, V>, name: K, meaning: V) -> Load {
        match names.insert(name, meaning) {
            Some(_) => self.fail("declared twice"),
            None => Ok(()),
        }
    }

    /// Looks up a name; the error names the kind of object that is missing.
    fn find<K, V>(&self, map: &HashMap<K, V>, kind: &str, name: &str) -> Load<V>
    where
        K: Borrow<str> + Hash + Eq,
        V: Copy,
    {
        let meaning = map.get(name).copied();
        meaning.ok_or_else(|| self.error(format!("unknown {kind} \"{name}\"")))
    }
}

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
    /// Registers with a cell used as an operand.
    operands: RefCell<BTreeSet<RegisterId>>,
    /// The payload externs that the program may call, and those that it calls.
    payload_externs: (&'a [PayloadSignature], RefCell<Vec<PayloadSignature>>),
}

/// The loader, with the position of the value that it parses.
#[derive(Clone, Copy)]
struct At<'l, 'a> {
    loader: &'l Loader<'a>,
    context: &'l Context,
}

impl At<'_, '_> {
    fn error(&self, message: impl Into<String>) -> LoadError {
        self.context.error(message)
    }

    fn fail<T>(&self, message: impl Into<String>) -> Load<T> {
        self.context.fail(message)
    }

    fn find<V: Copy>(&self, names: &HashMap<&str, V>, kind: &str, name: &str) -> Load<V> {
        self.context.find(names, kind, name)
    }
}

impl<'a> Loader<'a> {
    fn at<'l>(&'l self, context: &'l Context) -> At<'l, 'a> {
        At {
            loader: self,
            context,
        }
    }
}

/// Converts a position to an id.
fn index_u32(index: usize) -> u32 {
    u32::try_from(index).expect("a program in memory has fewer than 2^32 of anything")
}

fn source_line(info: &Option<json::SourceInfo>) -> Option<SourceLine> {
    info.as_ref().map(|info| SourceLine {
        file: info.filename.as_str().into(),
        line: info.line,
    })
}

pub(super) fn load(
    json: &json::Program,
    architecture: &'static Architecture,
    externs: &[PayloadSignature],
) -> Load<(Ir, Vec<TableInfo>, Vec<ActionInfo>)> {
    if json.meta.version[0] != json::FORMAT_VERSION[0] {
        let ([expected, _], [major, minor]) = (json::FORMAT_VERSION, json.meta.version);
        return Err(LoadError {
            place: "__meta__".into(),
            message: format!("expected format version {expected}.x, found {major}.{minor}"),
        });
    }
    if let Some(message) = json::limits::Memory::of(json).excess() {
        return Err(LoadError {
            place: "program".into(),
            message,
        });
    }
    let mut loader = Loader {
        json,
        names: Names::default(),
        ir: Ir {
            architecture,
            errors: json.errors.clone(),
            core_errors: core_errors(&json.errors),
            ..Ir::default()
        },
        tables: Vec::new(),
        actions: Vec::new(),
        operands: RefCell::default(),
        payload_externs: (externs, RefCell::default()),
    };
    loader.header_types_and_instances()?;
    loader.stacks_and_unions()?;
    loader.standard_metadata()?;
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
    keep_secrets(&mut loader.ir, &loader.actions);
    Ok((loader.ir, loader.tables, loader.actions))
}

/// Finds the secret fields, and removes secret arguments from all log messages.
fn keep_secrets(ir: &mut Ir, actions: &[ActionInfo]) {
    let params: Vec<&[ParamInfo]> = actions.iter().map(|action| &*action.params).collect();
    let secrets = Secrets::of(ir, &params);
    let mut of_actions = std::mem::take(&mut ir.actions);
    for (action, params) in of_actions.iter_mut().zip(params) {
        for primitive in &mut action.primitives {
            hide_arguments(primitive, |arg| secrets.are_in(ir, params, arg));
        }
    }
    ir.actions = of_actions;
    let mut of_deparser = std::mem::take(&mut ir.deparser.primitives);
    for primitive in &mut of_deparser {
        hide_arguments(primitive, |arg| secrets.are_in(ir, &[], arg));
    }
    ir.deparser.primitives = of_deparser;
    let mut states = std::mem::take(&mut ir.parser.states);
    for op in states.iter_mut().flat_map(|state| &mut state.ops) {
        if let ParserOp::Primitive(primitive) = op {
            hide_arguments(primitive, |arg| secrets.are_in(ir, &[], arg));
        }
    }
    ir.parser.states = states;
    ir.secrets = secrets;
}

fn hide_arguments(primitive: &mut Primitive, is_secret: impl Fn(&Expr) -> bool) {
    if let Primitive::Log { args, .. } = primitive {
        let secret = args.iter_mut();
        let secret = secret.filter(|arg| arg.as_ref().is_some_and(&is_secret));
        secret.for_each(|arg| *arg = None);
    }
}

/// The program's numbers for core.p4's errors. An error that the program does not declare has a default number.
fn core_errors(errors: &[(String, u32)]) -> CoreErrors {
    let code = |name: &str, otherwise: u32| {
        let declared = errors.iter().find(|(other, _)| other == name);
        declared.map_or(otherwise, |(_, code)| *code)
    };
    CoreErrors {
        no_error: code("NoError", 0),
        packet_too_short: code("PacketTooShort", 1),
        stack_out_of_bounds: code("StackOutOfBounds", 3),
        header_too_short: code("HeaderTooShort", 4),
        parser_timeout: code("ParserTimeout", 5),
        parser_invalid_argument: code("ParserInvalidArgument", 6),
    }
}
