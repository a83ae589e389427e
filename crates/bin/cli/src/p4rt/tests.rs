mod random;
mod round_trip;

use std::borrow::Cow;
use std::sync::OnceLock;

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::Entity;
use p4runtime_proto::{text_format, with_texts};

use super::command::{self, Command};
use super::complete::{Candidates, complete, hint};
use super::grammar::{self, COMMANDS};
use super::info;
use super::print;
use super::schema::{Lack, Parsed, Schema};
use random::Random;
use testkit::text::{assert_has, cases};

/// The program of the P4Runtime server's tests, which has every kind of entity.
fn every_entity() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let text = include_str!("../../../../../testdata/compiler/ok/every_entity.p4info.txtpb");
        Schema::new(&text_format::parse_p4info(text).expect("P4Info"))
    })
}

/// A program with fields and values of every kind.
fn kinds() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| compiled(include_str!("../../tests/p4rt/kinds.p4")))
}

fn compiled(program: &str) -> Schema {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kinds.p4");
    std::fs::write(&path, program).expect("written");
    let p4info: P4Info = crate::commands::program::load(&path, None)
        .expect("it compiles")
        .p4info;
    Schema::new(&p4info)
}

fn parse(schema: &Schema, line: &str) -> Parsed<Option<Command>> {
    command::parse(schema, line, &mut Vec::new())
}

fn written(schema: &Schema, line: &str) -> Result<Entity, String> {
    match parse(schema, line)? {
        Some(Command::Write(updates)) => {
            let [update] = updates.as_slice() else {
                panic!("one update of {line}");
            };
            Ok(update.entity.clone().expect("an entity"))
        }
        other => panic!("no write: {line}: {other:?}"),
    }
}

fn refused(schema: &Schema, line: &str) -> String {
    match parse(schema, line) {
        Err(message) => message,
        Ok(command) => panic!("{line} is {command:?}"),
    }
}

fn again(schema: &Schema, line: &str) -> String {
    let entity = written(schema, line).unwrap_or_else(|error| panic!("{line}: {error}"));
    print::line(schema, &entity)
}

const KINDS_TYPED: &[(&str, Option<&str>)] = &[
    (
        "table add exact_fields mac=0x112233445566 ether_type=2048 vrf=\"default\" port=007 priority=3 wide=0xffffffffffffffffff -> nothing",
        None,
    ),
    (
        "table insert I.exact_fields mac=0x112233445566 ether_type=2048 vrf=\"default\" port=300 key.priority=3 wide=0xffffffffffffffffff -> nothing()",
        Some(
            "table add exact_fields mac=11:22:33:44:55:66 ether_type=0x800 vrf=default port=300 key.priority=3 wide=0xffffffffffffffffff -> nothing",
        ),
    ),
    (
        "table add prefixes 2001:db8::1/32 5 -> set_vrf(red, 0x1ff)",
        Some("table add prefixes address6=2001:db8::/32 small=5 -> set_vrf(vrf=red, port=511)"),
    ),
    (
        "table add ordered 02:00:00:00:00:01 address=10.1.2.3/8 prefix6=2001:db8:: port=5 priority=7 => I.set_vrf(port=1, vrf=x)",
        Some(
            "table add ordered mac=02:00:00:00:00:01&&&ff:ff:ff:ff:ff:ff address=10.0.0.0&&&255.0.0.0 prefix6=2001:db8::&&&ffff:ffff:ffff:ffff:: port=5..5 priority=7 -> set_vrf(vrf=x, port=1)",
        ),
    ),
    (
        "table add ordered * * prefix6=0x20010db800000000 &&& 0xffffffff00000000 * ::1 \"a key, with spaces\"=3&&&0xf priority=1 -> nothing",
        Some(
            "table add ordered prefix6=2001:db8::&&&ffff:ffff:: address6=::1 \"a key, with spaces\"=3&&&0xf priority=1 -> nothing",
        ),
    ),
    (
        "table add same_ends one.small=1 other.small=2 -> nothing",
        Some("table add same_ends one.small=1 other.small=2 -> nothing"),
    ),
    ("register set states 1 UP", Some("register set states 1 UP")),
    ("register set states 1 2", Some("register set states 1 UP")),
    ("register set states 1 7", Some("register set states 1 7")),
    ("register set flags * 1", Some("register set flags * true")),
    (
        "register set addresses 2 0x0a000001",
        Some("register set addresses 2 10.0.0.1"),
    ),
];

const ENTITIES_TYPED: &str = r#"
table add limited 00:00:00:00:00:07 timeout=1.5s meter(cir=1 cburst=2 pir=3 pburst=4) metadata=0102 -> metered
    table add limited src_addr=00:00:00:00:00:07 timeout=1500ms metadata=0x0102 meter(cir=1, cburst=2, pir=3, pburst=4) -> metered
table add many 7 -> {send(1) weight=2 watch=3, mark(0x10)}
    table add many dst_addr=00:00:00:00:00:07 -> {send(port=1) weight=2 watch=3, mark(value=16) weight=1}
table default ordered -> mark(9)
    table default ordered -> mark(value=9)
table reset ordered
    table default ordered
group add spread 5 {1, 2 weight=3 watch=1}
    group add spread 5 {1, 2 weight=3 watch=1}
valueset set trunks {0x800, 0x86dd}
    valueset set trunks {2048, 34525}
value_set set port_trunks {0x800/8 3}
    valueset set port_trunks {ether_type=0x800&&&0xff00 port=3}
mc add 1 {1, 2:5, 3:1|4:1}
    multicast add 1 {1, 2:5, 3:1|4:1}
clone add 5 {0x1} length=64 class=2
    clone add 5 {1} length=64 class=2
digest add seen_t
    digest add seen_t list=1 timeout=0s ack=0s
counter reset counts *
    counter set counts * packets=0 bytes=0
counter set limited 7 packets=1
    counter set own_count src_addr=00:00:00:00:00:07 packets=1 bytes=0
meter reset own_rate src_addr=7
    meter reset own_rate src_addr=00:00:00:00:00:07
"#;

#[test]
fn values_are_shown_as_what_they_are() {
    for (typed, shown) in KINDS_TYPED {
        match shown {
            Some(shown) => assert_eq!(again(kinds(), typed), *shown, "{typed}"),
            None => {
                let message = refused(kinds(), typed);
                assert_has(&message, "got \"007\"");
            }
        }
    }
    for (typed, shown) in cases(ENTITIES_TYPED) {
        assert_eq!(again(every_entity(), typed), shown, "{typed}");
    }
}

const WRONG: &str = r#"
table_add one a b => 1
    no command "table_add", did you mean `table add TABLE FIELD=VALUE
tabel list
    no command "tabel", did you mean `table`?
table ad one
    no command "table ad", expected one of add, modify
table modfiy one
    did you mean `table modify`?
table
    expected one of add, modify, delete
xyzzy
    no command "xyzzy": `help` lists all
table list orderd
    no table "orderd", did you mean "ordered"?
table add ordered dst_addr=1 -> mark(1)
    expected priority=NUMBER, the highest wins
table add replicated ether_type=70000 -> NoAction
    field "ether_type": expected a number of 16 bits, got 70000, which has 17 bits
table add replicated ether_type=10.0.0.1 -> NoAction
    field "ether_type": expected a number of 16 bits, like 1 or "0x1", got "10.0.0.1"
table add replicated type=1 -> NoAction
    no field "type" of table "replicated"
table add replicated 1 2 -> NoAction
    every field of table "replicated" has a value already, got "2"
table add replicated to_group 1 -> 3
    an action comes after the key: `-> to_group(...)`
table add replicated 1
    expected "-> ACTION(...)" after the key
table add replicated 1 ->
    expected an action of table "replicated" after "->", the line ends
table add replicated 1 -> to_grop(1)
    did you mean
table add replicated 1 -> to_group
    expected group=1 for action "to_group"
table add replicated 1 -> to_group(1, 2)
    action "to_group" has 1 parameter, got one more: "2"
table add replicated 1 -> to_group(group=70000)
    parameter "group": expected a number of 16 bits, got 70000, which has 17 bits
table add replicated 1 priority=3 -> NoAction
    leave the priority out
table add replicated 1 timeout=1s -> NoAction
    has no idle timeouts
table add limited 1 timeout=1x -> metered
    expected a time like 5s, 500ms, 10us or 100ns, got "1x"
table add limited -> metered
    expected src_addr=08:00:00:00:01:11 for table "limited"
table add limited * -> metered
    an exact field cannot be *
table add one 1 -> send(1)
    gets its actions from an action profile: expected member=ID
table delete limited 1 -> metered
    takes a key, without "->"
table default limited 1 -> NoAction
    has no key
counter list counts 8
    expected an index from 0 to 7, or * for every cell, got "8"
counter set cuonts 1 packets=1
    no counter "cuonts", did you mean "counts"?
counter list one
    table "one" has no direct counter
register set slots 1 0x1000000000000
    expected a number of 48 bits, got 0x1000000000000, which has 49 bits
register set slots 1
    expected a value, the line ends
packet out egress_port=512 00
    expected a number of 9 bits, got 512, which has 10 bits
packet out 00
    expected egress_port=1 of the packet_out header
packet out egress_port=1
    expected the packet's payload
packet out egress_port=1 0
    a payload in pairs of hexadecimal digits
multicast add 1 {1:x}
    expected PORT:INSTANCE, got "1:x"
multicast add 1
    expected {PORT:INSTANCE, ...}, the line ends
watch pakets
    expected packets, digests or idle, got "pakets"
begin never
    expected continue, rollback or atomic, got "never"
dump all
    expected --registers, got "all"
dump --registers all
    expected the end of the line, got "all"
primary take 0
    expected an election id from 1, got "0"
table add replicated 1 -> to_group(gruop=1)
    no parameter "gruop" of action "to_group", did you mean "group"?
table add replicated 1 -> metered
    no action "metered" of table "replicated", there is
table add limited 1 -> (
    expected a value, got "("
"#;

#[test]
fn what_is_wrong_says_what_was_expected_and_what_came() {
    let schema = every_entity();
    for (line, expected) in cases(WRONG) {
        let message = refused(schema, line);
        assert!(message.contains(expected), "{line}: {message}");
    }
    let message = refused(kinds(), "table add same_ends small=1 2 -> nothing");
    assert_has(&message, "may be \"one.small\" or \"other.small\"");
    let message = refused(kinds(), "table add prefixes ::/129 1 -> nothing");
    assert_has(
        &message,
        "expected a prefix length up to 128 after \"/\", got \"129\"",
    );
    let message = refused(
        kinds(),
        "table add ordered prefix6=2001:db8::1 priority=1 -> nothing",
    );
    assert_has(&message, "of which 64 bits are used");
    let message = refused(kinds(), "table add ordered port=5..4 priority=1 -> nothing");
    assert_has(&message, "expected LOW..HIGH");
    for line in [
        "table list",
        "table list t",
        "counter list x",
        "info",
        "packet out 00",
    ] {
        if line != "info" {
            let message = refused(&Schema::without(Lack::Pipeline), line);
            assert!(
                message.contains("the switch has no pipeline yet"),
                "{line}: {message}"
            );
        }
    }
}

/// Each command line, followed by the remark that the shell makes about it.
const NOTED: &str = r#"
table add prefixes 2001:db8::1/32 5 -> set_vrf(red, 1)
    field "address6": 2001:db8::1/32 is 2001:db8::/32, all other bits are ignored
table add ordered address=10.1.2.3/8 priority=7 -> nothing
    field "address": 10.1.2.3/8 is 10.0.0.0&&&255.0.0.0, all other bits are ignored
table list ordered address=10.1.2.3&&&255.0.0.0
    field "address": 10.1.2.3&&&255.0.0.0 is 10.0.0.0&&&255.0.0.0, all other bits are ignored
table list prefixes ::1/0
    field "address6": ::1/0 is *, all other bits are ignored
"#;

#[test]
fn what_a_prefix_or_a_mask_leaves_out_is_noted() {
    let notes = |schema: &Schema, line: &str| {
        let mut notes = Vec::new();
        let command = command::parse(schema, line, &mut notes);
        assert!(command.is_ok(), "{line}: {command:?}");
        notes
    };
    for (line, expected) in cases(NOTED) {
        assert_eq!(notes(kinds(), line), [expected], "{line}");
    }
    for line in [
        "table add prefixes 2001:db8::/32 5 -> set_vrf(red, 1)",
        "table add prefixes * 5 -> set_vrf(red, 1)",
        "table add ordered address=10.1.2.3 port=3..5 priority=7 -> nothing",
        "table list ordered address=10.0.0.0&&&255.0.0.0",
    ] {
        assert_eq!(notes(kinds(), line), [""; 0], "{line}");
    }
    let line = "valueset set port_trunks {0x801/8 3}";
    assert_eq!(
        notes(every_entity(), line),
        ["field \"ether_type\": 0x801/8 is 0x800&&&0xff00, all other bits are ignored"]
    );
}

#[test]
fn objects_are_counted_in_cells_or_members() {
    let all = info::about(every_entity(), None).expect("the program");
    for line in [
        "register       slots 8 cells",
        "value set      trunks 4 members",
    ] {
        assert!(all.contains(line), "{line} is not in\n{all}");
    }
    let all = info::about(kinds(), None).expect("the program");
    assert_has(&all, "register       flags 4 cells");
    let found = info::summary(&Schema::without(Lack::Pipeline));
    assert_eq!(found, "no pipeline");
    assert_eq!(
        info::summary(kinds()),
        "a program with 4 tables, 4 actions, 4 registers, 1 digest, 1 controller header"
    );
}

#[test]
fn names_that_others_chose_forge_no_line_and_command_no_terminal() {
    fn hostile(text: &str) -> Cow<'_, str> {
        format!("{text}\nerror: forged\x1b[2J").into()
    }
    let shown = |schema: &Schema| {
        let objects = info::json(schema, None);
        let objects = objects.as_array().expect("a list");
        let mut texts = vec![info::summary(schema)];
        texts.push(info::about(schema, None).expect("the program"));
        texts.extend(
            objects
                .iter()
                .map(|it| it["text"].as_str().expect("a text").to_owned()),
        );
        texts
    };
    let known = every_entity();
    let forged = shown(&Schema::new(&with_texts(&known.p4info, hostile)));
    assert_has(&forged[1], "\\nerror: forged\\u001b[2J");
    for (found, expected) in forged.iter().zip(shown(known)) {
        assert_eq!(found.lines().count(), expected.lines().count(), "{found}");
        assert!(found.lines().all(|line| !line.starts_with("error")));
        assert!(
            found
                .lines()
                .flat_map(str::chars)
                .all(printable::is_harmless)
        );
    }
}

fn words(schema: &Schema, line: &str) -> Vec<String> {
    match complete(schema, line, line.len()) {
        Candidates::Words { words, .. } => words,
        Candidates::File => vec!["a file".to_owned()],
    }
}

const OFFERED: &[(&str, &[&str])] = &[
    ("tab", &["table "]),
    ("co", &["counter ", "commit "]),
    ("table de", &["delete ", "default "]),
    ("table add li", &["limited "]),
    (
        "table add limited ",
        &[
            "src_addr=",
            "timeout=",
            "metadata=",
            "meter(",
            "counter(",
            "-> ",
        ],
    ),
    ("table add limited src_addr=1 ti", &["timeout="]),
    (
        "table add limited src_addr=1 meter(cir=1, p",
        &["pir=", "pburst="],
    ),
    ("table delete ordered ", &["dst_addr=", "priority="]),
    (
        "table add replicated ether_type=1 -> ",
        &["NoAction", "mirror(", "to_group("],
    ),
    ("table add replicated 1 -> to_group(", &["group="]),
    ("table add replicated 1 -> to_group(group=1 ", &[")"]),
    ("table add many dst_addr=1 -> ", &["member=", "group=", "{"]),
    ("table add many dst_addr=1 -> {se", &["send("]),
    (
        "table add many dst_addr=1 -> {send(1) ",
        &["weight=", "watch="],
    ),
    ("table default limited ", &["-> "]),
    ("member add ", &["bounded ", "shared ", "spread "]),
    ("member add spread 1 -> m", &["mark("]),
    ("group add spread 5 ", &["{"]),
    ("group add spread 5 {1 ", &["weight=", "watch="]),
    ("counter list ", &["counts ", "own_count "]),
    (
        "counter set own_count ",
        &["src_addr=", "packets=", "bytes="],
    ),
    (
        "meter set rates 1 cir=1 ",
        &["cburst=", "pir=", "pburst=", "eburst="],
    ),
    ("digest add seen_t ", &["list=", "timeout=", "ack="]),
    ("watch pa", &["packets "]),
    ("packet out ", &["egress_port=", "_pad="]),
    ("pipeline set ", &["a file"]),
    ("pipeline set x.json ", &["p4info=", "cookie="]),
    ("info lim", &["limited "]),
    ("help tab", &["table "]),
    ("help table a", &["add "]),
    ("help table add ", &[]),
    ("help dump ", &[]),
    ("dump ", &["--registers "]),
    ("xyzzy ", &[]),
    ("table add nowhere ", &[]),
    ("table # ", &[]),
    ("table \"", &[]),
];

#[test]
fn tab_offers_what_may_follow() {
    let schema = every_entity();
    for (line, expected) in OFFERED {
        assert_eq!(words(schema, line), *expected, "{line}");
    }
    let values = "table add exact_fields vrf=";
    assert_eq!(words(kinds(), values), ["default"]);
    assert_eq!(
        hint(kinds(), values, values.len()).as_deref(),
        Some("\"name\" (a string)")
    );
    assert_eq!(words(kinds(), "register set states 1 "), ["DOWN", "UP"]);
    assert_eq!(words(kinds(), "register set flags 1 t"), ["true"]);
    let line = "table add ordered address=";
    assert_eq!(
        hint(kinds(), line, line.len()).as_deref(),
        Some("10.0.1.1&&&MASK (32 bits)")
    );
    // Text after the cursor stays.
    let found = complete(schema, "table add li -> metered", "table add li".len());
    let expected = Candidates::Words {
        start: "table add ".len(),
        words: vec!["limited ".to_owned()],
    };
    assert_eq!(found, expected);
}

#[test]
fn no_line_is_a_panic() {
    let mut random = Random(3);
    let lines: Vec<String> = COMMANDS.iter().map(|it| it.example.to_owned()).collect();
    let mut n_commands = 0;
    for schema in [every_entity(), kinds()] {
        let entries = schema.p4info.tables.iter();
        let entries = entries.map(|table| {
            let mut random = Random(4);
            print::line(schema, &random.table_entry(schema, table))
        });
        for line in entries.chain(lines.iter().cloned()) {
            for cursor in (0..=line.len()).filter(|at| line.is_char_boundary(*at)) {
                complete(schema, &line, cursor);
                hint(schema, &line, cursor);
                n_commands +=
                    usize::from(parse(schema, &line[..cursor]).is_ok_and(|it| it.is_some()));
            }
            for _ in 0..50 {
                let mut bytes = line.clone().into_bytes();
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = b"(){},=\"#->&*/.: \\0x"[random.below(18) as usize];
                let line = String::from_utf8_lossy(&bytes);
                n_commands += usize::from(parse(schema, &line).is_ok_and(|it| it.is_some()));
            }
        }
    }
    assert!(n_commands > 500, "{n_commands}");
}

#[test]
fn every_command_has_its_help_and_an_example_of_its_own() {
    for usage in COMMANDS {
        let help = grammar::help(Some(usage.words)).expect("help");
        assert_has(&help, usage.example);
        assert!(usage.example.starts_with(usage.words), "{}", usage.words);
        assert!(usage.about.ends_with('.'), "{}", usage.about);
    }
    assert!(grammar::help(None).is_ok_and(|all| all.lines().count() > COMMANDS.len()));
    assert!(grammar::help(Some("tabel")).is_err_and(|message| message.contains("`table`")));
}
