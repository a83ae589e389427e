//! The grammar: every command with its words, arguments, effect and an example. `--help`, `help`, completion and
//! messages are generated from it.

use p4runtime_client::Object;

use super::schema::Parsed;
use super::typed::Items;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arg {
    None,
    /// The name of an object of this kind, and the rest of the line.
    Object(Object),
    /// The name of a counter or direct counter. `Meter` is the name of a meter or direct meter.
    Counter,
    Meter,
    File,
    Words(&'static [&'static str]),
    PacketOut,
}

/// A command: its words, arguments and effect, and an example. The example is for a program that has the objects that
/// the example names.
#[derive(Debug)]
pub struct Usage {
    pub words: &'static str,
    pub args: &'static str,
    pub about: &'static str,
    pub example: &'static str,
    pub arg: Arg,
}

macro_rules! usages {
    ($($words:literal $args:literal $arg:expr, $about:literal, $example:literal;)*) => {
        &[$(Usage { words: $words, args: $args, about: $about, example: $example, arg: $arg }),*]
    };
}

const TABLE: Arg = Arg::Object(Object::Table);
const PROFILE: Arg = Arg::Object(Object::ActionProfile);
const REGISTER: Arg = Arg::Object(Object::Register);
const VALUE_SET: Arg = Arg::Object(Object::ValueSet);
const DIGEST: Arg = Arg::Object(Object::Digest);

pub const COMMANDS: &[Usage] = usages! {
    "table add" "TABLE FIELD=VALUE... [priority=N] [timeout=TIME] [metadata=HEX] [meter(...)] [counter(...)] -> ACTION(PARAM=VALUE, ...)" TABLE,
        "Insert an entry.", "table add routes dst=10.0.1.0/24 -> forward(dst=08:00:00:00:01:11, port=2)";
    "table modify" "TABLE FIELD=VALUE... -> ACTION(...)" TABLE,
        "Change an entry's action and attributes.", "table modify routes dst=10.0.1.0/24 -> drop";
    "table delete" "TABLE FIELD=VALUE... [priority=N]" TABLE,
        "Delete an entry.", "table delete routes dst=10.0.1.0/24";
    "table list" "[TABLE [FIELD=VALUE...] [priority=N] [metadata=HEX] [-> ACTION]]" TABLE,
        "Print the entries of all tables, or those that match a filter, as commands that write them.", "table list routes -> forward";
    "table get" "TABLE FIELD=VALUE... [priority=N]" TABLE,
        "Print one entry.", "table get routes dst=10.0.1.0/24";
    "table default" "TABLE [-> ACTION(...)]" TABLE,
        "Set the default action, or print it.", "table default routes -> drop";
    "table reset" "TABLE" TABLE,
        "Set the default action to the program's own.", "table reset routes";
    "table clear" "TABLE" TABLE,
        "Delete every entry of a table; the default action stays.", "table clear routes";
    "member add" "PROFILE ID -> ACTION(...)" PROFILE,
        "Insert a member of an action profile.", "member add spread 1 -> send(port=1)";
    "member modify" "PROFILE ID -> ACTION(...)" PROFILE,
        "Change a member's action.", "member modify spread 1 -> send(port=2)";
    "member delete" "PROFILE ID" PROFILE,
        "Delete a member.", "member delete spread 1";
    "member list" "[PROFILE [ID]]" PROFILE,
        "Print members.", "member list spread";
    "group add" "PROFILE ID {MEMBER weight=N watch=PORT, ...} [max_size=N]" PROFILE,
        "Insert a group of members.", "group add spread 5 {1, 2 weight=3 watch=1}";
    "group modify" "PROFILE ID {MEMBER weight=N watch=PORT, ...} [max_size=N]" PROFILE,
        "Change a group's members.", "group modify spread 5 {1}";
    "group delete" "PROFILE ID" PROFILE,
        "Delete a group.", "group delete spread 5";
    "group list" "[PROFILE [ID]]" PROFILE,
        "Print groups.", "group list";
    "counter list" "[COUNTER [INDEX | FIELD=VALUE...]]" Arg::Counter,
        "Print counters: cells of an array, or direct counters with the keys of their entries.", "counter list counts 3";
    "counter set" "COUNTER INDEX|*|FIELD=VALUE... packets=N bytes=N" Arg::Counter,
        "Set a counter; * is every cell.", "counter set counts 3 packets=0 bytes=0";
    "counter reset" "COUNTER INDEX|*|FIELD=VALUE..." Arg::Counter,
        "Set a counter to 0.", "counter reset counts *";
    "meter list" "[METER [INDEX | FIELD=VALUE...]]" Arg::Meter,
        "Print meters: cells of an array, or direct meters with the keys of their entries.", "meter list rates";
    "meter set" "METER INDEX|*|FIELD=VALUE... cir=RATE cburst=SIZE pir=RATE pburst=SIZE [eburst=SIZE]" Arg::Meter,
        "Set a meter's rates, in its unit a second, and its bursts.", "meter set rates 3 cir=10 cburst=5 pir=20 pburst=10";
    "meter reset" "METER INDEX|*|FIELD=VALUE..." Arg::Meter,
        "Remove a meter's rates: every packet is then green.", "meter reset rates 3";
    "register list" "[REGISTER [INDEX]]" REGISTER,
        "Print cells of registers.", "register list slots 3";
    "register set" "REGISTER INDEX|* VALUE" REGISTER,
        "Set a cell; * is every cell.", "register set slots 3 0x17";
    "valueset list" "[VALUE_SET]" VALUE_SET,
        "Print the members of value sets.", "valueset list";
    "valueset set" "VALUE_SET {VALUE, ...}" VALUE_SET,
        "Set all members of a value set.", "valueset set trunks {0x800, 0x86dd}";
    "valueset clear" "VALUE_SET" VALUE_SET,
        "Remove all members of a value set.", "valueset clear trunks";
    "multicast add" "GROUP {PORT:INSTANCE|BACKUP_PORT:INSTANCE, ...} [metadata=HEX]" Arg::None,
        "Insert a multicast group.", "multicast add 1 {1, 2:5, 3:1|4:1}";
    "multicast modify" "GROUP {PORT:INSTANCE, ...} [metadata=HEX]" Arg::None,
        "Change a group's replicas.", "multicast modify 1 {2}";
    "multicast delete" "GROUP" Arg::None,
        "Delete a multicast group.", "multicast delete 1";
    "multicast list" "[GROUP]" Arg::None,
        "Print multicast groups.", "multicast list";
    "clone add" "SESSION {PORT:INSTANCE, ...} [length=BYTES] [class=N]" Arg::None,
        "Insert a clone session.", "clone add 5 {1} length=64";
    "clone modify" "SESSION {PORT:INSTANCE, ...} [length=BYTES] [class=N]" Arg::None,
        "Change a clone session.", "clone modify 5 {2}";
    "clone delete" "SESSION" Arg::None,
        "Delete a clone session.", "clone delete 5";
    "clone list" "[SESSION]" Arg::None,
        "Print clone sessions.", "clone list";
    "digest add" "DIGEST [list=N] [timeout=TIME] [ack=TIME]" DIGEST,
        "Ask for a digest: list is the most digests in a list, timeout the longest time until a list is sent, ack the time until an unacknowledged list is sent again.", "digest add seen_t list=1 ack=1s";
    "digest modify" "DIGEST [list=N] [timeout=TIME] [ack=TIME]" DIGEST,
        "Change these settings of a digest.", "digest modify seen_t list=10 timeout=1s";
    "digest delete" "DIGEST" DIGEST,
        "Stop asking for a digest.", "digest delete seen_t";
    "digest list" "[DIGEST]" DIGEST,
        "Print which digests are asked for.", "digest list";
    "watch" "[packets] [digests] [idle] [count=N] [time=TIME] [ack=no]" Arg::Words(&["packets", "digests", "idle", "count=", "time=", "ack=no"]),
        "Print packet-ins, digests and idle timeouts as they come, until Ctrl-C, count or time. Digests are acknowledged.", "watch packets count=1 time=5s";
    "packet out" "FIELD=VALUE... PAYLOAD" Arg::PacketOut,
        "Send a packet, its payload in hexadecimal.", "packet out egress_port=1 ffffffffffff0200000000010800";
    "pipeline show" "" Arg::None,
        "Print the program's name, its objects and its cookie.", "pipeline show";
    "pipeline set" "PROGRAM [p4info=FILE] [cookie=N]" Arg::File,
        "Load a program, P4 source or BMv2 JSON with its P4Info; all state of the previous program is lost.", "pipeline set p4/sfu.p4 cookie=7";
    "pipeline verify" "PROGRAM [p4info=FILE]" Arg::File,
        "Ask whether the switch can run a program; nothing changes.", "pipeline verify p4/sfu.p4";
    "pipeline save" "PROGRAM [p4info=FILE] [cookie=N]" Arg::File,
        "Send a program for a later `pipeline commit`. Reads and writes are for it from now on; packets still use the previous program.", "pipeline save p4/sfu.p4";
    "pipeline commit" "" Arg::None,
        "Put the saved program into force.", "pipeline commit";
    "pipeline reconcile" "PROGRAM [p4info=FILE] [cookie=N]" Arg::File,
        "Load a program and keep what controllers have written.", "pipeline reconcile p4/sfu.p4";
    "pipeline p4info" "FILE" Arg::File,
        "Write the switch's P4Info to a file.", "pipeline p4info program.p4info.txtpb";
    "pipeline config" "FILE" Arg::File,
        "Write the switch's device config (BMv2 JSON) to a file.", "pipeline config program.json";
    "pipeline reload" "" Arg::None,
        "Read the P4Info again, after another controller set a program.", "pipeline reload";
    "info" "[OBJECT]" Arg::Words(&[]),
        "Print what the program offers, or all about an object.", "info routes";
    "dump" "[--registers]" Arg::Words(&["--registers"]),
        "Print what a controller would write to get the same state, in that order; --registers: with the cells of registers, whether a controller or a packet wrote them.", "dump";
    "begin" "[continue|rollback|atomic]" Arg::Words(&["continue", "rollback", "atomic"]),
        "Collect writes until `commit`: CONTINUE_ON_ERROR, ROLLBACK_ON_ERROR or DATAPLANE_ATOMIC.", "begin rollback";
    "commit" "" Arg::None,
        "Send what was collected as one Write.", "commit";
    "abort" "" Arg::None,
        "Forget what was collected.", "abort";
    "primary show" "" Arg::None,
        "Print whether this shell may write, and the election id.", "primary show";
    "primary take" "[ELECTION_ID]" Arg::None,
        "Become primary, with this election id or with one above the highest id so far.", "primary take";
    "primary release" "" Arg::None,
        "Give up the primary role; the next write takes it again.", "primary release";
    "capabilities" "" Arg::None,
        "Print the P4Runtime version that the server speaks.", "capabilities";
    "source" "FILE" Arg::File,
        "Run the commands of a file.", "source setup.p4rt";
    "help" "[COMMAND]" Arg::Words(&[]),
        "Print all commands, or all about one.", "help table add";
    "exit" "" Arg::None,
        "End the shell, as Ctrl-D does.", "exit";
};

/// Synonyms of verbs.
const OTHER_WORDS: &[(&str, &str)] = &[
    ("insert", "add"),
    ("create", "add"),
    ("update", "modify"),
    ("remove", "delete"),
    ("del", "delete"),
    ("rm", "delete"),
    ("show", "list"),
    ("dump", "list"),
    ("ls", "list"),
    ("get", "list"),
    ("read", "list"),
    ("write", "set"),
    ("set_default", "default"),
    ("reset_default", "reset"),
];
const OTHER_NOUNS: &[(&str, &str)] = &[
    ("tables", "table"),
    ("value_set", "valueset"),
    ("mc", "multicast"),
    ("mirror", "clone"),
    ("quit", "exit"),
    ("?", "help"),
];

/// Finds the command with which a line begins, and removes the command's words from `items`.
pub fn usage(items: &mut Items) -> Parsed<&'static Usage> {
    let first = items.expect_word("a command")?;
    let noun = other(OTHER_NOUNS, &first);
    let of_noun: Vec<&Usage> = COMMANDS
        .iter()
        .filter(|it| it.words.split(' ').next() == Some(noun))
        .collect();
    match of_noun.as_slice() {
        [] => return Err(unknown(&first)),
        [usage] if !usage.words.contains(' ') => return Ok(usage),
        _ => {}
    }
    let verbs: Vec<&str> = of_noun
        .iter()
        .filter_map(|it| it.words.split(' ').nth(1))
        .collect();
    let all = verbs.join(", ");
    let Some(verb) = items.word() else {
        let begin = match noun {
            "primary" => return find_usage("primary show"),
            "pipeline" if items.is_empty() => return find_usage("pipeline show"),
            noun => format!("expected one of {all} after \"{noun}\""),
        };
        return Err(begin);
    };
    let is_verb = |verb: &str| verbs.contains(&verb);
    let meant = if is_verb(&verb) {
        verb.as_str()
    } else {
        other(OTHER_WORDS, &verb)
    };
    if is_verb(meant) {
        return find_usage(&format!("{noun} {meant}"));
    }
    Err(match names::nearest(&verb, verbs.iter().copied()) {
        Some(near) => format!("no command \"{noun} {verb}\", did you mean `{noun} {near}`?"),
        None => format!("no command \"{noun} {verb}\", expected one of {all} after \"{noun}\""),
    })
}

fn find_usage(words: &str) -> Parsed<&'static Usage> {
    let found = COMMANDS.iter().find(|it| it.words == words);
    found.ok_or_else(|| format!("no command \"{words}\""))
}

fn other<'w>(words: &[(&str, &'static str)], word: &'w str) -> &'w str {
    let found = words.iter().find(|(other, _)| *other == word);
    found.map_or(word, |(_, meant)| meant)
}

/// The error for an unknown command. For a command of BMv2's command line, such as `table_add`, it names the shell's
/// command, whose arguments have another order.
fn unknown(word: &str) -> String {
    let spaced = word.replace('_', " ");
    let spaced = spaced.replace("mc mgrp create", "multicast add");
    let spaced = spaced.replace("table dump", "table list");
    let spaced = spaced.replace("table set default", "table default");
    let spaced = spaced.replace("mirroring", "clone");
    let spaced = spaced.replace("register write", "register set");
    let spaced = spaced.replace(" read", " list");
    if let Some(usage) = COMMANDS
        .iter()
        .find(|it| it.words.contains(' ') && it.words == spaced)
    {
        return format!(
            "no command \"{word}\", did you mean `{} {}`?",
            usage.words, usage.args
        );
    }
    let nouns = COMMANDS.iter().filter_map(|it| it.words.split(' ').next());
    match names::nearest(word, nouns) {
        Some(near) => format!("no command \"{word}\", did you mean `{near}`?"),
        None => format!("no command \"{word}\": `help` lists all"),
    }
}

/// The output of `help COMMAND`, or of `help`.
pub fn help(words: Option<&str>) -> Parsed<String> {
    let Some(words) = words else {
        let width = COMMANDS.iter().map(|it| it.words.len()).max().unwrap_or(0);
        let lines = COMMANDS
            .iter()
            .map(|it| format!("  {:width$}  {}", it.words, it.about));
        let lines: Vec<String> = lines.collect();
        return Ok(format!("{}\n\n{NOTATION}", lines.join("\n")));
    };
    let about = |it: &Usage| {
        let line = format!("{} {}", it.words, it.args);
        format!(
            "{}\n    {}\n    Example: {}",
            line.trim_end(),
            it.about,
            it.example
        )
    };
    let of_words = COMMANDS
        .iter()
        .filter(|it| it.words == words || it.words.split(' ').next() == Some(words));
    let found: Vec<String> = of_words.map(about).collect();
    if found.is_empty() {
        Err(unknown(words))
    } else {
        Ok(found.join("\n"))
    }
}

pub const NOTATION: &str = "\
Names may leave out what comes before their last dots.
Values by the field's type: numbers (17, 0x11), Ethernet, IPv4 and IPv6
addresses, names of enum members, \"strings\".
Matches: VALUE, VALUE/PREFIX_LENGTH, VALUE&&&MASK, LOW..HIGH, * for anything
(or left out).
Fields and parameters may be written without their names, in their order.
# begins a comment. `help COMMAND` says more about one.";
