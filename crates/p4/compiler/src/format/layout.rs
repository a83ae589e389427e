//! Decides where lines end.
//!
//! A block is a list of items (statement, declaration, member, property), each on its own line. An item that does not
//! fit on one line is broken at the operators that bind loosest. If it has no operators to break at, it is broken
//! inside its brackets, with one element per line.

use super::piece::{Kind, Piece, Role};
use super::tree::{Group, Node};
use super::{INDENT, WIDTH};

pub fn print(nodes: &[Node]) -> String {
    let mut printer = Printer::default();
    printer.items(nodes, 0, false);
    printer.end_line();
    printer.out
}

/// Tokens that continue the same item after `}`.
const CONTINUES: &[&str] = &[
    ";", ",", ".", ")", "]", "else", "==", "!=", "&&", "||", "&", "|", "^", "+", "*", "/", "%",
    "++", "<<", ">", "<", "?", ":",
];

#[derive(Default)]
struct Printer {
    out: String,
    column: usize,
    /// Indentation level of the current line while it is still empty.
    pending: Option<usize>,
    /// Indentation level of the next line, if nothing more may be written on the current line.
    ended: Option<usize>,
}

impl Printer {
    fn end_line(&mut self) {
        self.ended = None;
        self.pending = None;
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
        self.column = 0;
    }

    fn fresh_line(&mut self, level: usize) {
        self.end_line();
        self.pending = Some(level);
    }

    fn blank_line(&mut self) {
        self.end_line();
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn write(&mut self, text: &str, space: bool) {
        if let Some(level) = self.ended {
            self.fresh_line(level);
        }
        if let Some(level) = self.pending.take() {
            let spaces = level * INDENT;
            (0..spaces).for_each(|_| self.out.push(' '));
            self.column = spaces;
        } else if space && self.column > 0 {
            self.out.push(' ');
            self.column += 1;
        }
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    /// Writes one piece of the file, for example a token or a comment. The line after a comment has the indentation
    /// level `level`.
    fn piece(&mut self, piece: &Piece, level: usize) {
        match piece.kind {
            Kind::Word | Kind::Punct => self.write(piece.text, piece.space),
            Kind::Directive => {
                self.end_line();
                let lines: Vec<_> = piece.text.split('\n').map(str::trim_end).collect();
                self.out.push_str(&lines.join("\n"));
                self.column = 1;
                self.ended = Some(level);
            }
            Kind::Raw => {
                self.end_line();
                let text = piece.text.trim_end_matches([' ', '\t']);
                self.out.push_str(&text.replace("\r\n", "\n"));
                self.column = 0;
                self.ended = Some(level);
            }
            Kind::LineComment => {
                if piece.newlines > 0 && self.column > 0 {
                    self.fresh_line(level);
                }
                self.write(piece.text, piece.space);
                self.ended = Some(level);
            }
            Kind::BlockComment => self.block_comment(piece),
        }
    }

    /// Writes a block comment. If all lines after the first begin with `*`, puts them under the first line; if not,
    /// leaves them as they are.
    fn block_comment(&mut self, piece: &Piece) {
        let mut lines = piece.text.lines();
        self.write(lines.next().unwrap_or_default().trim_end(), piece.space);
        let starred = piece
            .text
            .lines()
            .skip(1)
            .all(|line| line.trim_start().starts_with('*'));
        let line_start = self.out.rfind('\n').map_or(0, |at| at + 1);
        let line = &self.out[line_start..];
        let margin = line.len() - line.trim_start().len();
        for line in lines {
            self.out.push('\n');
            let text = if starred {
                format!("{} {}", " ".repeat(margin), line.trim())
            } else {
                line.trim_end().to_owned()
            };
            self.out.push_str(&text);
            self.column = text.chars().count().max(1);
        }
    }

    fn items(&mut self, nodes: &[Node], level: usize, in_switch: bool) {
        let mut at = 0;
        while at < nodes.len() {
            let first = nodes[at].first();
            let trails = first.newlines == 0 && self.column > 0 && self.ended.is_none();
            if trails && matches!(first.kind, Kind::LineComment | Kind::BlockComment) {
                self.piece(first, level);
                at += 1;
                continue;
            }
            if first.newlines > 1 && at > 0 {
                self.blank_line();
            }
            self.fresh_line(level);
            let end = at + item_len(&nodes[at..], in_switch);
            self.layout(&nodes[at..end], level, 0);
            at = end;
        }
    }

    /// Lays out an item or a list's element. `reserve` is the number of characters that will follow the item or element
    /// on its last line.
    fn layout(&mut self, nodes: &[Node], level: usize, reserve: usize) {
        let annotated = nodes.iter().skip(1).position(|node| node.first().breaks);
        if let Some(at) = annotated {
            self.layout(&nodes[..=at], level, 0);
            self.fresh_line(level);
            return self.layout(&nodes[at + 1..], level, reserve);
        }
        if self.fits(nodes, reserve) {
            return self.flat(nodes, level);
        }
        let head = nodes.iter().position(is_block).unwrap_or(nodes.len());
        let annotated = nodes[..head]
            .iter()
            .skip(1)
            .position(|node| node.first().may_break);
        if let Some(at) = annotated.filter(|_| !self.fits(&nodes[..head], 2)) {
            self.layout(&nodes[..=at], level, 0);
            self.fresh_line(level);
            return self.layout(&nodes[at + 1..], level, reserve);
        }
        let mut at = 0;
        while at < nodes.len() {
            let block = nodes[at..].iter().position(is_block);
            let end = block.map_or(nodes.len(), |block| at + block);
            if at < end {
                let reserve = if block.is_some() { 2 } else { reserve };
                self.run(&nodes[at..end], level, level + 1, reserve);
            }
            if let Some(Node::Group(group)) = nodes.get(end) {
                self.block(group, level);
            }
            at = end + 1;
        }
    }

    fn block(&mut self, group: &Group, level: usize) {
        self.write("{", group.open.space);
        if group.nodes.is_empty() {
            self.write("}", group.close.space);
            return;
        }
        self.items(
            &group.nodes,
            level + 1,
            group.open.role == Role::SwitchBlock,
        );
        self.fresh_line(level);
        self.write("}", false);
    }

    fn fits(&self, nodes: &[Node], reserve: usize) -> bool {
        let column = match (self.pending, self.ended) {
            (Some(level), _) | (None, Some(level)) => level * INDENT,
            (None, None) => self.column + 1,
        };
        flat_width(nodes).is_some_and(|width| column + width + reserve <= WIDTH)
    }

    fn flat(&mut self, nodes: &[Node], level: usize) {
        for node in nodes {
            match node {
                Node::Piece(piece) => self.piece(piece, level),
                Node::Group(group) => {
                    self.piece(group.open, level);
                    self.flat(&group.nodes, level);
                    self.write(group.close.text, closing_space(group));
                }
            }
        }
    }

    /// Lays out nodes over as many lines as they need. Lines that begin with an operator have the indentation level
    /// `operators`.
    fn run(&mut self, nodes: &[Node], level: usize, operators: usize, reserve: usize) {
        if self.fits(nodes, reserve) {
            return self.flat(nodes, level);
        }
        let loosest = nodes.iter().filter_map(binary_level).min();
        let Some(loosest) = loosest else {
            return self.brackets(nodes, level, reserve);
        };
        let starts = (1..nodes.len()).filter(|at| binary_level(&nodes[*at]) == Some(loosest));
        let bounds: Vec<usize> = [0].into_iter().chain(starts).chain([nodes.len()]).collect();
        for (index, bound) in bounds.windows(2).enumerate() {
            if index > 0 {
                self.fresh_line(operators);
            }
            let last = index + 2 == bounds.len();
            let level = if index > 0 { operators } else { level };
            let part = &nodes[bound[0]..bound[1]];
            self.run_part(part, level, operators, if last { reserve } else { 0 });
        }
    }

    /// Lays out the nodes between two operators. Operators among these nodes bind tighter and stay on the same line if
    /// they fit.
    fn run_part(&mut self, nodes: &[Node], level: usize, operators: usize, reserve: usize) {
        if self.fits(nodes, reserve) {
            return self.flat(nodes, level);
        }
        let inner = |node: &&Node| binary_level(node).is_some();
        if nodes.iter().skip(1).any(|node| inner(&node)) {
            let skip = usize::from(binary_level(&nodes[0]).is_some());
            if skip == 1 {
                self.flat(&nodes[..1], level);
            }
            return self.run(&nodes[skip..], level, operators + 1, reserve);
        }
        self.brackets(nodes, level, reserve);
    }

    /// Lays out nodes without operators to break at: breaks the brackets that do not fit.
    fn brackets(&mut self, nodes: &[Node], level: usize, reserve: usize) {
        for (at, node) in nodes.iter().enumerate() {
            match node {
                // A comment after a block does not indent the rest of the item.
                Node::Piece(piece) => {
                    let next = level + usize::from(at > 0 || !piece.is_trivia());
                    self.piece(piece, next);
                }
                Node::Group(group) => {
                    let next = nodes[at + 1..]
                        .iter()
                        .position(|n| matches!(n, Node::Group(_)));
                    let end = next.map_or(nodes.len(), |next| at + 1 + next);
                    let tail = flat_width(&nodes[at + 1..end]).unwrap_or(0);
                    let tail = tail + next.map_or(reserve, |_| 1);
                    if self.fits(&nodes[at..=at], tail) {
                        self.flat(&nodes[at..=at], level);
                    } else if group.is_block() {
                        self.block(group, level);
                    } else {
                        self.group(group, level);
                    }
                }
            }
        }
    }

    fn group(&mut self, group: &Group, level: usize) {
        self.piece(group.open, level + 1);
        let elements = elements(&group.nodes);
        let has_operators = group.nodes.iter().any(|node| binary_level(node).is_some());
        if let [only] = elements.as_slice()
            && !has_operators
            && !begins_line(group)
            && group.open.text != "{"
            && !only.iter().any(|node| node.first().is_trivia())
        {
            self.layout(only, level, 1);
            self.write(group.close.text, closing_space(group));
            return;
        }
        for (index, element) in elements.iter().enumerate() {
            let first = element.first().map(Node::first);
            if index > 0 && first.is_some_and(|first| first.newlines > 1) {
                self.blank_line();
            }
            let trails = first.is_some_and(|first| first.is_trivia() && first.newlines == 0);
            if index > 0 || !trails {
                self.fresh_line(level + 1);
            }
            self.element(element, level + 1);
        }
        self.fresh_line(level);
        self.write(group.close.text, false);
    }

    /// Lays out one element of a list on lines of its own. A comment after the element's comma stays on the comma's
    /// line.
    fn element(&mut self, nodes: &[Node], level: usize) {
        let has_block = nodes.iter().any(is_block);
        if has_block || nodes.iter().skip(1).any(|node| node.first().may_break) {
            self.layout(nodes, level, 0);
        } else {
            self.run(nodes, level, level, 0);
        }
    }
}

fn closing_space(group: &Group) -> bool {
    group.close.space
}

fn is_block(node: &Node) -> bool {
    matches!(node, Node::Group(group) if group.is_block())
}

fn binary_level(node: &Node) -> Option<u8> {
    match node.piece()?.role {
        Role::Binary(level) => Some(level),
        _ => None,
    }
}

/// Whether the source has a line end after the opening bracket. The layout keeps such a line end.
fn begins_line(group: &Group) -> bool {
    let first = group.nodes.first().map(Node::first);
    first.is_some_and(|first| first.newlines > 0)
}

/// Returns how many characters the nodes take on one line; `None` if they cannot be on one line.
fn flat_width(nodes: &[Node]) -> Option<usize> {
    let mut width = 0;
    for (at, node) in nodes.iter().enumerate() {
        let first = node.first();
        if (at > 0 && first.breaks) || first.ends_line() {
            return None;
        }
        if first.kind == Kind::BlockComment && (first.text.contains('\n') || first.newlines > 0) {
            return None;
        }
        width += usize::from(first.space) + first.text.chars().count();
        if let Node::Group(group) = node {
            if !can_be_flat(group) {
                return None;
            }
            width += flat_width(&group.nodes)? + 1 + usize::from(closing_space(group));
        }
    }
    Some(width)
}

/// Whether a pair of brackets and its contents may be on one line. A list may if it does not begin on a new line in the
/// source. A block may if it is empty, or if it is on one line in the source and holds one statement or is the block of
/// a table's property.
fn can_be_flat(group: &Group) -> bool {
    match group.open.role {
        Role::Names => false,
        _ if group.nodes.is_empty() => true,
        Role::SwitchBlock => false,
        Role::Block | Role::PropertyBlock => {
            let n_statements = group.nodes.iter().filter(|node| node.is(";")).count();
            let nested = group.nodes.iter().any(is_block);
            let few = n_statements == 1 || group.open.role == Role::PropertyBlock;
            few && !nested && is_on_one_line(&group.nodes) && group.close.newlines == 0
        }
        _ => !begins_line(group),
    }
}

fn is_on_one_line(nodes: &[Node]) -> bool {
    nodes.iter().all(|node| {
        let inner = match node {
            Node::Piece(_) => true,
            Node::Group(group) => is_on_one_line(&group.nodes) && group.close.newlines == 0,
        };
        inner && node.first().newlines == 0
    })
}

fn item_len(nodes: &[Node], in_switch: bool) -> usize {
    for (at, node) in nodes.iter().enumerate() {
        let next = nodes.get(at + 1).map(Node::first);
        match node {
            Node::Piece(piece) if piece.is_trivia() => {
                let alone = next.is_none_or(|next| next.newlines > 0);
                if at == 0 && (piece.ends_line() || alone) {
                    return 1;
                }
            }
            Node::Piece(piece) if piece.is(";") => return at + 1,
            Node::Piece(piece) if in_switch && piece.role == Role::Colon => {
                if next.is_none_or(|next| !next.is("{") || next.is_trivia()) {
                    return at + 1;
                }
            }
            Node::Group(group) if group.open.text == "{" => {
                let mut after = nodes[at + 1..].iter().map(Node::first);
                let next = after
                    .find(|piece| !matches!(piece.kind, Kind::LineComment | Kind::BlockComment));
                if next.is_none_or(|next| !continues(next)) {
                    return at + 1;
                }
            }
            Node::Piece(_) | Node::Group(_) => {}
        }
    }
    nodes.len()
}

fn continues(piece: &Piece) -> bool {
    matches!(piece.kind, Kind::Word | Kind::Punct) && CONTINUES.contains(&piece.text)
}

/// Splits nodes at commas (in a `for`, at semicolons). Each element keeps its separator and the comment after it.
fn elements<'a, 'b>(nodes: &'b [Node<'a>]) -> Vec<&'b [Node<'a>]> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while at < nodes.len() {
        let separates = nodes[at].is(",") || nodes[at].is(";");
        let directive = matches!(nodes[at].first().kind, Kind::Directive | Kind::Raw);
        let comment_alone = nodes[at].first().is_trivia()
            && at == start
            && nodes
                .get(at + 1)
                .is_none_or(|next| next.first().newlines > 0);
        at += 1;
        if separates || directive || comment_alone {
            let trails = |node: &Node| {
                let first = node.first();
                first.newlines == 0 && matches!(first.kind, Kind::LineComment | Kind::BlockComment)
            };
            while separates && nodes.get(at).is_some_and(trails) {
                at += 1;
            }
            out.push(&nodes[start..at]);
            start = at;
        }
    }
    if start < nodes.len() {
        out.push(&nodes[start..]);
    }
    out
}
