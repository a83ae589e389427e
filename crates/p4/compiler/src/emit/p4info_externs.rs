//! Externs in P4Info (P4Runtime 1.4.1, section 6.4): counters, meters, registers, profiles, value sets.

use num_traits::ToPrimitive as _;
use p4runtime_proto::p4::config::v1 as p4;

use super::annotation;
use super::ids::Kind;
use super::p4info::{Writer, named};
use crate::ir::{self, Annotation, int_annotation};
use crate::lower::ExternObject;
use crate::types::Type;

pub fn extern_kind(object: &ExternObject) -> Option<Kind> {
    Some(match object.kind.as_str() {
        "counter" => Kind::Counter,
        "meter" => Kind::Meter,
        "register" => Kind::Register,
        "direct_counter" => Kind::DirectCounter,
        "direct_meter" => Kind::DirectMeter,
        "action_profile" | "action_selector" => Kind::ActionProfile,
        _ => return None,
    })
}

impl Writer<'_> {
    pub fn object(&mut self, object: &ExternObject) {
        // p4c writes `type_info` if there is any extern object, even one that is no P4Info entity.
        self.type_info();
        let Some(kind) = extern_kind(object) else {
            return;
        };
        let hidden: &[&str] = if kind == Kind::ActionProfile {
            &[
                "max_group_size",
                "selector_size_semantics",
                "max_member_weight",
            ]
        } else {
            &[]
        };
        let preamble = Some(self.preamble(kind, &object.name, &object.annotations, hidden));
        let unit = match object.unit.as_str() {
            "bytes" => 1,
            "packets" => 2,
            _ => 3,
        };
        let size = i64::from(object.size);
        let table = object
            .bound_to
            .as_ref()
            .map(|table| self.symbols.id(Kind::Table, table));
        match (kind, table) {
            (Kind::Counter, _) => {
                let index_type_name = object.types.first().and_then(|ty| self.index_type(ty));
                self.info.counters.push(p4::Counter {
                    preamble,
                    spec: Some(p4::CounterSpec { unit }),
                    size,
                    index_type_name,
                });
            }
            (Kind::Meter, _) => {
                let index_type_name = object.types.first().and_then(|ty| self.index_type(ty));
                let spec = Some(p4::MeterSpec {
                    unit,
                    ..Default::default()
                });
                self.info.meters.push(p4::Meter {
                    preamble,
                    spec,
                    size,
                    index_type_name,
                });
            }
            (Kind::DirectCounter | Kind::DirectMeter, Some(table)) => {
                self.direct(kind, preamble, unit, table)
            }
            (Kind::Register, _) => {
                let type_spec = object.types.first().map(|ty| self.type_spec(ty));
                let index_type_name = object.types.get(1).and_then(|ty| self.index_type(ty));
                self.info.registers.push(p4::Register {
                    preamble,
                    type_spec,
                    size: object.size as i32,
                    index_type_name,
                });
            }
            (Kind::ActionProfile, _) => self.action_profile(object, preamble),
            _ => {}
        }
    }

    fn direct(
        &mut self,
        kind: Kind,
        preamble: Option<p4::Preamble>,
        unit: i32,
        direct_table_id: u32,
    ) {
        if kind == Kind::DirectCounter {
            let spec = Some(p4::CounterSpec { unit });
            self.info.direct_counters.push(p4::DirectCounter {
                preamble,
                spec,
                direct_table_id,
            });
        } else {
            let spec = Some(p4::MeterSpec {
                unit,
                ..Default::default()
            });
            self.info.direct_meters.push(p4::DirectMeter {
                preamble,
                spec,
                direct_table_id,
            });
        }
    }

    fn index_type(&mut self, ty: &Type) -> Option<p4::P4NamedType> {
        self.type_spec(ty);
        match ty {
            Type::Newtype(id) => named(&self.program.newtypes[*id].name),
            _ => None,
        }
    }

    fn action_profile(&mut self, object: &ExternObject, preamble: Option<p4::Preamble>) {
        let largest = int_annotation(&object.annotations, "max_group_size")
            .and_then(|sizes| sizes.first().and_then(|size| size.to_i32()));
        let table_ids = object
            .tables
            .iter()
            .map(|table| self.symbols.id(Kind::Table, table))
            .collect();
        let with_selector = object.kind == "action_selector";
        let max_group_size = if with_selector {
            largest.unwrap_or(0)
        } else {
            0
        };
        let size = i64::from(object.size);
        let selector_size_semantics =
            with_selector.then(|| annotation::size_semantics(&object.annotations));
        self.info.action_profiles.push(p4::ActionProfile {
            selector_size_semantics: selector_size_semantics.flatten(),
            preamble,
            table_ids,
            with_selector,
            size,
            max_group_size,
            ..Default::default()
        });
    }

    pub fn value_set(&mut self, name: &str, id: usize, size: u64) {
        let decl = &self.program.value_sets[id];
        let exact = Some(p4::match_field::Match::MatchType(
            p4::match_field::MatchType::Exact as i32,
        ));
        let r#match = match &decl.ty {
            Type::Struct(id) => {
                let fields = &self.program.structs[*id].fields;
                let lists: Vec<&[Annotation]> = fields
                    .iter()
                    .map(|field| field.annotations.as_slice())
                    .collect();
                let ids = self.member_ids(&lists);
                let field = |(field, id): (&ir::Field, u32)| p4::MatchField {
                    id,
                    name: field.name.to_string(),
                    bitwidth: self.program.width(&field.ty).unwrap_or(0) as i32,
                    r#match: annotation::match_annotation(&field.annotations)
                        .or_else(|| exact.clone()),
                    annotations: self.annotations(&field.annotations, &["match"]).0,
                    doc: Self::documentation(&field.annotations),
                    ..Default::default()
                };
                fields.iter().zip(ids).map(field).collect()
            }
            other => {
                let bitwidth = self.program.width(other).unwrap_or(0) as i32;
                vec![p4::MatchField {
                    id: 1,
                    bitwidth,
                    r#match: exact,
                    ..Default::default()
                }]
            }
        };
        let preamble = Some(self.preamble(Kind::ValueSet, name, &decl.annotations, &[]));
        self.info.value_sets.push(p4::ValueSet {
            preamble,
            r#match,
            size: size as i32,
        });
    }
}
