//! Field lists: the metadata that a clone, a resubmitted or a recirculated packet keeps.
//!
//! `@field_list(n)` puts a member of the user metadata, with everything in it, into list `n`, and the calls that end
//! in `_preserving_field_list` name that list. The deprecated `clone3`, `resubmit` and `recirculate` have the fields
//! as an argument; the compiler makes a list of them. In both forms simple_switch reads the fields when the control
//! has ended, not at the call.

use std::collections::{HashMap, HashSet};

use bmv2_json::{FieldList, Value};
use num_traits::ToPrimitive as _;

use super::headers::Architecture;
use super::place::{Place, plain_hex};
use super::{Binding, Lower, Stage};
use crate::ir::{self, Annotation, Expr, ExprKind, StructId};
use crate::source::Span;
use crate::types::Type;
use crate::types::annotation::FIELD_LIST;

/// The name of a header or of metadata, and the name of a field in it.
type FieldName = (String, String);

/// The program's field lists, and the fields that a list may contain.
#[derive(Default)]
pub struct FieldLists {
    /// Each list's position in the JSON, by the number that the program gives the list.
    numbered: HashMap<u32, usize>,
    /// The fields of the user metadata and of standard metadata.
    metadata: HashSet<FieldName>,
    headers: HashSet<FieldName>,
    /// Structs whose `@field_list` annotations were read.
    seen: HashSet<StructId>,
}

impl Lower<'_> {
    /// Creates the lists that `@field_list` annotations in the user metadata name.
    pub fn field_lists(&mut self, metadata: &Type, places: &Architecture) {
        let names = |fields: Vec<Value>| {
            let fields = fields.into_iter().filter_map(|field| match field {
                Value::Field(name) => Some(name),
                _ => None,
            });
            fields.collect::<Vec<_>>()
        };
        for place in [&places.metadata, &places.standard] {
            let fields = names(self.stored(place));
            self.field_lists.metadata.extend(fields);
        }
        let headers = names(self.stored(&places.headers));
        self.field_lists.headers.extend(headers);
        self.annotated(metadata, &places.metadata, &[]);
        self.overlooked_lists();
    }

    /// An annotation of a struct, or of a member that is a struct, applies to everything in it.
    fn annotated(&mut self, ty: &Type, place: &Place, outer: &[u32]) {
        if let (Type::Struct(id), Place::Members(members)) = (ty, place) {
            self.field_lists.seen.insert(*id);
            let decl = &self.program.structs[*id];
            let mut whole = outer.to_vec();
            whole.extend(self.list_numbers(&decl.annotations));
            for (field, member) in decl.fields.iter().zip(members.iter()) {
                let mut numbers = whole.clone();
                numbers.extend(self.list_numbers(&field.annotations));
                self.annotated(&field.ty, member, &numbers);
                if !numbers.is_empty() && self.program.is_header(&field.ty) {
                    self.validity_is_lost(&field.name, field.span);
                }
            }
            return;
        }
        let elements = if outer.is_empty() {
            Vec::new()
        } else {
            self.stored(place)
        };
        for number in outer {
            let at = self.numbered_list(*number);
            let list = &mut self.json.field_lists[at].elements;
            for element in &elements {
                if !list.contains(element) {
                    list.push(element.clone());
                }
            }
        }
    }

    fn list_numbers(&mut self, annotations: &[Annotation]) -> Vec<u32> {
        let mut numbers = Vec::new();
        let lists = annotations.iter().filter(|it| &*it.name == FIELD_LIST);
        for annotation in lists {
            for number in ir::annotation_ints(annotation) {
                match number.to_u32() {
                    Some(number) => numbers.push(number),
                    None => drop(self.sink.error(
                        "E0606",
                        annotation.span,
                        format!("{number} is not the number of a field list"),
                    )),
                }
            }
        }
        numbers
    }

    fn validity_is_lost(&mut self, name: &str, span: Span) {
        let message = format!("the fields of the header `{name}` are kept, but not its validity");
        self.sink
            .warning("W0606", span, message)
            .help("simple_switch's field lists have fields only: keep a `bool` beside it");
    }

    /// Warns about `@field_list` annotations outside of the user metadata, where nothing reads them.
    fn overlooked_lists(&mut self) {
        let structs = self.program.structs.iter().enumerate();
        for (_, decl) in structs.filter(|(id, _)| !self.field_lists.seen.contains(id)) {
            let fields = decl.fields.iter().flat_map(|field| &field.annotations);
            let lists = decl.annotations.iter().chain(fields);
            for annotation in lists.filter(|it| &*it.name == FIELD_LIST) {
                let message = format!("`@field_list` has no effect in `{}`", decl.name);
                self.sink
                    .warning("W0606", annotation.span, message)
                    .label("keeps nothing")
                    .help(
                        "`@field_list` counts on members of the user metadata and of structs in it",
                    );
            }
        }
    }

    /// Returns every field that this place stores, including the fields in headers and unions.
    fn stored(&self, place: &Place) -> Vec<Value> {
        let mut fields = Vec::new();
        for part in self.fields(place) {
            match &part {
                Place::Union { name, id } => {
                    for member in &self.program.structs[*id].fields {
                        if let Type::Struct(id) = member.ty {
                            let name = format!("{name}.{}", member.name);
                            let union = None;
                            fields.extend(self.stored(&Place::Header { name, id, union }));
                        }
                    }
                }
                _ => fields.push(self.read_raw(&part).0),
            }
        }
        fields
    }

    /// Returns the position of the field list with this number. Creates an empty list if no member has the number.
    fn numbered_list(&mut self, number: u32) -> usize {
        if let Some(at) = self.field_lists.numbered.get(&number) {
            return *at;
        }
        let at = self.new_field_list(format!("field_list{number}"), Vec::new());
        self.field_lists.numbered.insert(number, at);
        at
    }

    /// Creates a field list and returns its position. Its id is not the number that the program gives the list; ids
    /// count from 1, because for simple_switch's `resubmit` and `recirculate` the id 0 means no list, and they use only
    /// 16 bits of an id.
    fn new_field_list(&mut self, name: String, elements: Vec<Value>) -> usize {
        let at = self.json.field_lists.len();
        self.json.field_lists.push(FieldList {
            id: at as u32 + 1,
            name,
            source_info: None,
            elements,
        });
        at
    }

    fn list_argument(&mut self, argument: Option<&Expr>, span: Span) -> u32 {
        let value = argument.and_then(|argument| self.constant(argument));
        let Some(number) = value.and_then(|value| value.to_u32()) else {
            self.sink.error(
                "E0502",
                span,
                "the field list's number must be known at compile time",
            );
            return 0;
        };
        if !self.field_lists.numbered.contains_key(&number) {
            self.sink
                .warning(
                    "W0606",
                    span,
                    format!("no metadata field has @field_list({number})"),
                )
                .help(format!(
                    "no metadata is kept: annotate the fields to keep with `@field_list({number})`"
                ));
        }
        let at = self.numbered_list(number);
        self.json.field_lists[at].id
    }

    /// Returns the id of a list with the fields in a deprecated call's argument; without an argument the list is empty.
    fn data_list(&mut self, call: &str, headers: Headers, argument: Option<&Expr>) -> u32 {
        let mut data = Data {
            call,
            headers,
            fields: Vec::new(),
        };
        if let Some(argument) = argument {
            let argument = self.resolve(argument);
            self.add_data(&argument, &mut data);
        }
        let fields = data.fields;
        let numbered = &self.field_lists.numbered;
        let lists = self.json.field_lists.iter().enumerate();
        let mut own = lists.filter(|(at, _)| !numbered.values().any(|numbered| numbered == at));
        if let Some((_, list)) = own.find(|(_, list)| list.elements == fields) {
            return list.id;
        }
        let name = if fields.is_empty() { "empty" } else { "fields" };
        let name = self.fresh(name);
        let at = self.new_field_list(name, fields);
        self.json.field_lists[at].id
    }

    fn add_data(&mut self, expr: &Expr, data: &mut Data<'_>) {
        let fields = match &expr.kind {
            ExprKind::Poison => return,
            ExprKind::List(items) => {
                return items.iter().for_each(|item| self.add_data(item, data));
            }
            ExprKind::Int(_)
            | ExprKind::Bool(_)
            | ExprKind::Error(_)
            | ExprKind::Member(..)
            | ExprKind::InvalidHeader => return self.constant_is_lost(expr.span, data.call),
            ExprKind::Var(_) | ExprKind::Field(..) | ExprKind::Index(..) => self.data_fields(expr),
            _ => None,
        };
        let origins: Option<Vec<Origin>> =
            fields.and_then(|fields| fields.iter().map(|field| self.origin(field)).collect());
        let Some(fields) = origins else {
            return self.cannot_be_kept(expr.span, data.call);
        };
        if data.headers != Headers::Cloned {
            self.whole_headers(expr);
        }
        let has_header = fields
            .iter()
            .any(|field| matches!(field, Origin::Header(_)));
        if has_header && data.headers == Headers::Lost {
            self.header_is_lost(expr.span, data.call);
        }
        for field in fields {
            match field {
                Origin::Header(_) if data.headers != Headers::Listed => {}
                Origin::Header(field) | Origin::Metadata(field) => {
                    let field = Value::Field(field);
                    if !data.fields.contains(&field) {
                        data.fields.push(field);
                    }
                }
            }
        }
    }

    fn data_fields(&mut self, expr: &Expr) -> Option<Vec<Value>> {
        if let ExprKind::Var(id) = &expr.kind
            && let Some(Binding::Value(value)) = self.env.get(id)
        {
            return Some(vec![value.clone()]);
        }
        let place = self.place(expr)?;
        Some(self.stored(&place))
    }

    /// Warns that a list keeps the fields of a metadata header, but not its validity.
    fn whole_headers(&mut self, expr: &Expr) {
        let Some(place) = self.place(expr) else {
            return;
        };
        let leaves = self.leaves(&place);
        let whole = leaves.iter().find_map(|leaf| match leaf {
            Place::Header { name, .. } | Place::Union { name, .. } | Place::Stack { name, .. } => {
                Some(name)
            }
            _ => None,
        });
        if let Some(name) = whole
            && self
                .field_lists
                .metadata
                .iter()
                .any(|(header, _)| header == name)
        {
            self.validity_is_lost(name, expr.span);
        }
    }

    /// Returns whether a field is in metadata or in a header; `None` if a list cannot contain the field.
    fn origin(&self, field: &Value) -> Option<Origin> {
        let Value::Field(name) = field else {
            return None;
        };
        let lists = &self.field_lists;
        if lists.metadata.contains(name) {
            Some(Origin::Metadata(name.clone()))
        } else if lists.headers.contains(name) {
            Some(Origin::Header(name.clone()))
        } else {
            None
        }
    }

    fn constant_is_lost(&mut self, span: Span, call: &str) {
        let instead = instead(call);
        self.sink
            .warning("W0606", span, "a constant is not kept")
            .help(format!("`{instead}` takes the number of a field list"));
    }

    fn header_is_lost(&mut self, span: Span, call: &str) {
        let message = format!("`{call}` keeps no fields of headers");
        self.sink
            .warning("W0606", span, message)
            .label("parsed anew from the frame as it came")
            .help("write the value to a field of the user metadata and keep that");
    }

    fn cannot_be_kept(&mut self, span: Span, call: &str) {
        let instead = instead(call);
        let help = format!(
            "write it to a member of the user metadata that has `@field_list(1)`, and call `{instead}`"
        );
        self.sink
            .error("E0616", span, format!("`{call}` cannot keep this"))
            .label("not a field of the user metadata or of standard metadata")
            .help(help);
    }

    pub fn clone_packet(&mut self, name: &str, arguments: &[Option<Expr>], span: Span) {
        let kind = self.enum_argument(arguments, 0, span);
        let (op, wanted) = match kind.as_str() {
            "" => return,
            "I2E" => ("clone_ingress_pkt_to_egress", Stage::Ingress),
            _ => ("clone_egress_pkt_to_egress", Stage::Egress),
        };
        let effect = match wanted {
            Stage::Ingress => "clones the packet as it leaves egress, as `CloneType.E2E` does",
            _ => "clones the packet as it came, as `CloneType.I2E` does",
        };
        self.belongs_in(wanted, &format!("CloneType.{kind}"), effect, span);
        let session = self.data_argument(arguments, 1);
        let third = arguments.get(2).and_then(Option::as_ref);
        let list = if name == "clone_preserving_field_list" {
            self.list_argument(third, span)
        } else {
            let headers = if self.stage == Stage::Ingress {
                Headers::Listed
            } else {
                Headers::Cloned
            };
            self.data_list(name, headers, third)
        };
        self.emit(op, vec![session, plain_hex(u64::from(list))], span);
    }

    /// Lowers `resubmit` and `recirculate`, in both forms.
    pub fn again(&mut self, name: &str, arguments: &[Option<Expr>], span: Span) {
        let (op, wanted, effect) = if name.starts_with("resubmit") {
            ("resubmit", Stage::Ingress, "does nothing")
        } else {
            let effect =
                "takes effect when egress has ended, unless the packet is dropped or multicast";
            ("recirculate", Stage::Egress, effect)
        };
        self.belongs_in(wanted, &format!("`{name}`"), effect, span);
        let argument = arguments.first().and_then(Option::as_ref);
        let list = if name == op {
            let headers = if wanted == Stage::Ingress {
                Headers::Lost
            } else {
                Headers::Carried
            };
            self.data_list(name, headers, argument)
        } else {
            self.list_argument(argument, span)
        };
        self.emit(op, vec![plain_hex(u64::from(list))], span);
    }

    /// Warns about a call in the wrong control. simple_switch accepts the call there, and `effect` says what the call
    /// does.
    fn belongs_in(&mut self, wanted: Stage, what: &str, effect: &str, span: Span) {
        if self.stage == wanted {
            return;
        }
        let (place, here) = if wanted == Stage::Ingress {
            ("ingress", "egress")
        } else {
            ("egress", "ingress")
        };
        if !matches!(self.stage, Stage::Ingress | Stage::Egress) {
            self.sink
                .error("E0309", span, format!("{what} stands only in {place}"));
            return;
        }
        self.sink
            .warning("W0617", span, format!("{what} belongs in {place}"))
            .label(format!("in {here} it {effect}"));
    }
}

/// A deprecated call, and the fields found in its argument so far.
struct Data<'a> {
    call: &'a str,
    headers: Headers,
    fields: Vec<Value>,
}

/// What happens to header fields in the argument. The metadata fields in it always go into the field list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Headers {
    /// Ingress clone: the header fields go into the list too, so they overwrite the values that the parser extracted.
    Listed,
    /// Egress clone: it keeps all headers, even headers in the metadata, so the list needs no header field.
    Cloned,
    /// Recirculation: the headers are deparsed and parsed again, so the list needs no header field.
    Carried,
    /// Resubmission: the parser extracts the headers from the frame as it arrived, so changes of headers are lost.
    Lost,
}

enum Origin {
    Metadata(FieldName),
    Header(FieldName),
}

fn instead(call: &str) -> &'static str {
    match call {
        "resubmit" => "resubmit_preserving_field_list(1)",
        "recirculate" => "recirculate_preserving_field_list(1)",
        _ => "clone_preserving_field_list(type, session, 1)",
    }
}
