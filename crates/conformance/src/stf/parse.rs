//! Text to commands.

/// A key field or argument by name.
pub type Named<T> = (String, T);

/// A command of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Adds a table entry.
    Add {
        /// Table.
        table: String,
        /// The higher wins; none in a table without priorities.
        priority: Option<i32>,
        /// Key fields; those left out match everything.
        key: Vec<Named<Match>>,
        /// Action.
        action: String,
        /// Its arguments.
        args: Vec<Named<Vec<u8>>>,
    },
    /// Sets a default action.
    SetDefault {
        /// Table.
        table: String,
        /// Action.
        action: String,
        /// Its arguments.
        args: Vec<Named<Vec<u8>>>,
    },
    /// Gives a frame.
    Packet(u16, Vec<u8>),
    /// Expects a frame: hexadecimal digits, `*` for any, perhaps `$` at the end; none: any frame.
    Expect(u16, Option<String>),
    /// Expects that no further frame has left.
    NoPacket,
    /// Does nothing: everything happens at once here.
    Wait,
    /// Makes a multicast group of ports and instances.
    Group(u32, Vec<(u16, u16)>),
    /// Makes an empty multicast group.
    GroupCreate(u32),
    /// Makes the next node: an instance and its ports.
    NodeCreate(u16, Vec<u16>),
    /// Adds a node's replicas to a group.
    NodeAssociate(u32, usize),
    /// Makes a clone session to a port.
    Mirror(u32, u16),
    /// Makes a clone session to the replicas of a group.
    MirrorGroup(u32, u32),
    /// Writes a register cell.
    RegisterWrite(String, u64, Vec<u8>),
    /// Compares a register cell.
    RegisterCheck(String, u64, Vec<u8>),
    /// Compares a counter cell.
    CheckCounter {
        /// Counter.
        counter: String,
        /// Cell.
        index: u64,
        /// Bytes rather than packets.
        bytes: bool,
        /// What it is.
        value: u64,
    },
}

/// What a key field matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// One value.
    Value(Vec<u8>),
    /// A prefix.
    Prefix(Vec<u8>, u32),
    /// A value under a mask.
    Mask(Vec<u8>, Vec<u8>),
    /// A closed interval.
    Range(Vec<u8>, Vec<u8>),
}

type Parsed<T> = Result<T, String>;

/// The commands of a test with their line numbers, from 1.
///
/// # Errors
/// The line, what was expected and what was found.
pub fn parse(text: &str) -> Parsed<Vec<(usize, Command)>> {
    let mut commands = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let command = command(line).map_err(|error| format!("line {}: {error}", index + 1))?;
            commands.push((index + 1, command));
        }
    }
    Ok(commands)
}

fn command(line: &str) -> Parsed<Command> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let words: Vec<&str> = rest.split_whitespace().collect();
    let word = |index: usize| {
        words
            .get(index)
            .copied()
            .ok_or_else(|| format!("{name}: expected a word {}", index + 1))
    };
    Ok(match name {
        "add" => add(rest)?,
        "setdefault" => {
            let (table, call) = rest
                .split_once(char::is_whitespace)
                .ok_or("expected an action")?;
            let (action, args) = call_of(call)?;
            Command::SetDefault {
                table: table.into(),
                action,
                args,
            }
        }
        "packet" => Command::Packet(int(word(0)?)?, hex_bytes(&words[1..].concat())?),
        "expect" => {
            let data = words[1..].concat();
            Command::Expect(int(word(0)?)?, (!data.is_empty()).then_some(data))
        }
        "no_packet" => Command::NoPacket,
        "wait" => Command::Wait,
        "register_write" | "register_check" => {
            let (register, index, value) = (word(0)?.into(), int(word(1)?)?, number(word(2)?)?);
            if name == "register_write" {
                Command::RegisterWrite(register, index, value)
            } else {
                Command::RegisterCheck(register, index, value)
            }
        }
        "check_counter" => {
            let bytes = match word(2)? {
                "packets" => false,
                "bytes" => true,
                other => return Err(format!("expected packets or bytes, found \"{other}\"")),
            };
            if word(3)? != "==" {
                return Err(format!("expected \"==\", found \"{}\"", word(3)?));
            }
            let (counter, index) = (word(0)?.into(), int(word(1)?)?);
            Command::CheckCounter {
                counter,
                index,
                bytes,
                value: int(word(4)?)?,
            }
        }
        _ => traffic(name, &words)?,
    })
}

/// Groups and sessions.
fn traffic(name: &str, words: &[&str]) -> Parsed<Command> {
    let word = |index: usize| {
        words
            .get(index)
            .copied()
            .ok_or_else(|| format!("{name}: expected a word {}", index + 1))
    };
    Ok(match name {
        "mc_group" => {
            let replica = |word: &&str| {
                let (port, rid) = word.split_once(':').ok_or("expected PORT:RID")?;
                Ok((int(port)?, int(rid)?))
            };
            let replicas: Parsed<Vec<_>> = words
                .get(1..)
                .unwrap_or_default()
                .iter()
                .map(replica)
                .collect();
            Command::Group(int(word(0)?)?, replicas?)
        }
        "mc_mgrp_create" => Command::GroupCreate(int(word(0)?)?),
        "mc_node_create" => {
            let ports: Parsed<Vec<u16>> = words
                .get(1..)
                .unwrap_or_default()
                .iter()
                .map(|word| int(word))
                .collect();
            Command::NodeCreate(int(word(0)?)?, ports?)
        }
        "mc_node_associate" => Command::NodeAssociate(int(word(0)?)?, int(word(1)?)?),
        "mirroring_add" => Command::Mirror(int(word(0)?)?, int(word(1)?)?),
        "mirroring_add_mc" => Command::MirrorGroup(int(word(0)?)?, int(word(1)?)?),
        other => return Err(format!("unknown command \"{other}\"")),
    })
}

fn add(rest: &str) -> Parsed<Command> {
    let open = rest
        .find('(')
        .ok_or("expected an action with parentheses")?;
    let start = rest[..open]
        .rfind(char::is_whitespace)
        .ok_or("expected a table")?;
    let (action, args) = call_of(&rest[start..])?;
    let mut words = rest[..start].split_whitespace().peekable();
    let table = words.next().ok_or("expected a table")?.to_owned();
    let priority = words
        .next_if(|word| !word.contains(':'))
        .map(int)
        .transpose()?;
    let mut key = Vec::new();
    for word in words {
        let (name, value) = word
            .split_once(':')
            .ok_or_else(|| format!("expected KEY:VALUE, found \"{word}\""))?;
        key.push((name.to_owned(), match_of(value)?));
    }
    Ok(Command::Add {
        table,
        priority,
        key,
        action,
        args,
    })
}

fn match_of(text: &str) -> Parsed<Match> {
    if let Some((value, prefix_len)) = text.split_once('/') {
        return Ok(Match::Prefix(number(value)?, int(prefix_len)?));
    }
    if let Some((value, mask)) = text.split_once("&&&") {
        return Ok(Match::Mask(number(value)?, number(mask)?));
    }
    if let Some((low, high)) = text.split_once("..") {
        return Ok(Match::Range(number(low)?, number(high)?));
    }
    if text.contains('*') {
        let value = text.replace('*', "0");
        let digits = text
            .strip_prefix("0x")
            .ok_or("expected 0x before digits with \"*\"")?;
        let mask: String = digits
            .chars()
            .map(|c| if c == '*' { '0' } else { 'f' })
            .collect();
        return Ok(Match::Mask(number(&value)?, number(&format!("0x{mask}"))?));
    }
    Ok(Match::Value(number(text)?))
}

fn call_of(text: &str) -> Parsed<(String, Vec<Named<Vec<u8>>>)> {
    let (name, args) = text.trim().split_once('(').ok_or("expected ACTION(...)")?;
    let (args, _) = args
        .rsplit_once(')')
        .ok_or("expected a closing parenthesis")?;
    let mut parsed = Vec::new();
    for arg in args.split(',').map(str::trim).filter(|arg| !arg.is_empty()) {
        let (name, value) = arg
            .split_once(':')
            .ok_or_else(|| format!("expected NAME:VALUE, found \"{arg}\""))?;
        parsed.push((name.trim().to_owned(), number(value.trim())?));
    }
    Ok((name.trim().to_owned(), parsed))
}

fn int<T: TryFrom<u64>>(text: &str) -> Parsed<T> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let number = parsed.map_err(|_| format!("expected a number, found \"{text}\""))?;
    T::try_from(number).map_err(|_| format!("{number} is too large here"))
}

/// A number of any length, big endian.
fn number(text: &str) -> Parsed<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("0x") {
        let padded = if digits.len() % 2 == 1 {
            format!("0{digits}")
        } else {
            digits.to_owned()
        };
        return hex_bytes(&padded);
    }
    let number: u64 = match text.strip_prefix("0b") {
        Some(digits) => u64::from_str_radix(digits, 2)
            .map_err(|_| format!("expected a number, found \"{text}\""))?,
        None => int(text)?,
    };
    Ok(number.to_be_bytes().to_vec())
}

fn hex_bytes(digits: &str) -> Parsed<Vec<u8>> {
    if digits.len() % 2 == 1 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(format!(
            "expected pairs of hexadecimal digits, found \"{digits}\""
        ));
    }
    let byte = |i: usize| u8::from_str_radix(&digits[i..i + 2], 16).map_err(|e| e.to_string());
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_a_priority_a_key_and_an_action() {
        let parsed = parse("add c.t 7 a:0x1**2 b:1/24  # text\n c.act(x:0x5, y:10)");
        assert!(parsed.is_err(), "an action is on the same line");
        let commands = parse("add c.t 7 a:0x1**2 b:1/24 c.act(x:0x5, y:10)").unwrap();
        let Command::Add {
            table,
            priority,
            key,
            action,
            args,
        } = &commands[0].1
        else {
            panic!("{commands:?}")
        };
        assert_eq!(
            (table.as_str(), *priority, action.as_str()),
            ("c.t", Some(7), "c.act")
        );
        assert_eq!(key[0].1, Match::Mask(vec![0x10, 0x02], vec![0xf0, 0x0f]));
        assert!(matches!(&key[1].1, Match::Prefix(_, 24)));
        assert_eq!(args.len(), 2);
    }

    #[test]
    fn mistakes_name_their_line() {
        let error = parse("packet 1 00\n\nfly 1").unwrap_err();
        assert_eq!(error, "line 3: unknown command \"fly\"");
        assert!(
            parse("packet 1 0")
                .unwrap_err()
                .contains("pairs of hexadecimal digits")
        );
    }
}
