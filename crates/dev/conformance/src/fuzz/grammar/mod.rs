//! Generates programs from a grammar. Most programs have no type errors, so that they reach the compiler's later
//! passes.

mod expression;

use std::fmt::Write as _;

use fastrand::Rng;

/// Maximum nesting of expressions.
const DEPTH: u32 = 4;
/// Maximum number of statements in a block.
const STATEMENTS: usize = 6;
const WIDTHS: &[u32] = &[1, 3, 7, 8, 9, 16, 31, 32, 33, 48, 64, 128, 200];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ty {
    Bits(u32),
    Signed(u32),
    Bool,
}

impl Ty {
    fn text(self) -> String {
        match self {
            Self::Bits(width) => format!("bit<{width}>"),
            Self::Signed(width) => format!("int<{width}>"),
            Self::Bool => "bool".to_owned(),
        }
    }
}

#[derive(Clone, Default)]
struct Scope {
    /// Names that an expression may read.
    values: Vec<(String, Ty)>,
    /// Names that a statement may write.
    places: Vec<(String, Ty)>,
    headers: Vec<String>,
    actions: Vec<(String, Vec<Ty>)>,
    functions: Vec<(String, Vec<Ty>, Ty)>,
    /// Whether the statement is in an apply block. Tables can be applied only in an apply block.
    in_apply: bool,
    in_function: Option<Ty>,
}

impl Scope {
    fn variable(&mut self, name: String, ty: Ty) {
        self.values.push((name.clone(), ty));
        self.places.push((name, ty));
    }
}

struct Writer<'r> {
    rng: &'r mut Rng,
    out: String,
    names: u32,
    /// Tables that are not applied yet. Each table is applied once, since the back end requires a single successor of a
    /// table.
    unapplied: Vec<String>,
}

pub fn program(rng: &mut Rng) -> String {
    let mut writer = Writer {
        rng,
        out: String::new(),
        names: 0,
        unapplied: Vec::new(),
    };
    writer.program();
    writer.out
}

impl Writer<'_> {
    fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }

    fn name(&mut self, kind: &str) -> String {
        self.names += 1;
        format!("{kind}{}", self.names)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.usize(..bound.max(1))
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let at = self.below(from.len());
        from.get(at).cloned()
    }

    fn width(&mut self) -> u32 {
        self.pick(WIDTHS).unwrap_or(8)
    }

    fn ty(&mut self) -> Ty {
        match self.below(8) {
            0 => Ty::Bool,
            1 => Ty::Signed(self.width()),
            _ => Ty::Bits(self.width()),
        }
    }

    fn program(&mut self) {
        self.line("#include <core.p4>\n#include <v1model.p4>");
        let mut scope = Scope::default();
        let headers = self.headers(&mut scope);
        for _ in 0..self.below(3) {
            self.function(&mut scope);
        }
        self.parser(&headers, &scope);
        self.line("control Check(inout headers_t hdr, inout meta_t meta) { apply { } }");
        for name in ["In", "Eg"] {
            self.control(name, scope.clone());
        }
        self.line(
            "control Dep(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }",
        );
        self.line("V1Switch(P(), Check(), In(), Eg(), Check(), Dep()) main;");
    }

    /// Declares header and struct types. Returns the names of the headers.
    fn headers(&mut self, scope: &mut Scope) -> Vec<String> {
        let mut members = String::new();
        let mut names = Vec::new();
        for at in 0..1 + self.below(4) {
            let (ty, name) = (format!("h{at}_t"), format!("h{at}"));
            let mut fields = String::new();
            let mut bits = 0;
            for field in 0..1 + self.below(4) {
                let ty = match self.ty() {
                    Ty::Bool => Ty::Bits(1),
                    other => other,
                };
                let (Ty::Bits(width) | Ty::Signed(width)) = ty else {
                    continue;
                };
                bits += width;
                let _ = writeln!(fields, "    {} f{field};", ty.text());
                scope.variable(format!("hdr.{name}.f{field}"), ty);
            }
            let rest = (8 - bits % 8) % 8;
            if rest > 0 && !self.chance(30) {
                let _ = writeln!(fields, "    bit<{rest}> pad;");
            }
            self.line(format!("header {ty} {{\n{fields}}}"));
            if self.chance(4) {
                let size = 1 + self.below(4);
                let _ = writeln!(members, "    {ty}[{size}] s{at};");
                scope
                    .headers
                    .push(format!("hdr.s{at}[{}]", self.below(size)));
                names.push(format!("s{at}.next"));
            }
            let _ = writeln!(members, "    {ty} {name};");
            scope.headers.push(format!("hdr.{name}"));
            names.push(name);
        }
        self.line(format!("struct headers_t {{\n{members}}}"));
        let mut fields = String::new();
        for at in 0..self.below(5) {
            let ty = self.ty();
            let list = if self.chance(3) {
                "@field_list(1) "
            } else {
                ""
            };
            let _ = writeln!(fields, "    {list}{} m{at};", ty.text());
            scope.variable(format!("meta.m{at}"), ty);
        }
        self.line(format!("struct meta_t {{\n{fields}}}"));
        names
    }

    fn block(&mut self, scope: &Scope, depth: u32) {
        let mut scope = scope.clone();
        for _ in 0..self.below(STATEMENTS) {
            self.statement(&mut scope, depth);
        }
    }

    fn statement(&mut self, scope: &mut Scope, depth: u32) {
        match self.below(14) {
            0..4 => {
                if let Some((place, ty)) = self.pick(&scope.places) {
                    let value = self.expr(scope, ty, DEPTH);
                    self.line(format!("{place} = {value};"));
                }
            }
            4 => self.variable(scope),
            5 | 6 if depth > 0 => {
                let table = if scope.in_apply && self.chance(3) {
                    self.unapplied.pop()
                } else {
                    None
                };
                let condition = match table {
                    Some(table) => format!("{table}.apply().hit"),
                    None => self.expr(scope, Ty::Bool, DEPTH),
                };
                self.line(format!("if ({condition}) {{"));
                self.block(scope, depth - 1);
                self.line("} else {");
                self.block(scope, depth - 1);
                self.line("}");
            }
            7 if !scope.headers.is_empty() => {
                let header = self.pick(&scope.headers).unwrap_or_default();
                let methods = ["setValid", "setInvalid"];
                let method = methods[usize::from(self.rng.bool())];
                self.line(format!("{header}.{method}();"));
            }
            8 if scope.in_apply => {
                if let Some(table) = self.unapplied.pop() {
                    self.line(format!("{table}.apply();"));
                }
            }
            9 => {
                if let Some((name, parameters)) = self.pick(&scope.actions) {
                    let call = self.call(scope, &name, &parameters, 2);
                    self.line(format!("{call};"));
                }
            }
            10 if depth > 0 && scope.in_function.is_none() => self.switch(scope, depth - 1),
            11 if self.chance(4) => {
                let text = match scope.in_function {
                    Some(ty) => format!("return {};", self.expr(scope, ty, 2)),
                    None if self.rng.bool() => "exit;".to_owned(),
                    None => "return;".to_owned(),
                };
                self.line(text);
            }
            12 if scope.in_function.is_none() => self.extern_call(scope),
            13 if depth > 0 && self.chance(2) => self.repeat(scope, depth - 1),
            13 if depth > 0 => {
                self.line("{");
                self.block(scope, depth - 1);
                self.line("}");
            }
            _ => {}
        }
    }

    fn variable(&mut self, scope: &mut Scope) {
        let (name, ty) = (self.name("v"), self.ty());
        let init = if self.chance(4) {
            String::new()
        } else {
            format!(" = {}", self.expr(scope, ty, DEPTH))
        };
        self.line(format!("{} {name}{init};", ty.text()));
        scope.variable(name, ty);
    }

    fn switch(&mut self, scope: &Scope, depth: u32) {
        let ty = Ty::Bits(self.width());
        let subject = self.expr(scope, ty, 2);
        self.line(format!("switch ({subject}) {{"));
        for at in 0..self.below(4) {
            if self.chance(4) {
                self.line(format!("{at}:"));
            }
            self.line(format!("{}: {{", at + 10));
            self.block(scope, depth);
            self.line("}");
        }
        self.line("default: {");
        self.block(scope, depth);
        self.line("} }");
    }

    fn repeat(&mut self, scope: &Scope, depth: u32) {
        let (name, low) = (self.name("i"), self.below(4));
        let high = self.below(8);
        if self.rng.bool() {
            self.line(format!("for (bit<8> {name} in 8w{low} .. {high}) {{"));
        } else {
            self.line(format!(
                "for (bit<8> {name} = {low}; {name} < {high}; {name} = {name} + 1) {{"
            ));
        }
        let mut inner = scope.clone();
        inner.values.push((name, Ty::Bits(8)));
        self.block(&inner, depth);
        if self.chance(4) {
            let condition = self.expr(&inner, Ty::Bool, 2);
            let way = if self.rng.bool() { "break" } else { "continue" };
            self.line(format!("if ({condition}) {{ {way}; }}"));
        }
        self.line("}");
    }

    fn extern_call(&mut self, scope: &Scope) {
        let index = self.expr(scope, Ty::Bits(32), 2);
        let place = scope.places.iter().find(|(_, ty)| *ty == Ty::Bits(32));
        let Some(place) = place.map(|(name, _)| name.clone()) else {
            return;
        };
        let value = self.expr(scope, Ty::Bits(32), 2);
        let line = match self.below(12) {
            0 => "mark_to_drop(standard_metadata);".to_owned(),
            1 => format!(
                "standard_metadata.egress_spec = {};",
                self.expr(scope, Ty::Bits(9), 2)
            ),
            2 => format!("registers.read({place}, {index});"),
            3 => format!("registers.write({index}, {value});"),
            4 => format!("counters.count({index});"),
            5 => format!("random({place}, 32w0, {value});"),
            6 => format!(
                "hash({place}, HashAlgorithm.crc32, 32w0, {{ {value}, {index} }}, {value});"
            ),
            7 => format!("clone(CloneType.I2E, {value});"),
            8 => format!("digest(1, {{ {value}, {index} }});"),
            9 => format!("log_msg(\"{{}} {{}}\", {{ {value}, {index} }});"),
            10 => "truncate(32w20);".to_owned(),
            _ => format!("assert({});", self.expr(scope, Ty::Bool, 2)),
        };
        self.line(line);
    }

    fn parameters(&mut self, scope: &mut Scope, direction: &str) -> (Vec<Ty>, String) {
        let mut types = Vec::new();
        let mut texts = Vec::new();
        for _ in 0..self.below(4) {
            let (name, ty) = (self.name("p"), self.ty());
            texts.push(format!("{direction}{} {name}", ty.text()));
            scope.values.push((name, ty));
            types.push(ty);
        }
        (types, texts.join(", "))
    }

    fn function(&mut self, scope: &mut Scope) {
        let (name, returns) = (self.name("f"), self.ty());
        let mut inner = Scope {
            functions: scope.functions.clone(),
            in_function: Some(returns),
            ..Scope::default()
        };
        let (types, text) = self.parameters(&mut inner, "in ");
        self.line(format!("{} {name}({text}) {{", returns.text()));
        self.block(&inner, 2);
        let value = self.expr(&inner, returns, 2);
        self.line(format!("return {value};\n}}"));
        scope.functions.push((name, types, returns));
    }

    fn parser(&mut self, headers: &[String], scope: &Scope) {
        self.line("parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {");
        let states = headers.len() + 1;
        for at in 0..states {
            let name = if at == 0 {
                "start".to_owned()
            } else {
                format!("s{at}")
            };
            self.line(format!("state {name} {{"));
            if let Some(header) = headers.get(at) {
                self.line(format!("packet.extract(hdr.{header});"));
            }
            if self.chance(6) {
                self.line("packet.advance(32w8);");
            }
            if self.chance(6) {
                let condition = self.expr(scope, Ty::Bool, 2);
                self.line(format!("verify({condition}, error.NoMatch);"));
            }
            self.transition(scope, at, states);
            self.line("}");
        }
        self.line("}");
    }

    fn target(&mut self, at: usize, states: usize) -> String {
        // Most transitions lead forward. Some lead back, so that there are loops.
        let to = if self.chance(12) {
            self.below(states)
        } else {
            at + 1 + self.below(2)
        };
        match to {
            0 => "start".to_owned(),
            to if to < states => format!("s{to}"),
            _ if self.chance(8) => "reject".to_owned(),
            _ => "accept".to_owned(),
        }
    }

    fn transition(&mut self, scope: &Scope, at: usize, states: usize) {
        if self.chance(3) {
            let target = self.target(at, states);
            return self.line(format!("transition {target};"));
        }
        let width = self.pick(&[8, 16]).unwrap_or(8);
        let key = if self.chance(3) {
            format!("packet.lookahead<bit<{width}>>()")
        } else {
            self.expr(scope, Ty::Bits(width), 2)
        };
        self.line(format!("transition select({key}) {{"));
        for _ in 0..1 + self.below(4) {
            let (a, b) = (self.below(200), self.below(200));
            let set = match self.below(4) {
                0 => format!("{a} &&& {b}"),
                1 => format!("{} .. {}", a.min(b), a.max(b)),
                _ => a.to_string(),
            };
            let target = self.target(at, states);
            self.line(format!("{set}: {target};"));
        }
        if !self.chance(6) {
            let target = self.target(at, states);
            self.line(format!("default: {target};"));
        }
        self.line("}");
    }

    fn control(&mut self, name: &str, mut scope: Scope) {
        self.line(format!("control {name}(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {{"));
        self.line("register<bit<32>>(16) registers;\ncounter(16, CounterType.packets) counters;");
        self.unapplied.clear();
        for _ in 0..self.below(3) {
            let (name, ty) = (self.name("l"), self.ty());
            let value = self.literal(ty);
            self.line(format!("{} {name} = {value};", ty.text()));
            scope.variable(name, ty);
        }
        for _ in 0..self.below(4) {
            let action = self.name("a");
            let mut inner = scope.clone();
            let direction = if self.chance(4) { "in " } else { "" };
            let (types, text) = self.parameters(&mut inner, direction);
            self.line(format!("action {action}({text}) {{"));
            self.block(&inner, 1);
            self.line("}");
            if direction.is_empty() {
                scope.actions.push((action, types));
            }
        }
        for _ in 0..self.below(4) {
            self.table(&scope);
        }
        scope.in_apply = true;
        self.line("apply {");
        self.block(&scope, 3);
        self.line("} }");
    }

    fn table(&mut self, scope: &Scope) {
        let name = self.name("t");
        let mut keys = String::new();
        let kinds = ["exact", "ternary", "lpm", "range", "optional"];
        for at in 0..self.below(4) {
            let width = self.width();
            let value = self.expr(scope, Ty::Bits(width), 1);
            let kind = self.pick(&kinds).unwrap_or("exact");
            let _ = write!(keys, "{value}: {kind} @name(\"k{at}\"); ");
        }
        self.line(format!("table {name} {{ key = {{ {keys} }}"));
        let listed: Vec<String> = scope
            .actions
            .iter()
            .map(|(name, _)| format!("{name}; "))
            .collect();
        self.line(format!("actions = {{ {}NoAction; }}", listed.concat()));
        if self.chance(2) {
            let (action, parameters) = self
                .pick(&scope.actions)
                .unwrap_or(("NoAction".to_owned(), Vec::new()));
            let arguments: Vec<String> = parameters.iter().map(|ty| self.literal(*ty)).collect();
            let is_const = if self.rng.bool() { "const " } else { "" };
            self.line(format!(
                "{is_const}default_action = {action}({});",
                arguments.join(", ")
            ));
        }
        if self.chance(2) {
            let size = self.below(2_000);
            self.line(format!("size = {size};"));
        }
        self.line("}");
        self.unapplied.push(name);
    }
}
