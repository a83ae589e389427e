//! Checks the contents of annotations (P4_16 language specification 1.2.5, section 20).

use super::rules::Rules;
use crate::lex::{Tok, Token};
use crate::syntax::ast::{Annotation, AnnotationBody, Expr, ExprKind};

impl Rules<'_> {
    pub(super) fn annotations(&mut self, annotations: &[Annotation]) {
        for (at, annotation) in annotations.iter().enumerate() {
            let is_structured = |annotation: &Annotation| {
                matches!(
                    annotation.body,
                    AnnotationBody::List(_) | AnnotationBody::Pairs(_)
                )
            };
            let before = annotations[..at].iter().find(|other| {
                other.name == annotation.name && (is_structured(other) || is_structured(annotation))
            });
            if let Some(before) = before {
                let message = format!("@{} is structured and is given twice", annotation.name);
                self.sink
                    .error("E0427", annotation.span, message)
                    .note_at(before.span, "first here");
            }
            match &annotation.body {
                AnnotationBody::Pairs(pairs) => {
                    self.names(pairs.iter().map(|(key, _)| key), "annotation's key");
                    pairs.iter().for_each(|(_, value)| self.value(value));
                }
                AnnotationBody::List(values) => values.iter().for_each(|value| self.value(value)),
                AnnotationBody::Tokens(tokens) => self.unstructured(annotation, tokens),
                AnnotationBody::None => self.unstructured(annotation, &[]),
            }
        }
    }

    fn unstructured(&mut self, annotation: &Annotation, tokens: &[Token]) {
        if let Some(wanted) = unstructured_problem(&annotation.name, tokens) {
            let message = format!("@{} needs {wanted}", annotation.name);
            self.sink.error("E0427", annotation.span, message);
        }
    }

    fn value(&mut self, value: &Expr) {
        if matches!(*value.kind, ExprKind::List(_) | ExprKind::Struct(..)) {
            self.sink.error(
                "E0427",
                value.span,
                "a structured annotation holds numbers, strings and booleans",
            );
        }
    }
}

/// Returns the content that an annotation with a fixed form must have, for example a string, if its content is not of
/// this form.
fn unstructured_problem(name: &str, tokens: &[Token]) -> Option<&'static str> {
    let strings = !tokens.is_empty()
        && tokens
            .iter()
            .all(|token| matches!(token.tok, Tok::Str(_) | Tok::Punct("++" | "(" | ")")));
    match name {
        "name" | "deprecated" if !strings => Some("a string"),
        "id" | "max_group_size" | "max_member_weight" if !matches!(tokens, [only] if matches!(only.tok, Tok::Int(..))) => {
            Some("one number")
        }
        "match" if tokens.len() != 1 || tokens[0].word().is_none() => Some("a match kind"),
        "p4runtime_translation" => {
            let comma = tokens.iter().position(|token| token.is(","))?;
            let width = match &tokens[comma + 1..] {
                [only] => match &only.tok {
                    Tok::Int(..) | Tok::Str(_) => true,
                    Tok::Word(word) => &**word == "string",
                    _ => false,
                },
                [bit, open, width, close] => {
                    bit.word() == Some("bit")
                        && open.is("<")
                        && matches!(width.tok, Tok::Int(..) | Tok::Word(_))
                        && close.is(">")
                }
                _ => false,
            };
            (!width).then_some("a string and `bit<W>`, `string` or a number of bits")
        }
        _ => None,
    }
}
