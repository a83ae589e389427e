//! Computes the values in structured annotations (P4_16 language specification 1.2.5, section 20.2); each may be a
//! constant of any kind. Also computes the numbers in `@field_list`, an unstructured annotation in which each number
//! may be an expression.

use super::Type;
use super::check::Checker;
use crate::ir::ExprKind;
use crate::lex::{Tok, Token, Written};
use crate::syntax::ast::{Annotation, AnnotationBody, Declaration};
use crate::syntax::{self, ast};

/// `@field_list(1, EXPRESSION)` on a member of the user metadata gives the numbers of the field lists that contain this
/// member.
pub const FIELD_LIST: &str = "field_list";

impl Checker<'_> {
    /// Returns the annotations after computing the values in structured annotations and the numbers in `@field_list`.
    pub fn annotations(&mut self, list: &[Annotation]) -> Vec<Annotation> {
        list.iter()
            .map(|annotation| Annotation {
                body: match &annotation.body {
                    AnnotationBody::Tokens(tokens) if &*annotation.name == FIELD_LIST => {
                        AnnotationBody::Tokens(self.list_numbers(tokens))
                    }
                    body => self.annotation_body(body),
                },
                ..annotation.clone()
            })
            .collect()
    }

    fn annotation_body(&mut self, body: &AnnotationBody) -> AnnotationBody {
        match body {
            AnnotationBody::Pairs(pairs) => AnnotationBody::Pairs(
                pairs
                    .iter()
                    .map(|(key, value)| (key.clone(), self.annotation_value(value)))
                    .collect(),
            ),
            AnnotationBody::List(values) => AnnotationBody::List(
                values
                    .iter()
                    .map(|value| self.annotation_value(value))
                    .collect(),
            ),
            AnnotationBody::None | AnnotationBody::Tokens(_) => body.clone(),
        }
    }

    /// Replaces each expression in a `@field_list` by a token that holds the expression's value.
    fn list_numbers(&mut self, tokens: &[Token]) -> Vec<Token> {
        let mut numbers = Vec::new();
        for expr in syntax::expressions(tokens, self.sink) {
            let number = self.constant_int(&expr, "the number of a field list");
            numbers.extend(number.map(|number| Token {
                text: number.to_string().into(),
                tok: Tok::Int(number, Written::PLAIN),
                span: expr.span,
                first: false,
                joint: false,
            }));
        }
        numbers
    }

    fn annotation_value(&mut self, value: &ast::Expr) -> ast::Expr {
        let kind = match &*value.kind {
            // A list or a struct cannot be an annotation's value. `annotation_rules` reports such a value and does not
            // need its type.
            ast::ExprKind::List(_) | ast::ExprKind::Struct(..) => return value.clone(),
            _ => {
                let known = self.expr(value);
                match (known.kind, &known.ty) {
                    (ExprKind::Int(number), Type::Int) => {
                        ast::ExprKind::Int(number, Written::PLAIN)
                    }
                    (ExprKind::Bool(truth), _) => ast::ExprKind::Bool(truth),
                    (ExprKind::Str(text), _) => ast::ExprKind::Str(text),
                    (ExprKind::Poison, _) => return value.clone(),
                    (_, ty) => {
                        let label = format!("this is {}", self.program.type_name(ty));
                        self.sink
                            .error(
                                "E0427",
                                value.span,
                                "a structured annotation holds numbers, strings and booleans",
                            )
                            .label(label)
                            .help("write a number without a width, a string, a boolean, or a constant of `int`, `string` or `bool`");
                        return value.clone();
                    }
                }
            }
        };
        ast::Expr {
            kind: Box::new(kind),
            span: value.span,
            height: 1,
        }
    }

    /// Checks the annotations of a declaration if it is of a kind whose annotations no other function evaluates.
    pub fn unused_annotations(&mut self, declaration: &Declaration) {
        let list = match declaration {
            Declaration::Const(decl) => &decl.annotations,
            Declaration::ExternFunction(decl) => &decl.annotations,
            Declaration::Function(decl) => &decl.annotations,
            Declaration::Parser(decl) => &decl.annotations,
            Declaration::Control(decl) => &decl.annotations,
            Declaration::Error(_)
            | Declaration::MatchKind(_)
            | Declaration::Extern(_)
            | Declaration::Package(_)
            | Declaration::Struct(_)
            | Declaration::Enum(_)
            | Declaration::TypeDef(_)
            | Declaration::Action(_)
            | Declaration::Instance(_) => return,
        };
        self.annotations(list);
    }
}
