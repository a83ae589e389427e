//! Decides the role of every token and where spaces belong, in one walk over the pieces with a stack of open
//! brackets.

use super::piece::{Kind, Piece, Role};

/// Words before an operand: a bracket or sign after such a word begins the operand.
const BEFORE_OPERAND: &[&str] = &[
    "return",
    "in",
    "else",
    "transition",
    "if",
    "for",
    "while",
    "switch",
    "select",
];
/// Words with a space before their parenthesis.
const SPACED: &[&str] = &[
    "return",
    "in",
    "else",
    "transition",
    "if",
    "for",
    "while",
    "switch",
];
/// Words whose parentheses belong to a statement and are no part of an operand.
const CONTROL: &[&str] = &["if", "for", "while", "switch"];
const GENERIC: &[&str] = &["bit", "int", "varbit", "tuple", "list"];
/// Words that can begin the type of a cast.
const TYPES: &[&str] = &["bit", "int", "varbit", "bool", "error"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Paren {
    /// After `if`, `for`, `while` or `switch`; true for `switch`.
    Control(bool),
    Annotation,
    /// Parentheses at the start of an operand: a cast or a subexpression. True if their first word names a type.
    Operand(bool),
    /// After a name: arguments or parameters.
    Call,
}

struct Frame {
    text: &'static str,
    paren: Paren,
    /// The number of `?` that still lack their `:`.
    questions: usize,
    /// An `enum` occurred since the last `;` or block.
    in_enum: bool,
    /// Only annotations occurred since the last `;` or block.
    at_start: bool,
}

impl Frame {
    fn new(text: &'static str, paren: Paren) -> Frame {
        Frame {
            text,
            paren,
            questions: 0,
            in_enum: false,
            at_start: true,
        }
    }
}

/// Fills in `space`, `breaks`, `may_break` and `role` of every piece.
pub fn decide(pieces: &mut [Piece]) {
    let mut walk = Walk {
        frames: vec![Frame::new("", Paren::Call)],
        previous: None,
        closed: Paren::Call,
        unary: false,
        annotation_end: false,
    };
    for at in 0..pieces.len() {
        if pieces[at].is_trivia() {
            walk.trivia(pieces, at);
        } else {
            walk.token(pieces, at);
        }
    }
}

struct Walk {
    frames: Vec<Frame>,
    /// The previous token, not counting comments.
    previous: Option<usize>,
    /// The purpose of the parentheses that the previous token closes.
    closed: Paren,
    unary: bool,
    /// The previous token ends a leading annotation.
    annotation_end: bool,
}

impl Walk {
    fn frame(&mut self) -> &mut Frame {
        if self.frames.is_empty() {
            self.frames.push(Frame::new("", Paren::Call));
        }
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    fn trivia(&mut self, pieces: &mut [Piece], at: usize) {
        let after_open = at > 0 && matches!(pieces[at - 1].text, "(" | "[");
        pieces[at].space = at > 0 && !after_open;
    }

    fn token(&mut self, pieces: &mut [Piece], at: usize) {
        let before = self.previous.map(|before| pieces[before].clone());
        let before = before.as_ref();
        let operand_before = before.is_some_and(|before| self.ends_operand(before));
        self.mark(pieces, at, before, operand_before);
        let piece = pieces[at].clone();
        let unary = !operand_before && matches!(piece.text, "-" | "+" | "!" | "~");
        let unary = unary || piece.is("@");
        if unary {
            pieces[at].role = Role::Plain;
        }
        let after_comment = at > 0 && pieces[at - 1].kind == Kind::BlockComment;
        pieces[at].space = match before {
            Some(before) if after_comment => {
                !matches!(piece.text, ")" | "]" | "," | ";") || matches!(before.text, "(" | "[")
            }
            Some(before) => self.space(before, &pieces[at], operand_before),
            None => false,
        };
        pieces[at].may_break = self.annotation_end
            && !matches!(piece.text, ";" | "," | ")" | "]" | "}" | "{" | "(" | ":");
        pieces[at].breaks = pieces[at].may_break && piece.newlines > 0;
        if piece.is("@") && !self.frame().at_start {
            pieces[at].role = Role::Binary(0);
        }
        self.advance(pieces, at, operand_before);
        self.unary = unary;
        self.previous = Some(at);
    }

    fn ends_operand(&self, piece: &Piece) -> bool {
        match piece.kind {
            Kind::Word => !BEFORE_OPERAND.contains(&piece.text),
            Kind::Punct => match piece.text {
                ")" => !matches!(self.closed, Paren::Control(_) | Paren::Operand(true)),
                "]" | "..." => true,
                ">" => piece.role == Role::TypeArguments,
                _ => false,
            },
            _ => false,
        }
    }

    fn mark(
        &mut self,
        pieces: &mut [Piece],
        at: usize,
        before: Option<&Piece>,
        operand_before: bool,
    ) {
        if pieces[at].role != Role::Plain || pieces[at].kind != Kind::Punct {
            return;
        }
        match pieces[at].text {
            "<" => {
                if let Some(end) = type_arguments_end(pieces, at, before) {
                    (pieces[at].role, pieces[end].role) =
                        (Role::TypeArguments, Role::TypeArguments);
                } else {
                    pieces[at].role = Role::Binary(6);
                }
            }
            "{" => pieces[at].role = self.brace(before, holds_statements(pieces, at)),
            ":" => {
                let frame = self.frame();
                if frame.questions > 0 {
                    frame.questions -= 1;
                    pieces[at].role = Role::Binary(0);
                } else {
                    pieces[at].role = Role::Colon;
                }
            }
            text if operand_before => {
                if let Some(level) = binding(text) {
                    pieces[at].role = Role::Binary(level);
                }
                if text == "?" {
                    self.frame().questions += 1;
                }
            }
            _ => {}
        }
    }

    fn brace(&mut self, before: Option<&Piece>, statements: bool) -> Role {
        let closed = self.closed;
        let Some(before) = before else {
            return Role::Block;
        };
        let in_enum = self.frame().in_enum;
        match before.text {
            "error" | "match_kind" if before.kind == Kind::Word => Role::Names,
            _ if in_enum => Role::Names,
            "=" if statements => Role::PropertyBlock,
            _ if statements => match closed {
                Paren::Control(true) if before.text == ")" => Role::SwitchBlock,
                _ => Role::Block,
            },
            ")" => match closed {
                Paren::Control(true) => Role::SwitchBlock,
                Paren::Operand(_) => Role::Plain,
                _ => Role::Block,
            },
            "return" | "in" => Role::Plain,
            "]" | "}" | "{" | ";" | ":" | ">" => Role::Block,
            _ if before.kind == Kind::Word => Role::Block,
            _ => Role::Plain,
        }
    }

    fn space(&self, before: &Piece, next: &Piece, operand_before: bool) -> bool {
        let in_slice = self.frames.last().is_some_and(|frame| frame.text == "[");
        match (before.text, next.text) {
            ("{", "}") => before.role != Role::Plain,
            ("(" | "[" | "@" | "..", _) | (_, ")" | "]" | "," | ";" | "..") => false,
            (".", _) if before.kind == Kind::Punct => false,
            (_, ".") if next.kind == Kind::Punct => !operand_before,
            (":", _) | (_, ":") if in_slice => false,
            (_, ":") if next.role == Role::Colon => false,
            (">", ">" | ">=") if next.joint && next.role != Role::TypeArguments => false,
            _ if self.unary => false,
            _ if next.role == Role::TypeArguments => false,
            ("<", _) if before.role == Role::TypeArguments => false,
            (">", "(" | "[") if before.role == Role::TypeArguments => false,
            (")", "(") => !matches!(self.closed, Paren::Call),
            (_, "(") if before.kind == Kind::Word => SPACED.contains(&before.text),
            ("]", "(" | "[") => false,
            (_, "[") => !operand_before,
            _ => true,
        }
    }

    /// Updates the state after a token.
    fn advance(&mut self, pieces: &[Piece], at: usize, operand_before: bool) {
        let piece = &pieces[at];
        let names_annotation = |at: usize| at > 0 && pieces[at - 1].is("@");
        let was_annotation = self.annotation_end;
        self.annotation_end = false;
        let at_start = self.frame().at_start;
        match (piece.kind, piece.text) {
            (Kind::Punct, "(" | "[" | "{") => {
                let text = ["(", "[", "{"].into_iter().find(|open| *open == piece.text);
                let paren = self.paren(pieces, at, operand_before);
                if paren != Paren::Annotation {
                    self.frame().at_start = false;
                }
                self.frames.push(Frame::new(text.unwrap_or("("), paren));
                return;
            }
            (Kind::Punct, ")" | "]" | "}") => {
                let frame = self.frames.pop();
                self.closed = frame.map_or(Paren::Call, |frame| frame.paren);
                if piece.text == "}" {
                    let frame = self.frame();
                    (frame.in_enum, frame.at_start) = (false, true);
                } else {
                    self.annotation_end = self.closed == Paren::Annotation && self.frame().at_start;
                }
                return;
            }
            (Kind::Punct, ";") => {
                let frame = self.frame();
                (frame.in_enum, frame.questions, frame.at_start) = (false, 0, true);
                return;
            }
            (Kind::Punct, ",") => {
                self.frame().at_start = true;
                return;
            }
            (Kind::Word, "enum") => self.frame().in_enum = true,
            _ => {}
        }
        let of_annotation = piece.is("@") || names_annotation(at);
        self.annotation_end = at_start && names_annotation(at);
        if !of_annotation || (was_annotation && !piece.is("@")) {
            self.frame().at_start = at_start && of_annotation;
        }
    }

    fn paren(&self, pieces: &[Piece], at: usize, operand_before: bool) -> Paren {
        let before = self.previous.map(|before| &pieces[before]);
        let Some(before) = before else {
            return Paren::Operand(false);
        };
        let is_annotation = self
            .previous
            .is_some_and(|at| at > 0 && pieces[at - 1].is("@"));
        if is_annotation && before.kind == Kind::Word {
            Paren::Annotation
        } else if before.kind == Kind::Word && CONTROL.contains(&before.text) {
            Paren::Control(before.text == "switch")
        } else if before.is("select") || operand_before {
            Paren::Call
        } else {
            let first = pieces.get(at + 1);
            Paren::Operand(first.is_some_and(|first| TYPES.contains(&first.text)))
        }
    }
}

/// Returns how tightly an operator binds between its operands, 0 the loosest; `None` for any other token, and for `<`,
/// which may begin type arguments.
fn binding(text: &str) -> Option<u8> {
    Some(match text {
        "?" => 0,
        "||" => 1,
        "&&" => 2,
        "|" => 3,
        "^" => 4,
        "&" => 5,
        "==" | "!=" | "<=" | ">=" | ">" => 6,
        "<<" => 7,
        "++" | "+" | "-" | "|+|" | "|-|" => 8,
        "*" | "/" | "%" => 9,
        _ => return None,
    })
}

/// Returns the end of the type arguments that begin with the `<` at `at`; `None` if this `<` is an operator.
fn type_arguments_end(pieces: &[Piece], at: usize, before: Option<&Piece>) -> Option<usize> {
    let name = before.filter(|before| before.kind == Kind::Word)?;
    let spaced = !pieces[at].joint && pieces.get(at + 1).is_some_and(|next| !next.joint);
    let mut of_types = GENERIC.contains(&name.text);
    let (mut angles, mut parens) = (0_usize, 0_usize);
    for (offset, piece) in pieces[at..].iter().enumerate() {
        of_types |= TYPES.contains(&piece.text);
        match (piece.kind, piece.text) {
            (Kind::Punct, "(" | "[") => parens += 1,
            (Kind::Punct, ")" | "]") => parens = parens.checked_sub(1)?,
            _ if parens > 0 => {}
            (Kind::Punct, "<") => angles += 1,
            (Kind::Punct, ">") if angles == 1 && spaced && !of_types => return None,
            (Kind::Punct, ">") => {
                angles -= 1;
                if angles == 0 {
                    return Some(at + offset);
                }
            }
            (Kind::Punct, "," | ".") => {}
            (Kind::Punct, _) => return None,
            _ => {}
        }
    }
    None
}

/// Whether the braces that open at `at` contain a `;` outside of inner brackets.
fn holds_statements(pieces: &[Piece], at: usize) -> bool {
    let mut depth = 0_usize;
    for piece in pieces[at..]
        .iter()
        .filter(|piece| piece.kind == Kind::Punct)
    {
        match piece.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return false;
                }
            }
            ";" if depth == 1 => return true,
            _ => {}
        }
    }
    false
}
