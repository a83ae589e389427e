//! Writes every entity, reads it, and writes what was read.

use serde_json::{Value, json};
use testkit::text::{assert_has, cases};

use crate::switch::{Switch, documents, text};

/// A line for each entity, as the shell prints it.
const ALL: &str = "\
member add spread 1 -> send(port=1)
member add spread 2 -> mark(value=2)
member add shared 3 -> send(port=3)
group add spread 5 {1, 2 weight=3 watch=1} max_size=8
multicast add 1 {1, 2:5, 3:1|4:1} metadata=0x07
clone add 5 {1} length=64 class=2
table default limited -> NoAction
table add many dst_addr=00:00:00:00:00:07 -> group=5
table add one dst_addr=00:00:00:00:00:07 metadata=0x0102 -> member=3
table add few dst_addr=00:00:00:00:00:07 -> {send(port=1) weight=2 watch=3, mark(value=4) weight=1}
table add limited src_addr=00:00:00:00:00:09 timeout=5s meter(cir=1000, cburst=2000, pir=3000, pburst=4000) -> metered
table add ordered dst_addr=02:00:00:00:00:00&&&ff:00:00:00:00:00 priority=7 -> mark(value=3)
table default ordered -> mark(value=9)
table add begun dst_addr=00:00:00:00:00:05 -> mark(value=5)
table add replicated ether_type=0x1234 -> to_group(group=1)
table add replicated ether_type=0x1235 -> mirror(session=5)
meter set rates 3 cir=10 cburst=5 pir=20 pburst=10
valueset set trunks {2048, 34525}
valueset set port_trunks {ether_type=0x800&&&0xff00 port=3}
register set slots 3 23
digest add seen_t list=1 timeout=0s ack=1s
";

/// Lines without their comments, sorted, because the order of a table's entries is not defined.
fn lines(text: &str) -> Vec<&str> {
    let line = |line| str::split(line, "  #").next().unwrap_or_default();
    let mut lines: Vec<&str> = text.lines().map(line).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn what_is_written_is_printed_and_what_is_dumped_can_be_written_to_another_switch() {
    let switch = Switch::new();
    assert_eq!(switch.ok(ALL), "");
    let dump = switch.ok("dump --registers");
    let found = lines(&dump);
    for line in ALL.lines() {
        assert!(found.contains(&line), "{line} is not in\n{dump}");
    }
    assert_has(
        &dump,
        "# table add begun dst_addr=00:00:00:00:00:b2 -> mark(value=72)  # const",
    );

    let other = Switch::new();
    // The program's one initial entry that is not const exists already, so the script modifies it.
    let script = dump.replace(
        "table add begun dst_addr=00:00:00:00:00:b1",
        "table modify begun dst_addr=00:00:00:00:00:b1",
    );
    other.ok(&script);
    assert_eq!(lines(&other.ok("dump --registers")), found);
}

/// A secret field's value is not in a dump. Replaying the dump must not create an entry that matches any value.
#[test]
fn a_dump_names_secret_fields_and_is_refused_where_it_is_played_back() {
    let switch = Switch::without_program();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/p4rt/secret.p4");
    let set = format!("pipeline set {program}");
    switch.ok(&set);
    let entries = [
        "table add exacts t=34997 port=1 -> send(port=2)",
        "table add prefixes t=34997/16 port=1 -> send(port=2)",
        "table add masks t=34997&&&0xffff port=1 priority=7 -> send(port=2)",
        "table add ranges t=34997..34998 port=1 priority=7 -> send(port=2)",
        "table add options t=34997 port=1 priority=7 -> send(port=2)",
        "register set kept 1 34997",
    ];
    switch.ok(&entries.join("\n"));
    let dump = switch.ok("dump --registers");
    assert!(!dump.contains("34997") && !dump.contains("88b5"), "{dump}");
    let documents = switch.json("dump --registers");
    assert!(!documents[0].to_string().contains("34997"), "{documents:?}");
    let entities = documents[0]["entities"].as_array().expect("a list");
    let other = Switch::without_program();
    other.ok(&set);
    for table in ["exacts", "prefixes", "masks", "ranges", "options"] {
        let mut lines = dump.lines();
        let begin = format!("table add {table} ");
        let line = lines.find(|line| line.starts_with(&begin));
        let line = line.unwrap_or_else(|| panic!("{table} is not in {dump}"));
        assert_has(line, "t=<secret>");
        let error = other.fails(&[], line);
        assert_has(&error, "<secret>");
        let listed = other.ok(&format!("table list {table}"));
        assert!(!listed.contains("table add"), "{listed}");
        let name = format!("Tables.{table}");
        let document = entities.iter().find(|it| it["table"] == *name);
        let document = document.unwrap_or_else(|| panic!("{name} is in no document"));
        assert_eq!(document["match"]["t"], "<secret>", "{document}");
    }
    // A dump leaves out cells that read as zero.
    let cell = "register set kept 1 <secret>";
    assert_eq!(switch.ok("register list kept 1"), format!("{cell}\n"));
    assert_eq!(
        switch.json("register list kept 1")[0]["entities"][0]["value"],
        "<secret>"
    );
    other.fails(&[], cell);
}

#[test]
fn a_dump_has_no_cell_that_nobody_wrote_and_registers_only_when_asked_for() {
    let of_arrays = |dump: &str| -> Vec<String> {
        let nouns = ["meter", "register", "valueset", "counter"];
        let is_cell = |line: &&str| nouns.iter().any(|noun| line.starts_with(noun));
        let cells = dump.lines().filter(is_cell);
        cells.map(str::to_owned).collect()
    };
    let switch = Switch::new();
    assert_eq!(of_arrays(&switch.ok("dump --registers")), [""; 0]);
    switch.ok("meter set rates 3 cir=10 cburst=5 pir=20 pburst=10\nvalueset set trunks {7}\nregister set slots 3 23");
    let written = [
        "meter set rates 3 cir=10 cburst=5 pir=20 pburst=10",
        "valueset set trunks {7}",
    ];
    assert_eq!(of_arrays(&switch.ok("dump")), written);
    let with_registers = of_arrays(&switch.ok("dump --registers"));
    assert_eq!(with_registers[..2], written);
    assert_eq!(with_registers[2..], ["register set slots 3 23"]);
}

#[test]
fn a_group_keeps_its_size_when_its_members_change() {
    let switch = Switch::new();
    switch.ok("member add spread 1 -> send(1)\nmember add spread 2 -> send(2)\ngroup add spread 5 {1} max_size=8");
    switch.ok("group modify spread 5 {1 weight=2, 2}");
    let line = "group add spread 5 {1 weight=2, 2} max_size=8\n";
    assert_eq!(switch.ok("group list spread 5"), line);
    // The group is inserted in the same batch, so the shell cannot read the group's size from the switch.
    switch.ok(
        "begin\ngroup delete spread 5\ngroup add spread 5 {1} max_size=6\ngroup modify spread 5 {2}\ncommit",
    );
    let line = "group add spread 5 {2} max_size=6\n";
    assert_eq!(switch.ok("group list spread 5"), line);
    let error = switch.fails(&[], "group modify spread 5 {2} max_size=7");
    assert_has(&error, "cannot become 7");
}

#[test]
fn what_a_prefix_leaves_out_is_reported_with_the_line() {
    let switch = Switch::without_program();
    let router = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../examples/p4rt/router.p4"
    );
    switch.ok(&format!("pipeline set {router}"));
    let output = switch.script(&[], "\ntable add routes 13.0.0.1/8 -> drop");
    assert_eq!(
        text(&output.stderr),
        "reprise: line 2: field \"dst_addr\": 13.0.0.1/8 is 13.0.0.0/8, all other bits are ignored\n"
    );
    assert!(output.status.success());
}

/// Each script and its output after the changes.
const CHANGED: &str = "
table get replicated 0x1234
    table add replicated ether_type=0x1234 -> NoAction
table list replicated -> mirror
    table add replicated ether_type=0x1235 -> mirror(session=5)
table list one metadata=0102
    table add one dst_addr=00:00:00:00:00:07 metadata=0x0102 -> member=3
table default ordered
    table default ordered -> NoAction
member list spread 1
    member add spread 1 -> send(port=2)
group list
    group add spread 5 {1} max_size=8
multicast list 1
    multicast add 1 {2}
clone list
    clone add 5 {3}
digest list
    digest add seen_t list=10 timeout=1s ack=0s
counter list counts 3
    counter set counts 3 packets=7 bytes=8
counter list own_count
    counter set own_count src_addr=00:00:00:00:00:09 packets=1 bytes=2
meter list own_rate 9
    meter set own_rate src_addr=00:00:00:00:00:09 cir=1 cburst=1 pir=1 pburst=1
meter list rates 3
    meter set rates 3 cir=10 cburst=5 pir=20 pburst=10
register list slots 7
    register set slots 7 23
valueset list trunks
    valueset set trunks {}
";

#[test]
fn every_kind_is_changed_listed_and_deleted() {
    let switch = Switch::new();
    switch.ok(ALL);
    switch.ok("\
table modify replicated 0x1234 -> NoAction
member modify spread 1 -> send(2)
group modify spread 5 {1} max_size=8
multicast modify 1 {2}
clone modify 5 {3}
digest modify seen_t list=10 timeout=1s
counter set counts 3 packets=7 bytes=8
counter set own_count src_addr=9 packets=1 bytes=2
meter set own_rate 9 cir=1 cburst=1 pir=1 pburst=1
register set slots * 0x17
valueset clear trunks
table reset ordered
");
    for (list, expected) in cases(CHANGED) {
        assert_eq!(switch.ok(list), format!("{expected}\n"), "{list}");
    }
    assert_eq!(switch.ok("table list ordered priority=8"), "");
    assert_eq!(switch.ok("register list").lines().count(), 12);
    assert_eq!(switch.ok("counter list").lines().count(), 9);
    assert_eq!(switch.ok("meter list").lines().count(), 9);
    switch.ok("\
table clear replicated
table delete many 7
table delete one 7
table delete few 7
table delete limited 9
table delete ordered 02:00:00:00:00:00&&&ff:00:00:00:00:00 priority=7
table delete begun 5
group delete spread 5
member delete spread 1
member delete spread 2
member delete shared 3
multicast delete 1
clone delete 5
digest delete seen_t
meter reset rates 3
counter reset counts *
");
    let left =
        switch.ok("table list\nmember list\ngroup list\nmulticast list\nclone list\ndigest list");
    let left: Vec<&str> = left
        .lines()
        .filter(|line| !line.starts_with("table default"))
        .collect();
    assert_eq!(left.len(), 2, "the program's own entries: {left:?}");
}

#[test]
fn batches_are_one_write_with_an_atomicity() {
    let switch = Switch::new();
    let begun = "begin rollback\ntable add replicated 1 -> NoAction\nmulticast add 1 {1}\n";
    let printed = switch.ok(&format!("{begun}commit\ntable list replicated 1"));
    let expected = "2 updates written\ntable add replicated ether_type=0x1 -> NoAction\n";
    assert_eq!(printed, expected);

    let error = switch.fails(&[], "begin rollback\ntable add replicated 2 -> NoAction\ntable add replicated 1 -> NoAction\ncommit");
    assert_has(&error, "line 3: ");
    assert_has(&error, "(AlreadyExists): table add replicated 1");
    assert_has(&error, "line 4: 2 of 2 updates failed");
    assert_eq!(switch.ok("table list replicated 2"), "", "taken back");

    let error = switch.fails(
        &[],
        "begin\ntable add replicated 3 -> NoAction\ntable add replicated 1 -> NoAction\ncommit",
    );
    assert_has(&error, "line 4: 1 of 2 updates failed");
    let found = switch.ok("table list replicated 3").lines().count();
    assert_eq!(found, 1, "not taken back");

    let printed = switch.ok("begin atomic\ntable add replicated 4 -> NoAction\nabort");
    assert_eq!(printed, "1 update forgotten\n");
    let error = switch.fails(&[], "begin\ntable add replicated 4 -> NoAction");
    assert_has(&error, "end with an open batch of 1 update");
    assert_has(&error, "`commit` is missing");
    assert_eq!(switch.ok("table list replicated 4"), "");
}

#[test]
fn packets_and_digests_are_watched_and_sent() {
    let switch = Switch::new();
    let mut command = switch.command(&[]);
    command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let mut input = child.stdin.take().expect("piped");
    let output = std::io::BufReader::new(child.stdout.take().expect("piped"));
    let mut output = std::io::BufRead::lines(output);
    let mut line = || output.next().expect("a line").expect("UTF-8");
    let mut type_in =
        |text: &str| std::io::Write::write_all(&mut input, text.as_bytes()).expect("typed");
    type_in("digest add seen_t list=1\nprimary show\n");
    assert_eq!(line(), "this shell is primary, election id 1");
    switch.receive(2, 7, 9, 1);
    switch.receive(2, 7, 9, 0xff);
    type_in("watch digests count=1 time=20s\n");
    let found = line();
    assert_eq!(
        found,
        "digest seen_t {src_addr=00:00:00:00:00:09, port=2, kind=1}"
    );
    type_in("watch packets count=1 time=20s\n");
    let payload = format!("0000000000070000000000090800000000ff{}", "00".repeat(46));
    assert_eq!(
        line(),
        format!("packet in ingress_port=2 _pad=0 {payload}"),
        "it waited"
    );
    let payload = format!("0000000000070000000000090800{}", "00".repeat(50));
    type_in(&format!(
        "packet out egress_port=3 {payload}\nprimary show\n"
    ));
    line();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(120);
    let is_out = || switch.frames.transmitted().iter().any(|it| it.port.0 == 3);
    while !is_out() {
        assert!(std::time::Instant::now() < until, "no packet left port 3");
        std::thread::yield_now();
    }
    drop(input);
    assert!(child.wait().expect("its end").success());
}

#[test]
fn an_idle_entry_is_reported() {
    let switch = Switch::new();
    let ticks = std::sync::Arc::clone(&switch.frames);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let clock = std::thread::spawn(move || {
        // Only this thread moves the switch's clock.
        while stopped
            .recv_timeout(std::time::Duration::from_millis(5))
            .is_err()
        {
            ticks.advance(100_000_000);
        }
    });
    let printed =
        switch.ok("table add limited 9 timeout=1s -> metered\nwatch idle count=1 time=20s");
    let expected = "idle limited src_addr=00:00:00:00:00:09 timeout=1s\n";
    assert_eq!(printed, expected);
    stop.send(()).expect("it runs");
    clock.join().expect("its end");
}

#[test]
fn the_pipeline_is_set_verified_saved_and_shown() {
    let switch = Switch::without_program();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let program = format!("{root}/testdata/compiler/ok/every_entity.p4");
    let other = format!("{root}/examples/p4rt/router.p4");
    let error = switch.fails(&[], "table list");
    assert_has(&error, "line 1: the switch has no pipeline yet");
    let printed = switch.ok(&format!(
        "pipeline verify {program}\npipeline set {program} cookie=7\npipeline show"
    ));
    assert_has(&printed, "the switch can run it; nothing has changed");
    assert_has(&printed, "in force: every_entity.p4 with ");
    assert_has(&printed, "cookie 7");
    assert_has(
        &printed,
        "table          limited [src_addr:exact] -> metered | NoAction",
    );
    let printed = switch.ok(&format!(
        "pipeline save {other}\npipeline commit\ntable list routes\ninfo routes"
    ));
    assert_has(&printed, "table default routes -> to_controller(reason=1)");
    assert_has(&printed, "key hdr.ipv4.dst_addr lpm, 32 bits");
    switch.ok("table add routes 10.0.0.0/8 -> drop");
    switch.ok(&format!(
        "pipeline reconcile {other}\npipeline p4info x.p4info.txtpb\npipeline config x.json"
    ));
    assert!(
        switch
            .ok("table list routes")
            .contains("dst_addr=10.0.0.0/8 -> drop")
    );
    switch.ok("pipeline set x.json");
    assert_eq!(switch.ok("table list routes 10.0.0.0/8"), "");
    assert!(switch.ok("capabilities").starts_with("P4Runtime 1."));
    // Names may come from a file.
    let output = switch.script(&["--p4info", "x.p4info.txtpb", "-c", "info routes"], "");
    assert!(text(&output.stdout).contains("table RouterIngress.routes"));
}

#[test]
fn each_command_has_one_document_with_json() {
    let switch = Switch::new();
    let found = switch.json("# nothing\n\ntable add limited 9 timeout=5s -> metered\ntable list limited 9\nbegin\nclone add 5 {1}\ncommit\nprimary show\nregister list slots 3");
    assert_eq!(found.len(), 7, "{found:?}");
    assert_eq!(
        found[0],
        json!({"line": 3, "command": "table add limited 9 timeout=5s -> metered", "written": 1})
    );
    let entry = &found[1]["entities"][0];
    assert_eq!(entry["kind"], "table_entry");
    assert_eq!(entry["table"], "I.limited");
    let expected = json!({"hdr.ethernet.src_addr": "00:00:00:00:00:09"});
    assert_eq!(entry["match"], expected);
    assert_eq!(entry["action"], json!({"name": "I.metered", "params": {}}));
    assert_eq!(entry["idle_timeout_ns"], 5_000_000_000_i64);
    assert_eq!(entry["counts"], json!({"packets": 0, "bytes": 0}));
    assert!(
        entry["text"]
            .as_str()
            .is_some_and(|it| it.starts_with("table add limited src_addr="))
    );
    assert_eq!(found[1]["complete"], true);
    assert_eq!(found[2]["atomicity"], "CONTINUE_ON_ERROR");
    let expected = json!({"line": 6, "command": "clone add 5 {1}", "collected": 1});
    assert_eq!(found[3], expected);
    assert_eq!(found[4]["written"], 1);
    assert_eq!(found[5]["primary"], true);
    assert_eq!(found[6]["entities"][0]["value"], "0");

    let output = switch.script(
        &["--json", "--keep-going"],
        "clone add 5 {1}\nclone list\nxyzzy",
    );
    assert_eq!(output.status.code(), Some(1));
    let found = documents(&output.stdout);
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(found[0]["failed_updates"][0]["code"], "AlreadyExists");
    assert!(
        found[0]["error"]
            .as_str()
            .is_some_and(|it| it.ends_with("(AlreadyExists)") && !it.contains("line 1"))
    );
    assert_eq!(found[0]["failed_updates"][0]["command"], "clone add 5 {1}");
    assert_eq!(found[1]["entities"][0]["session"], 5);
    assert_eq!(found[2]["command"], "xyzzy");
    let expected = json!({"failed": 2, "lines": 3, "error": "2 of 3 lines failed"});
    assert_eq!(found[3], expected);

    let output = switch.script(&["--json", "-c", "table list nowhere"], "");
    let found: Vec<Value> = documents(&output.stdout);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0]["error"]
            .as_str()
            .is_some_and(|it| it.contains("no table")),
        "{found:?}"
    );
}

#[test]
fn a_long_list_comes_in_parts_and_a_reader_that_goes_away_is_no_error() {
    const N: usize = 900;
    let switch = Switch::new();
    let adds: String = (0..N)
        .map(|n| format!("table add replicated {n} -> to_group({n})\n"))
        .collect();
    let setup = switch.folder.path().join("setup.p4rt");
    std::fs::write(&setup, format!("begin\n{adds}commit\n")).expect("written");
    let printed = switch.ok("source setup.p4rt");
    assert_eq!(printed, format!("{N} updates written\n"));
    assert_eq!(switch.ok("table list replicated").lines().count(), N + 1);
    let mut shell = switch.command(&[
        "-c",
        "table list replicated\ntable list\ntable list replicated",
    ]);
    let mut child = shell
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("its end");
    assert_eq!(
        (output.status.code(), text(&output.stderr).as_str()),
        (Some(0), "")
    );
    let printed = switch.ok("table clear replicated");
    assert_eq!(printed, format!("{N} entries deleted\n"));
}
