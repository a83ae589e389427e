//! Parses the text of a test.

use thiserror::Error;

use crate::{
    command::{Command, Comparison, Counted, Match, Named},
    lex::{Token, tokens, without_comment},
    number::{expected, hex_bytes, int, masked, millionths, number},
};

/// The names of all commands, from which one is suggested for a misspelt name.
const COMMANDS: [&str; 32] = [
    "add",
    "check_counter",
    "counter_read",
    "counter_write",
    "expect",
    "expect_digest",
    "group_add",
    "mc_group",
    "mc_mgrp_create",
    "mc_node_associate",
    "mc_node_create",
    "mc_node_update",
    "member_add",
    "meter_array_set_rates",
    "meter_get_rates",
    "meter_set_rates",
    "meter_write",
    "mirroring_add",
    "mirroring_add_mc",
    "mirroring_delete",
    "mirroring_get",
    "no_digest",
    "no_packet",
    "packet",
    "register_check",
    "register_read",
    "register_reset",
    "register_write",
    "remove",
    "setdefault",
    "value_set_add",
    "wait",
];

const WAIT_MS: u64 = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// From 1.
    pub line: usize,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", summary(.0))]
pub struct ParseErrors(pub Vec<ParseError>);

fn summary(errors: &[ParseError]) -> String {
    let first = errors.first().map(ToString::to_string).unwrap_or_default();
    match errors.len() {
        0 | 1 => first,
        n => format!("{first} (and {} more)", n - 1),
    }
}

type Parsed<T> = Result<T, String>;

/// Parses a test: its commands with their line numbers, from 1.
///
/// # Errors
/// All invalid lines, each with what was expected and what was found.
pub fn parse(text: &str) -> Result<Vec<(usize, Command)>, ParseErrors> {
    let (mut commands, mut errors) = (Vec::new(), Vec::new());
    // Some editors write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (line_number, line) in (1..).zip(text.lines()) {
        let line = without_comment(line).trim();
        if line.is_empty() {
            continue;
        }
        match command(line) {
            Ok(command) => commands.push((line_number, command)),
            Err(message) => errors.push(ParseError {
                line: line_number,
                message,
            }),
        }
    }
    if errors.is_empty() {
        Ok(commands)
    } else {
        Err(ParseErrors(errors))
    }
}

/// The tokens of a line that are not parsed yet.
struct Line {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
}

impl Line {
    fn word(&mut self, what: &str) -> Parsed<String> {
        match self.tokens.next() {
            Some(Token::Word(word)) => Ok(word),
            Some(Token::Mark(mark)) => Err(format!("expected {what}, found \"{mark}\"")),
            None => Err(format!("expected {what}, found the end of the line")),
        }
    }

    fn int<T: TryFrom<u64>>(&mut self, what: &str) -> Parsed<T> {
        int(&self.word(what)?).map_err(|error| format!("{what}: {error}"))
    }

    fn number(&mut self, what: &str) -> Parsed<Vec<u8>> {
        number(&self.word(what)?)
    }

    fn eat(&mut self, mark: &'static str) -> bool {
        self.tokens.next_if_eq(&Token::Mark(mark)).is_some()
    }

    fn mark(&mut self, mark: &'static str) -> Parsed<()> {
        if self.eat(mark) {
            return Ok(());
        }
        Err(match self.tokens.peek() {
            Some(Token::Word(word)) => format!("expected \"{mark}\", found \"{word}\""),
            Some(Token::Mark(found)) => format!("expected \"{mark}\", found \"{found}\""),
            None => format!("expected \"{mark}\", found the end of the line"),
        })
    }

    fn is_empty(&mut self) -> bool {
        self.tokens.peek().is_none()
    }

    /// Parses items to the end of the line.
    fn rest<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.is_empty() {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Parses the digits of a frame, which may be separated by spaces.
    fn digits(&mut self) -> Parsed<String> {
        Ok(self.rest(|line| line.word("digits"))?.concat())
    }
}

fn command(line: &str) -> Parsed<Command> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let mut line = Line {
        tokens: tokens(rest)?.into_iter().peekable(),
    };
    // Commands may be in capitals, as in p4c's driver.
    let name = name.to_ascii_lowercase();
    let command = match name.as_str() {
        "add" => add(&mut line)?,
        "setdefault" => {
            let table = line.word("a table")?;
            let action = line.word("an action")?;
            Command::SetDefault {
                table,
                action,
                args: args(&mut line)?,
            }
        }
        "remove" => match line.word("\"all\"")?.as_str() {
            "all" | "ALL" => Command::RemoveAll,
            other => return Err(format!("expected \"all\", found \"{other}\"")),
        },
        "packet" => Command::Packet(line.int("a port")?, hex_bytes(&line.digits()?)?),
        "expect" => {
            let port = line.int("a port")?;
            let digits = line.digits()?;
            let expected = (!digits.is_empty()).then(|| expected(&digits));
            Command::Expect(port, expected.transpose()?)
        }
        "no_packet" => Command::NoPacket,
        "no_digest" => Command::NoDigest,
        "expect_digest" => {
            let name = line.word("a digest's name")?;
            let values = line.rest(|line| line.number("a value"))?;
            Command::ExpectDigest(name, (!values.is_empty()).then_some(values))
        }
        "wait" if line.is_empty() => Command::Wait(WAIT_MS),
        "wait" => Command::Wait(line.int("milliseconds")?),
        "check_counter" => check_counter(&mut line)?,
        _ => match (state(&name, &mut line)?, externs(&name, &mut line)?) {
            (Some(command), _) | (None, Some(command)) => command,
            (None, None) => traffic(&name, &mut line)?,
        },
    };
    match line.tokens.next() {
        None => Ok(command),
        Some(Token::Word(more)) => Err(format!("expected the end of the line, found \"{more}\"")),
        Some(Token::Mark(more)) => Err(format!("expected the end of the line, found \"{more}\"")),
    }
}

/// Parses a command for registers and counters.
fn state(name: &str, line: &mut Line) -> Parsed<Option<Command>> {
    let register = |line: &mut Line| line.word("a register");
    let counter = |line: &mut Line| line.word("a counter");
    let index = |line: &mut Line| line.int("an index");
    Ok(Some(match name {
        "register_write" => {
            Command::RegisterWrite(register(line)?, index(line)?, line.number("a value")?)
        }
        "register_check" => {
            Command::RegisterCheck(register(line)?, index(line)?, line.number("a value")?)
        }
        "register_read" => Command::RegisterRead(register(line)?, index(line)?),
        "register_reset" => Command::RegisterReset(register(line)?),
        "counter_read" => Command::CounterRead(counter(line)?, index(line)?),
        "counter_write" => Command::CounterWrite(
            counter(line)?,
            index(line)?,
            line.int("packets")?,
            line.int("bytes")?,
        ),
        _ => return Ok(None),
    }))
}

/// Parses a command for meters, value sets or action profiles.
fn externs(name: &str, line: &mut Line) -> Parsed<Option<Command>> {
    Ok(Some(match name {
        "meter_write" => {
            let (meter, index) = (line.word("a meter")?, line.int("an index")?);
            let rates = line.rest(|line| line.int("a number"))?;
            let rates = match <[u64; 4]>::try_from(rates) {
                Ok(rates) => Some(rates),
                Err(rates) if rates.is_empty() => None,
                Err(rates) => {
                    let found = rates.len();
                    return Err(format!("expected 4 numbers or none, found {found}"));
                }
            };
            Command::MeterWrite(meter, index, rates)
        }
        "meter_set_rates" => {
            let (meter, index) = (line.word("a meter")?, line.word("an index")?);
            Command::MeterSetRates(meter, index, rates(line)?)
        }
        "meter_array_set_rates" => Command::MeterArraySetRates(line.word("a meter")?, rates(line)?),
        "meter_get_rates" => Command::MeterGetRates(line.word("a meter")?, line.word("an index")?),
        "value_set_add" => Command::ValueSetAdd(line.word("a value set")?, line.rest(match_of)?),
        "member_add" => Command::MemberAdd {
            table: line.word("a table")?,
            member: line.int("a member")?,
            action: line.word("an action")?,
            args: args(line)?,
        },
        "group_add" => Command::GroupAdd(
            line.word("a table")?,
            line.int("a group")?,
            line.rest(|line| line.int("a member"))?,
        ),
        _ => return Ok(None),
    }))
}

/// Parses a meter's two rates, `RATE:BURST RATE:BURST`: per microsecond in the text, per second in the result.
fn rates(line: &mut Line) -> Parsed<[u64; 4]> {
    let mut numbers = [0; 4];
    for pair in numbers.chunks_exact_mut(2) {
        pair[0] = millionths(&line.word("RATE:BURST (first committed, then peak)")?)?;
        line.mark(":")?;
        pair[1] = line.int("a burst")?;
    }
    Ok(numbers)
}

/// The message for an unknown command, with a suggestion.
fn unknown(name: &str) -> String {
    let meant = ::names::nearest(name, COMMANDS.into_iter());
    let hint = meant.map_or_else(
        || "docs/conformance.md lists the commands".to_owned(),
        |meant| format!("did you mean \"{meant}\"?"),
    );
    format!("unknown command \"{name}\": {hint}")
}

/// Parses a command for multicast groups or clone sessions.
fn traffic(name: &str, line: &mut Line) -> Parsed<Command> {
    let port = |line: &mut Line| line.int("a port");
    let group = |line: &mut Line| line.int("a group");
    let node = |line: &mut Line| line.int("a node");
    let session = |line: &mut Line| line.int("a session");
    Ok(match name {
        "mc_group" => {
            let replica = |line: &mut Line| {
                let port = port(line)?;
                line.mark(":")?;
                Ok((port, line.int("an instance")?))
            };
            Command::Group(group(line)?, line.rest(replica)?)
        }
        "mc_mgrp_create" => Command::GroupCreate(group(line)?),
        "mc_node_create" => Command::NodeCreate(line.int("an instance")?, line.rest(port)?),
        "mc_node_update" => Command::NodeUpdate(node(line)?, line.rest(port)?),
        "mc_node_associate" => Command::NodeAssociate(group(line)?, node(line)?),
        "mirroring_add" => Command::Mirror(session(line)?, port(line)?),
        "mirroring_add_mc" => Command::MirrorGroup(session(line)?, group(line)?),
        "mirroring_delete" => Command::MirrorDelete(session(line)?),
        "mirroring_get" => Command::MirrorGet(session(line)?),
        _ => return Err(unknown(name)),
    })
}

fn add(line: &mut Line) -> Parsed<Command> {
    let table = line.word("a table")?;
    let mut priority = None;
    let mut key = Vec::new();
    loop {
        let name = line.word("a key field or an action")?;
        if line.eat(":") {
            key.push((name, match_of(line)?));
            continue;
        }
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && key.is_empty() && priority.is_none() {
            priority = Some(int::<u16>(&name)?.into());
            continue;
        }
        let args = args(line)?;
        let id = if line.eat("=") {
            Some(line.word("an entry's name")?)
        } else {
            None
        };
        return Ok(Command::Add {
            table,
            priority,
            key,
            action: name,
            args,
            id,
        });
    }
}

fn match_of(line: &mut Line) -> Parsed<Match> {
    let text = line.word("a value")?;
    if line.eat("/") {
        return Ok(Match::Prefix(number(&text)?, line.int("bits")?));
    }
    if line.eat("&&&") {
        return Ok(Match::Mask(number(&text)?, line.number("a mask")?));
    }
    if let Some((low, high)) = text.split_once("..") {
        return Ok(Match::Range(number(low)?, number(high)?));
    }
    if text.contains('*') {
        return masked(&text);
    }
    Ok(Match::Value(number(&text)?))
}

/// Parses the arguments of an action, `(PARAM:VALUE, ...)`.
fn args(line: &mut Line) -> Parsed<Vec<Named<Vec<u8>>>> {
    let mut args = Vec::new();
    line.mark("(")?;
    if line.eat(")") {
        return Ok(args);
    }
    loop {
        let name = line.word("a parameter")?;
        line.mark(":")?;
        args.push((name, line.number("a value")?));
        if !line.eat(",") {
            line.mark(")")?;
            return Ok(args);
        }
    }
}

fn check_counter(line: &mut Line) -> Parsed<Command> {
    let counter = line.word("a counter")?;
    let is_call = line.eat("(");
    let index = line.word("an index")?;
    if is_call {
        line.mark(")")?;
    }
    if line.is_empty() {
        return Ok(Command::CheckCounter {
            counter,
            index,
            counted: None,
            comparison: Comparison::Equal,
            value: 0,
        });
    }
    let counted = match line.word("packets or bytes")?.to_ascii_lowercase().as_str() {
        "packets" => Counted::Packets,
        "bytes" => Counted::Bytes,
        other => return Err(format!("expected packets or bytes, found \"{other}\"")),
    };
    let comparison = match line.tokens.next() {
        Some(Token::Mark(mark)) => Comparison::of(mark),
        _ => None,
    };
    Ok(Command::CheckCounter {
        counter,
        index,
        counted: Some(counted),
        comparison: comparison.ok_or("expected a comparison such as \"==\"")?,
        value: line.int("a number")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Command {
        let mut commands = parse(text).unwrap();
        assert_eq!(commands.len(), 1, "{text}");
        commands.remove(0).1
    }

    #[test]
    fn an_entry_has_a_priority_a_key_and_an_action() {
        let parsed = parse("add c.t 7 a:0x1**2 b:1/24  # text\n c.act(x:0x5, y:10)");
        assert!(parsed.is_err(), "an action is on the same line");
        let Command::Add {
            table,
            priority,
            key,
            action,
            args,
            id,
        } = one("add c.t 7 a:0x1**2 b:1/24 c:1..3 c.act(x:0x5, y : 10) = first")
        else {
            panic!("not an entry")
        };
        assert_eq!(
            (table.as_str(), priority, action.as_str()),
            ("c.t", Some(7), "c.act")
        );
        assert_eq!(key[0].1, Match::Mask(vec![0x10, 0x02], vec![0xf0, 0x0f]));
        assert!(matches!(&key[1].1, Match::Prefix(_, 24)));
        assert_eq!(key[2].1, Match::Range(vec![1], vec![3]));
        assert_eq!(args, [("x".into(), vec![5]), ("y".into(), vec![10])]);
        assert_eq!(id.as_deref(), Some("first"));
    }

    #[test]
    fn a_counter_is_checked_in_both_spellings() {
        let with_words = one("check_counter c 3 packets == 4");
        assert_eq!(with_words, one("check_counter c(3) packets == 4"));
        let Command::CheckCounter {
            counted,
            comparison,
            value,
            ..
        } = one("CHECK_COUNTER c(e1) bytes >= 64")
        else {
            panic!("not a check")
        };
        assert_eq!(
            (counted, comparison, value),
            (Some(Counted::Bytes), Comparison::GreaterOrEqual, 64)
        );
        assert!(matches!(
            one("check_counter c(e1)"),
            Command::CheckCounter { counted: None, .. }
        ));
        assert!(parse("check_counter c(1) packets 4").is_err());
    }

    #[test]
    fn groups_sessions_and_time() {
        assert_eq!(
            one("mc_node_create 1 2 3"),
            Command::NodeCreate(1, vec![2, 3])
        );
        assert_eq!(one("mc_group 4 1:2"), Command::Group(4, vec![(1, 2)]));
        assert_eq!(one("mirroring_add 5 6"), Command::Mirror(5, 6));
        assert_eq!(one("wait"), Command::Wait(1_000));
        assert_eq!(one("wait 5"), Command::Wait(5));
        assert_eq!(one("remove all"), Command::RemoveAll);
        assert!(parse("remove some").is_err());
    }

    #[test]
    fn meters_value_sets_and_profiles() {
        assert_eq!(
            one("meter_write m 3 1 2 3 4"),
            Command::MeterWrite("m".into(), 3, Some([1, 2, 3, 4]))
        );
        assert_eq!(
            one("meter_write m 3"),
            Command::MeterWrite("m".into(), 3, None)
        );
        assert!(parse("meter_write m 3 1 2").is_err());
        assert_eq!(
            one("meter_set_rates c.m 2 0.000005:4 0.00002:5"),
            Command::MeterSetRates("c.m".into(), "2".into(), [5, 4, 20, 5])
        );
        assert_eq!(
            one("METER_ARRAY_SET_RATES c.m 1:4 2.5:5"),
            Command::MeterArraySetRates("c.m".into(), [1_000_000, 4, 2_500_000, 5])
        );
        assert!(parse("meter_set_rates m 2 0.5:4").is_err());
        assert_eq!(
            one("expect_digest seen_t 0x1 2"),
            Command::ExpectDigest("seen_t".into(), Some(vec![vec![1], vec![2]]))
        );
        assert_eq!(
            one("value_set_add v 0x10&&&0xf0 5"),
            Command::ValueSetAdd(
                "v".into(),
                vec![Match::Mask(vec![0x10], vec![0xf0]), Match::Value(vec![5])]
            )
        );
        assert_eq!(
            one("group_add t 7 1 2"),
            Command::GroupAdd("t".into(), 7, vec![1, 2])
        );
        assert!(matches!(
            one("member_add t 1 act(x:5)"),
            Command::MemberAdd { member: 1, .. }
        ));
    }

    #[test]
    fn mistakes_name_their_line() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            message("packet 1 00\n\nfly 1"),
            "line 3: unknown command \"fly\": docs/conformance.md lists the commands"
        );
        assert_eq!(
            message("exepct 1 00\npacket 70000 00"),
            "line 1: unknown command \"exepct\": did you mean \"expect\"? (and 1 more)"
        );
        assert_eq!(
            message("packet 70000 00"),
            "line 1: a port: expected at most 65535, found 70000"
        );
        assert!(message("packet 1 0").contains("pairs of hexadecimal digits"));
        assert_eq!(
            message("mirroring_add 5 6 7"),
            "line 1: expected the end of the line, found \"7\""
        );
        assert_eq!(
            message("add t k:1"),
            "line 1: expected a key field or an action, found the end of the line"
        );
        assert!(message("expect 1 0g").contains("'g'"));
    }
}
