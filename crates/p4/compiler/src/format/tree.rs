//! Nests the pieces of a file (tokens, comments, preprocessor lines) by their brackets.

use super::piece::{Kind, Piece, Role};

#[derive(Debug)]
pub enum Node<'a> {
    Piece(&'a Piece<'a>),
    Group(Group<'a>),
}

#[derive(Debug)]
pub struct Group<'a> {
    pub open: &'a Piece<'a>,
    pub nodes: Vec<Node<'a>>,
    pub close: &'a Piece<'a>,
}

impl<'a> Node<'a> {
    pub fn first(&self) -> &'a Piece<'a> {
        match self {
            Node::Piece(piece) => piece,
            Node::Group(group) => group.open,
        }
    }

    pub fn piece(&self) -> Option<&'a Piece<'a>> {
        match self {
            Node::Piece(piece) => Some(piece),
            Node::Group(_) => None,
        }
    }

    pub fn is(&self, text: &str) -> bool {
        self.piece().is_some_and(|piece| piece.is(text))
    }
}

impl Group<'_> {
    pub fn is_block(&self) -> bool {
        matches!(
            self.open.role,
            Role::Block | Role::SwitchBlock | Role::PropertyBlock
        )
    }
}

fn closes(open: &str) -> Option<&'static str> {
    match open {
        "(" => Some(")"),
        "[" => Some("]"),
        "{" => Some("}"),
        _ => None,
    }
}

fn is_close(piece: &Piece) -> bool {
    piece.kind == Kind::Punct && matches!(piece.text, ")" | "]" | "}")
}

/// Nests pieces by their brackets. The error is a bracket without its counterpart.
pub fn nest<'a>(pieces: &'a [Piece<'a>]) -> Result<Vec<Node<'a>>, &'a Piece<'a>> {
    let mut open: Vec<(&Piece, Vec<Node>)> = Vec::new();
    let mut nodes = Vec::new();
    for piece in pieces {
        if piece.kind == Kind::Punct && closes(piece.text).is_some() {
            open.push((piece, std::mem::take(&mut nodes)));
        } else if is_close(piece) {
            let (begin, outer) = open.pop().ok_or(piece)?;
            if closes(begin.text) != Some(piece.text) {
                return Err(begin);
            }
            let group = Group {
                open: begin,
                nodes: std::mem::replace(&mut nodes, outer),
                close: piece,
            };
            nodes.push(Node::Group(group));
        } else {
            nodes.push(Node::Piece(piece));
        }
    }
    match open.pop() {
        Some((begin, _)) => Err(begin),
        None => Ok(nodes),
    }
}

/// Finds preprocessor conditionals with a branch whose brackets do not match. The branches of such a conditional nest
/// the code differently. The formatter follows the brackets of the first branch that it formats; this function makes
/// the later branches raw, so they stay unchanged.
pub fn hide_unbalanced_branches<'a>(text: &'a str, pieces: &mut Vec<Piece<'a>>) {
    let mut conditionals: Vec<Vec<usize>> = Vec::new();
    let mut hidden: Vec<(usize, usize)> = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        match directive(piece) {
            Some("if" | "ifdef" | "ifndef") => conditionals.push(vec![at]),
            Some("else" | "elif") => {
                if let Some(branches) = conditionals.last_mut() {
                    branches.push(at);
                }
            }
            Some("endif") => {
                let Some(mut branches) = conditionals.pop() else {
                    continue;
                };
                branches.push(at);
                let inside = |branch: &[usize]| &pieces[branch[0] + 1..branch[1]];
                let balanced = branches
                    .windows(2)
                    .all(|branch| is_balanced(inside(branch)));
                let mut structured = branches
                    .windows(2)
                    .filter(|branch| !inside(branch).iter().any(|piece| piece.kind == Kind::Raw));
                if let (Some(first), Some(_), false) =
                    (structured.next(), structured.next(), balanced)
                {
                    hidden.retain(|(from, _)| *from < branches[0]);
                    hidden.push((first[1], at));
                }
            }
            _ => {}
        }
    }
    for (from, to) in hidden.into_iter().rev() {
        let end = pieces[to].start;
        let first = &mut pieces[from];
        first.kind = Kind::Raw;
        first.text = &text[first.start..end];
        pieces.drain(from + 1..to);
    }
}

fn directive<'a>(piece: &Piece<'a>) -> Option<&'a str> {
    if piece.kind != Kind::Directive {
        return None;
    }
    let body = piece.text.strip_prefix('#')?.trim_start();
    body.split(|c: char| !c.is_ascii_alphabetic()).next()
}

fn is_balanced(pieces: &[Piece]) -> bool {
    let mut open = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.kind == Kind::Punct) {
        if let Some(close) = closes(piece.text) {
            open.push(close);
        } else if is_close(piece) && open.pop() != Some(piece.text) {
            return false;
        }
    }
    open.is_empty()
}
