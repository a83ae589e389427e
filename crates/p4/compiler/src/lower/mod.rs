//! Lowers the checked program to the constructs of BMv2's JSON: all calls are inlined, each variable has one place
//! where it is stored, and control flow becomes tables and conditionals.
//!
//! The walk begins at `main`. A sub-control's parameters share their arguments' storage if this makes no difference to
//! the program; otherwise the arguments are copied in and out. Code that simple_switch cannot express is reported as
//! E06xx.

mod action;
mod assign;
mod bind;
mod calculation;
mod call;
mod checksum;
mod control;
mod copy;
mod deparser;
mod entries;
mod expression;
mod extern_object;
mod externs;
mod field_list;
mod headers;
mod link;
mod loops;
mod order;
mod parser;
mod parser_branch;
pub mod place;
mod select;
mod statement;
mod table;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use bmv2_json::{Primitive, SourceInfo, Value};

use crate::Options;
use crate::diagnostic::Sink;
use crate::ir::{self, Annotation, Expr, ExprKind, InstanceKind, Program, VarId};
use crate::limits;
use crate::source::{SourceMap, Span};
use crate::types::Type;
use control::Node;
use copy::{CopyOut, PendingBlock};
pub use expression::has_call;
pub use extern_object::ExternObject;
use field_list::FieldLists;
use order::{DeclaredAt, Standing};
use place::{Place, parameter, plain_hex};

/// A label that is never set: jumps to it go to the end of the code.
const END: usize = usize::MAX;

/// The meaning of a variable or parameter while code is lowered.
#[derive(Clone, Debug)]
pub enum Binding {
    Place(Place),
    /// Known at compile time.
    Constant(Expr),
    /// An `in` parameter that is evaluated where it is used.
    Value(Value),
    Object(Object),
}

/// An object with methods or an `apply`, without a value.
#[derive(Clone, Debug)]
pub enum Object {
    Packet,
    /// Index into [`Lower::externs`].
    Extern(usize),
    /// An instance of a control or parser: its declaration, its constructor's arguments, its path.
    Block(Rc<BlockInstance>),
}

#[derive(Debug)]
pub struct BlockInstance {
    pub kind: InstanceKind,
    pub arguments: Vec<(VarId, Binding)>,
    pub path: String,
    /// Where the instance is declared, for P4Info's order.
    pub order: DeclaredAt,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    Parser,
    Verify,
    Ingress,
    Egress,
    Compute,
    Deparser,
}

/// Primitives with jumps among them: the body of an action, for example.
#[derive(Default, Debug)]
pub struct Body {
    pub primitives: Vec<Primitive>,
    jumps: Vec<(usize, usize)>,
    labels: Vec<Option<usize>>,
}

/// A table as the control plane sees it.
pub struct TableInfo {
    pub table: usize,
    pub name: String,
    pub size: u64,
    /// The name of each action, and its annotations in the table's list of actions.
    pub actions: Vec<(String, Vec<Annotation>)>,
    pub default: Option<(String, Vec<(u32, Expr)>)>,
    pub direct_counter: Option<usize>,
    pub direct_meter: Option<usize>,
    pub profile: Option<usize>,
    pub supports_timeout: bool,
    pub order: DeclaredAt,
}

/// An action as the control plane sees it.
pub struct ActionInfo {
    pub name: String,
    pub action: usize,
    pub order: DeclaredAt,
}

/// The objects that P4Info describes.
#[derive(Default)]
pub struct Resources {
    pub tables: Vec<TableInfo>,
    pub actions: Vec<ActionInfo>,
    pub value_sets: Vec<(String, usize, u64)>,
    pub digests: Vec<(String, Type)>,
    pub externs: Vec<ExternObject>,
    /// Whether a control calls an extern function; if so, P4Info describes types.
    pub calls_extern_functions: bool,
}

pub struct Lower<'a> {
    pub program: &'a Program,
    pub sources: &'a SourceMap,
    pub sink: &'a mut Sink,
    pub json: bmv2_json::Program,
    pub env: HashMap<VarId, Binding>,
    pub instances: HashMap<usize, Object>,
    pub externs: Vec<ExternObject>,
    pub resources: Resources,
    names: Names,
    fields: Fields,
    code: StraightCode,
    states: States,
    pipeline: Pipeline,
    copy_outs: CopyOuts,
    blocks: Blocks,
    stage: Stage,
    /// Depth of actions that are lowered inside one another.
    pub action_depth: usize,
    path: String,
    standing: Standing,
    actions_done: HashMap<String, u32>,
    field_lists: FieldLists,
    emit_externs: bool,
    depth: usize,
    statements_done: usize,
}

/// Names of the JSON's objects.
#[derive(Default)]
struct Names {
    taken: HashSet<String>,
    /// The last number appended to each base name; lower numbers are taken.
    last_numbers: HashMap<String, u32>,
}

/// Header types, and the metadata's fields.
#[derive(Default)]
struct Fields {
    header_types: HashMap<usize, String>,
    scalars: Vec<bmv2_json::Field>,
    n_fields: usize,
    is_too_many: bool,
}

/// Code that becomes primitives with jumps: the bodies of actions, and statements that need no nodes.
struct StraightCode {
    body: Body,
    /// Whether an `if` becomes jumps instead of nodes.
    is_on: bool,
    /// The label of `return`, and where its value goes.
    return_to: Option<(usize, Option<Place>)>,
    /// The label of `exit`.
    exit_to: usize,
    /// For each loop: the label after it, and the label of its next iteration.
    loops: Vec<(usize, usize)>,
}

/// The states of a parser.
#[derive(Default)]
struct States {
    done: Vec<bmv2_json::ParseState>,
    current: String,
    /// The operations of the current state.
    ops: Vec<bmv2_json::ParserOp>,
    /// For each loop: the state after it, and the state of its next iteration.
    loops: Vec<(String, String)>,
}

/// Tables and conditionals of a control.
#[derive(Default)]
struct Pipeline {
    nodes: Vec<Node>,
    /// Each table's position and its declaration, by name.
    table_index: HashMap<String, (usize, usize)>,
    tables: Vec<bmv2_json::Table>,
    tables_linked: Vec<bool>,
    conditionals: Vec<bmv2_json::Conditional>,
    action_profiles: Vec<bmv2_json::ActionProfile>,
    key_places: HashMap<(String, usize), Place>,
}

/// The copy-outs (writes from `out` and `inout` parameters to their arguments) that are due for the calls around the
/// code that is being lowered, and for the controls around those calls.
#[derive(Default)]
struct CopyOuts {
    of_calls: Vec<Vec<CopyOut>>,
    of_blocks: Vec<PendingBlock>,
    /// Set if the copy-outs of an `exit` cannot be determined, because several applications of a control share the
    /// code.
    exit_is_unknown: bool,
}

/// Instances of parsers and controls.
#[derive(Default)]
struct Blocks {
    storage: HashMap<String, HashMap<VarId, Binding>>,
    instances: HashMap<String, Vec<(usize, Object)>>,
    repeated: HashSet<usize>,
    next_holder: usize,
}

/// Lowers the program. The JSON is complete only if no error was reported.
pub fn lower(
    program: &Program,
    sources: &SourceMap,
    path: &str,
    options: &Options,
    sink: &mut Sink,
) -> Option<(bmv2_json::Program, Resources)> {
    let Some(main) = program.main else {
        sink.error("E0507", Span::default(), "the program has no `main`")
            .help("end it with `V1Switch(...) main;`");
        return None;
    };
    let mut lower = Lower {
        program,
        sources,
        sink,
        json: bmv2_json::Program::default(),
        env: HashMap::new(),
        instances: HashMap::new(),
        externs: Vec::new(),
        resources: Resources::default(),
        names: Names::default(),
        fields: Fields::default(),
        code: StraightCode {
            body: Body::default(),
            is_on: false,
            return_to: None,
            exit_to: END,
            loops: Vec::new(),
        },
        states: States::default(),
        pipeline: Pipeline::default(),
        copy_outs: CopyOuts::default(),
        blocks: Blocks {
            next_holder: program.vars.len(),
            ..Blocks::default()
        },
        stage: Stage::Parser,
        action_depth: 0,
        path: String::new(),
        standing: Standing::default(),
        actions_done: HashMap::new(),
        field_lists: FieldLists::default(),
        emit_externs: options.emit_externs,
        depth: 0,
        statements_done: 0,
    };
    lower.json.program = Some(path.to_owned());
    lower.json.meta.compiler =
        Some(concat!("reprise p4-compiler ", env!("CARGO_PKG_VERSION")).to_owned());
    lower.run(main);
    let Lower {
        json,
        mut resources,
        externs,
        ..
    } = lower;
    resources.externs = externs;
    resources.sort(program);
    Some((json, resources))
}

impl Lower<'_> {
    fn run(&mut self, main: usize) {
        let instance = &self.program.instances[main];
        let InstanceKind::Package(package, _) = &instance.kind else {
            self.sink
                .error("E0507", instance.span, "`main` is not a package");
            return;
        };
        if &*self.program.package_names[*package] != "V1Switch" || instance.arguments.len() != 6 {
            let message = format!(
                "the package {} is not known to this compiler",
                self.program.package_names[*package]
            );
            self.sink
                .error("E0602", instance.span, message)
                .help("this back end makes programs for `V1Switch` of v1model.p4");
            return;
        }
        for id in &self.program.globals {
            if *id != main {
                self.instantiate_named(*id, "");
            }
        }
        let blocks: Vec<Option<Rc<BlockInstance>>> = instance
            .arguments
            .iter()
            .map(|argument| self.architecture_block(argument.as_ref()))
            .collect();
        let [
            Some(parser),
            Some(verify),
            Some(ingress),
            Some(egress),
            Some(compute),
            Some(deparser),
        ] = blocks.as_slice()
        else {
            return;
        };
        let places = self.architecture_places(parser);
        self.lower_parser(parser, &places);
        self.lower_checksums(verify, &places, Stage::Verify);
        self.lower_pipeline(ingress, &places, Stage::Ingress);
        self.lower_pipeline(egress, &places, Stage::Egress);
        self.lower_checksums(compute, &places, Stage::Compute);
        self.lower_deparser(deparser, &places);
        self.check_direct_meters();
        self.finish_headers();
        self.check_memory();
    }

    /// Rejects a program that needs more memory than a switch gives it.
    fn check_memory(&mut self) {
        let Some(message) = bmv2_json::limits::Memory::of(&self.json).excess() else {
            return;
        };
        if self.fields.is_too_many {
            return;
        }
        let largest = self.externs.iter().max_by_key(|object| object.size);
        let arrays = largest.filter(|object| object.size > 0);
        let span = arrays.map_or(Span::default(), |object| object.span);
        self.sink
            .error("E0618", span, message)
            .help("switches refuse programs that need more: make arrays, stacks or fields smaller");
    }

    /// Rejects an operand, condition or key that is nested too deeply for the switches.
    pub fn check_depth(&mut self, value: &Value, span: Span) {
        if place::depth(value) > limits::EXPRESSION_DEPTH_MAX {
            let message = format!(
                "this becomes operations that are nested more than {} levels deep",
                limits::EXPRESSION_DEPTH_MAX
            );
            self.sink
                .error("E0204", span, message)
                .help("split it with a variable");
        }
    }

    fn architecture_block(&mut self, argument: Option<&Expr>) -> Option<Rc<BlockInstance>> {
        let argument = argument?;
        match &argument.kind {
            ExprKind::Construct(instance) => {
                let name = match instance.kind {
                    InstanceKind::Control(id) => self.program.controls[id].name.clone(),
                    InstanceKind::Parser(id) => self.program.parsers[id].name.clone(),
                    _ => return None,
                };
                match self.instantiate(instance, &name, "") {
                    Object::Block(block) => Some(block),
                    _ => None,
                }
            }
            ExprKind::Instance(id) => match self.instances.get(id) {
                Some(Object::Block(block)) => Some(block.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn instantiate_named(&mut self, id: usize, path: &str) {
        let instance = &self.program.instances[id];
        let name =
            ir::name_annotation(&instance.annotations).unwrap_or_else(|| instance.name.to_string());
        let object = self.instantiate(instance, &name, path);
        self.instances.insert(id, object);
    }

    /// Creates an instance, with its constructor's arguments evaluated.
    pub fn instantiate(&mut self, instance: &ir::Instance, name: &str, path: &str) -> Object {
        let full = qualify(path, name);
        let parameters: &[VarId] = match &instance.kind {
            InstanceKind::Control(id) => &self.program.controls[*id].constructor,
            InstanceKind::Parser(id) => &self.program.parsers[*id].constructor,
            InstanceKind::Extern(id, types) => {
                return Object::Extern(self.extern_object(instance, *id, types, full));
            }
            InstanceKind::Package(..) => return Object::Packet,
        };
        let mut arguments = Vec::new();
        for (parameter, argument) in parameters.iter().zip(&instance.arguments) {
            if let Some(argument) = argument {
                arguments.push((*parameter, self.constructor_argument(argument, &full)));
            }
        }
        Object::Block(Rc::new(BlockInstance {
            kind: instance.kind.clone(),
            arguments,
            path: full,
            order: self.standing.order.clone(),
        }))
    }

    fn constructor_argument(&mut self, argument: &Expr, path: &str) -> Binding {
        match &argument.kind {
            ExprKind::Construct(inner) => {
                Binding::Object(self.instantiate(inner, "argument", path))
            }
            ExprKind::Instance(id) => self
                .instances
                .get(id)
                .map_or(Binding::Object(Object::Packet), |object| {
                    Binding::Object(object.clone())
                }),
            ExprKind::Var(id) if matches!(self.env.get(id), Some(Binding::Object(_))) => self
                .env
                .get(id)
                .cloned()
                .unwrap_or(Binding::Object(Object::Packet)),
            _ => Binding::Constant(self.resolve(argument)),
        }
    }

    pub fn object(&mut self, expr: &Expr) -> Option<Object> {
        match &expr.kind {
            ExprKind::Instance(id) => self.instances.get(id).cloned(),
            ExprKind::Var(id) => match self.env.get(id) {
                Some(Binding::Object(object)) => Some(object.clone()),
                _ => None,
            },
            ExprKind::Construct(instance) => {
                let name = match &instance.kind {
                    InstanceKind::Control(id) => self.program.controls[*id].name.clone(),
                    InstanceKind::Parser(id) => self.program.parsers[*id].name.clone(),
                    InstanceKind::Extern(id, _) => self.program.extern_names[*id].clone(),
                    _ => return None,
                };
                let path = self.path.clone();
                let unique = self.fresh(&qualify(&path, &name));
                let behind = self.behind_declarations();
                let outer = std::mem::replace(&mut self.standing.order, behind);
                let object = self.instantiate(instance, &format!(".{unique}"), "");
                self.standing.order = outer;
                Some(object)
            }
            _ => None,
        }
    }

    /// Returns an expression that stands for this place: a variable that has no name in the source.
    pub fn hold(&mut self, place: Place, ty: Type, span: Span) -> Expr {
        let id = self.blocks.next_holder;
        self.blocks.next_holder += 1;
        self.env.insert(id, Binding::Place(place));
        Expr {
            kind: ExprKind::Var(id),
            ty,
            span,
        }
    }

    pub fn unsupported(&mut self, span: Span, what: &str) {
        self.sink.error(
            "E0601",
            span,
            format!("{what} is not supported yet by this back end"),
        );
    }

    pub fn fresh(&mut self, base: &str) -> String {
        if self.names.taken.insert(base.to_owned()) {
            return base.to_owned();
        }
        let mut number = self.names.last_numbers.get(base).copied().unwrap_or(0);
        loop {
            let candidate = format!("{base}_{number}");
            if self.names.taken.insert(candidate.clone()) {
                self.names.last_numbers.insert(base.to_owned(), number);
                return candidate;
            }
            number += 1;
        }
    }

    pub fn source_info(&self, span: Span) -> Option<SourceInfo> {
        let (file, line) = self.sources.named_line(span)?;
        let (_, column) = self.sources.line_column(span);
        let text = self.sources.text(span);
        let first = text.lines().next().unwrap_or("");
        let fragment: String = first.chars().take(60).collect();
        let more = if fragment.len() < text.len() {
            " ..."
        } else {
            ""
        };
        Some(SourceInfo {
            filename: file.to_string(),
            line,
            column,
            source_fragment: format!("{fragment}{more}"),
        })
    }

    /// Returns the source location of a condition, with the text of all its lines, shortened for a reader.
    pub fn whole_source_info(&self, span: Span) -> Option<SourceInfo> {
        let mut info = self.source_info(span)?;
        let words = self.sources.text(span).split_whitespace();
        info.source_fragment.clear();
        for word in words {
            if info.source_fragment.len() + word.len() > limits::CONDITION_TEXT_BYTES {
                info.source_fragment.push_str(" ...");
                break;
            }
            if !info.source_fragment.is_empty() {
                info.source_fragment.push(' ');
            }
            info.source_fragment.push_str(word);
        }
        Some(info)
    }

    /// Counts a statement, an inlined call or a loop's iteration. Returns false once the program is too large; then the
    /// callers add nothing more.
    pub fn has_room(&mut self, span: Span) -> bool {
        self.statements_done += 1;
        if self.statements_done == limits::LOWERED_STATEMENTS {
            let message = format!(
                "the program becomes more than {} statements when everything is inlined",
                limits::LOWERED_STATEMENTS
            );
            self.sink
                .error("E0603", span, message)
                .help("calls multiply where a callee makes several calls: make the inner callees smaller, or call them less often");
        }
        self.statements_done < limits::LOWERED_STATEMENTS
    }

    /// Makes `has_room` return false from now on. The caller has already reported an error.
    pub fn stop(&mut self) {
        self.statements_done = self.statements_done.max(limits::LOWERED_STATEMENTS);
    }

    // Primitives with jumps.

    pub fn emit(&mut self, op: &str, parameters: Vec<Value>, span: Span) {
        if !self.has_room(span) {
            return;
        }
        for parameter in &parameters {
            self.check_depth(parameter, span);
        }
        let primitive = Primitive {
            op: op.to_owned(),
            parameters,
            source_info: self.source_info(span),
        };
        self.code.body.primitives.push(primitive);
    }

    pub fn new_label(&mut self) -> usize {
        self.code.body.labels.push(None);
        self.code.body.labels.len() - 1
    }

    pub fn set_label(&mut self, label: usize) {
        self.code.body.labels[label] = Some(self.code.body.primitives.len());
    }

    pub fn jump(&mut self, label: usize, span: Span) {
        self.code
            .body
            .jumps
            .push((self.code.body.primitives.len(), label));
        self.emit("_jump", Vec::new(), span);
    }

    /// Emits `if (condition) yes else no` with jumps.
    pub fn branch(
        &mut self,
        condition: Value,
        span: Span,
        yes: impl FnOnce(&mut Self),
        no: impl FnOnce(&mut Self),
    ) {
        let (otherwise, end) = (self.new_label(), self.new_label());
        self.code
            .body
            .jumps
            .push((self.code.body.primitives.len(), otherwise));
        self.emit(
            "_jump_if_zero",
            vec![parameter(expression::as_data(condition))],
            span,
        );
        yes(self);
        let before = self.code.body.primitives.len();
        self.jump(end, span);
        self.set_label(otherwise);
        let n_labels = self.code.body.labels.len();
        no(self);
        if self.code.body.primitives.len() == before + 1 {
            // `else` is empty. The last jump would only skip it, so the jump is removed.
            self.code.body.primitives.pop();
            self.code.body.jumps.pop();
            self.code.body.labels[otherwise] = Some(before);
            self.code.body.labels[n_labels..]
                .iter_mut()
                .flatten()
                .for_each(|at| *at = before);
        }
        self.set_label(end);
    }

    /// Fills in the jumps' targets and returns the finished code.
    pub fn take_body(&mut self) -> Vec<Primitive> {
        let body = std::mem::take(&mut self.code.body);
        let mut primitives = body.primitives;
        let end = primitives.len();
        for (at, label) in body.jumps {
            let target = body.labels.get(label).copied().flatten().unwrap_or(end);
            if let Some(jump) = primitives.get_mut(at) {
                jump.parameters.push(plain_hex(target as u64));
            }
        }
        primitives
    }

    /// Lowers `inner` to a list of primitives of its own and returns the list.
    pub fn straight_line(&mut self, inner: impl FnOnce(&mut Self)) -> Vec<Primitive> {
        let outer = std::mem::take(&mut self.code.body);
        let end = self.new_label();
        let loops = std::mem::take(&mut self.code.loops);
        let saved = (
            self.code.is_on,
            self.code.return_to.take(),
            self.code.exit_to,
        );
        (self.code.is_on, self.code.return_to, self.code.exit_to) = (true, Some((end, None)), end);
        inner(self);
        self.set_label(end);
        (self.code.is_on, self.code.return_to, self.code.exit_to) = saved;
        self.code.loops = loops;
        let primitives = self.take_body();
        self.code.body = outer;
        primitives
    }
}

/// Returns `path.name`; a name that begins with a dot is absolute.
pub fn qualify(path: &str, name: &str) -> String {
    match name.strip_prefix('.') {
        Some(absolute) => absolute.to_owned(),
        None if path.is_empty() => name.to_owned(),
        None => format!("{path}.{name}"),
    }
}
