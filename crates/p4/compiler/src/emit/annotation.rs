//! Reads the annotations that have a meaning in P4Info: structured annotations, key-value lists, match kinds, the sizes
//! of selectors.

use num_bigint::BigInt;
use num_traits::ToPrimitive as _;
use p4runtime_proto::p4::config::v1 as p4;

use crate::ir::{Annotation, int_annotation, string_annotation};
use crate::lex::{Tok, Token};
use crate::syntax::ast::{AnnotationBody, Expr as SyntaxExpr, ExprKind as SyntaxKind};

/// A value in an annotation. The checker has already computed it.
pub enum Constant {
    Int(BigInt),
    Bool(bool),
    Text(String),
}

/// Returns the text of an unstructured annotation in p4c's layout: a space between tokens, no empty parentheses.
pub fn plain(found: &Annotation) -> String {
    let name = &found.name;
    match &found.body {
        AnnotationBody::Tokens(tokens) if !tokens.is_empty() => {
            let texts: Vec<_> = tokens.iter().map(spelling).collect();
            format!("@{name}({})", texts.join(" "))
        }
        _ => format!("@{name}"),
    }
}

fn spelling(token: &Token) -> &str {
    match &token.tok {
        Tok::Word(word) => word,
        Tok::Punct(punct) => punct,
        Tok::Int(..) | Tok::Str(_) | Tok::Eof => &token.text,
    }
}

/// Returns the pairs of `@which(key = value, ...)` or `@which[key = value, ...]`.
pub fn pairs(list: &[Annotation], which: &str) -> Vec<(String, Constant)> {
    let Some(found) = list.iter().find(|annotation| &*annotation.name == which) else {
        return Vec::new();
    };
    match &found.body {
        AnnotationBody::Pairs(pairs) => {
            let known = |(key, value): &(_, SyntaxExpr)| {
                let key: &crate::syntax::ast::Ident = key;
                Some((key.name.to_string(), constant(value)?))
            };
            pairs.iter().filter_map(known).collect()
        }
        AnnotationBody::Tokens(tokens) => {
            let pair = |words: &[crate::lex::Token]| {
                let [key, equals, value, ..] = words else {
                    return None;
                };
                let value = match &value.tok {
                    Tok::Str(text) => Constant::Text(text.to_string()),
                    Tok::Int(value, _) => Constant::Int(value.clone()),
                    _ => return None,
                };
                equals.is("=").then_some((key.word()?.to_owned(), value))
            };
            tokens
                .split(|token| token.is(","))
                .filter_map(pair)
                .collect()
        }
        AnnotationBody::None | AnnotationBody::List(_) => Vec::new(),
    }
}

/// Reads `@platform_property(multicast_group_table_size = 512, ...)`.
pub fn platform_properties(list: &[Annotation]) -> p4::PlatformProperties {
    let mut properties = p4::PlatformProperties::default();
    for (key, value) in pairs(list, "platform_property") {
        let Constant::Int(value) = value else {
            continue;
        };
        let field = match key.as_str() {
            "multicast_group_table_size" => &mut properties.multicast_group_table_size,
            "multicast_group_table_total_replicas" => {
                &mut properties.multicast_group_table_total_replicas
            }
            "multicast_group_table_max_replicas_per_entry" => {
                &mut properties.multicast_group_table_max_replicas_per_entry
            }
            _ => continue,
        };
        *field = value.to_i32().unwrap_or(i32::MAX);
    }
    properties
}

/// Reads `@match(ternary)` on a value set's field.
pub fn match_annotation(list: &[Annotation]) -> Option<p4::match_field::Match> {
    let found = list
        .iter()
        .find(|annotation| &*annotation.name == "match")?;
    let AnnotationBody::Tokens(tokens) = &found.body else {
        return None;
    };
    let kind = match tokens.first()?.word()? {
        "exact" => p4::match_field::MatchType::Exact,
        "lpm" => p4::match_field::MatchType::Lpm,
        "ternary" => p4::match_field::MatchType::Ternary,
        "range" => p4::match_field::MatchType::Range,
        "optional" => p4::match_field::MatchType::Optional,
        other => return Some(p4::match_field::Match::OtherMatchType(other.to_owned())),
    };
    Some(p4::match_field::Match::MatchType(kind as i32))
}

/// Reads `@selector_size_semantics("sum_of_members")` with `@max_member_weight(4000)`.
pub fn size_semantics(list: &[Annotation]) -> Option<p4::action_profile::SelectorSizeSemantics> {
    use p4::action_profile::{SelectorSizeSemantics as Semantics, SumOfMembers, SumOfWeights};
    let weight = int_annotation(list, "max_member_weight");
    let weight = weight.and_then(|weights| weights.first().and_then(|weight| weight.to_i32()));
    match string_annotation(list, "selector_size_semantics")?.as_str() {
        "sum_of_members" => Some(Semantics::SumOfMembers(SumOfMembers {
            max_member_weight: weight.unwrap_or(0),
        })),
        "sum_of_weights" => Some(Semantics::SumOfWeights(SumOfWeights {})),
        _ => None,
    }
}

/// Converts a structured annotation to P4Info's message; returns `None` for an unstructured annotation.
pub fn structured(annotation: &Annotation) -> Option<p4::StructuredAnnotation> {
    use p4::expression::Value;
    let expression = |expr: &SyntaxExpr| p4::Expression {
        value: constant(expr).map(|value| match value {
            Constant::Text(text) => Value::StringValue(text),
            Constant::Bool(truth) => Value::BoolValue(truth),
            Constant::Int(value) => Value::Int64Value(value.to_i64().unwrap_or(i64::MAX)),
        }),
    };
    let body = match &annotation.body {
        AnnotationBody::List(items) => {
            let expressions = items.iter().map(expression).collect();
            p4::structured_annotation::Body::ExpressionList(p4::ExpressionList { expressions })
        }
        AnnotationBody::Pairs(pairs) => {
            let kv_pairs = pairs.iter().map(|(key, value)| p4::KeyValuePair {
                key: key.name.to_string(),
                value: Some(expression(value)),
            });
            p4::structured_annotation::Body::KvPairList(p4::KeyValuePairList {
                kv_pairs: kv_pairs.collect(),
            })
        }
        AnnotationBody::None | AnnotationBody::Tokens(_) => return None,
    };
    Some(p4::StructuredAnnotation {
        name: annotation.name.to_string(),
        body: Some(body),
        ..Default::default()
    })
}

fn constant(expr: &SyntaxExpr) -> Option<Constant> {
    Some(match &*expr.kind {
        SyntaxKind::Str(text) => Constant::Text(text.to_string()),
        SyntaxKind::Bool(truth) => Constant::Bool(*truth),
        SyntaxKind::Int(value, _) => Constant::Int(value.clone()),
        _ => return None,
    })
}
