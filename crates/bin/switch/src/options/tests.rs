//! Tests the parsing and the checks of command lines.

use std::path::Path;

use dataplane::Pace;

use super::*;

fn parse(arguments: &str) -> Result<Options, String> {
    let words = ["reprise-switch"].into_iter();
    let words = words.chain(arguments.split_whitespace());
    let options = Options::try_parse_from(words).map_err(|error| error.to_string())?;
    options.check().map_err(|error| error.to_string())?;
    Ok(options)
}

#[test]
fn the_command_lines_definition_is_sound() {
    use clap::CommandFactory;
    Options::command().debug_assert();
}

#[test]
fn ports_are_read_and_shown_in_the_same_form() {
    for text in [
        "1@veth1",
        "510@a.5",
        "0@pcap:in.pcap",
        "2@pcap:a,b",
        "2@pcap:,b",
        "3@afxdp:eth1",
        "3@afxdp:eth1,10.0.1.100,10.0.1.101:5004,fd00::1,[fd00::1]:5004",
        "4@udp:127.0.0.1:5004",
        "4@udp:[::1]:0",
    ] {
        let port: PortOption = text.parse().expect(text);
        assert_eq!(port.to_string(), text);
    }
}

#[test]
fn what_is_wrong_with_a_port_is_said() {
    for (text, reason) in [
        ("veth1", "there is no \"@\""),
        ("@veth1", "\"\" is no port number"),
        ("511@veth1", "\"511\" is no port number from 0 to 510"),
        ("-1@veth1", "\"-1\" is no port number"),
        ("1@", "nothing behind the \"@\""),
        ("1@pcap:", "no file behind \"pcap:\""),
        ("1@pcap:,", "no file behind \"pcap:\""),
        ("1@afxdp:", "no interface behind \"afxdp:\""),
        ("1@afxdp:,10.0.0.1", "no interface behind \"afxdp:\""),
        ("1@afxdp:eth1,sfu", "\"sfu\" is no destination"),
        ("1@afxdp:eth1,", "\"\" is no destination"),
        ("1@afxdp:eth1,10.0.0.1,", "\"\" is no destination"),
        (
            "1@afxdp:eth1,10.0.0.1:65536",
            "\"10.0.0.1:65536\" is no destination",
        ),
        ("1@udp:5004", "\"5004\" is no address with a port"),
        ("1@udp:127.0.0.1", "\"127.0.0.1\" is no address with a port"),
    ] {
        let error = text.parse::<PortOption>().expect_err(text);
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn generators_are_read() {
    let read = |text: &str| text.parse::<GenerateOption>().expect(text);
    let load = read("a/load.pcap,port=7,rate=10000");
    assert_eq!(load.file, Path::new("a/load.pcap"));
    assert_eq!((&*load.name, load.port), ("load", PortId(7)));
    assert_eq!((load.pace, load.count), (Pace::per_second(10_000), None));
    assert!(load.starts_now);
    let all = read("x,start=command,name=storm,count=5,period=10us,port=0");
    assert_eq!((&*all.name, all.port), ("storm", PortId(0)));
    assert_eq!((all.pace, all.count), (Pace::every(10_000), Some(5)));
    assert!(!all.starts_now);
    for (period, ns) in [("1ns", 1), ("2ms", 2_000_000), ("3s", 3_000_000_000)] {
        let read = read(&format!("x,port=1,period={period}"));
        assert_eq!(read.pace, Pace::every(ns));
    }
}

#[test]
fn what_is_wrong_with_a_generator_is_said() {
    for (text, reason) in [
        ("", "there is no file"),
        (",port=1,rate=1", "there is no file"),
        ("x,rate=1", "there is no port"),
        (
            "x,port=511,rate=1",
            "port: \"511\" is no number from 0 to 510",
        ),
        ("x,port=1", "neither rate nor period"),
        ("x,port=1,rate=1,period=1s", "both rate and period"),
        (
            "x,port=1,rate=0",
            "rate: \"0\" is no number from 1 to 1000000000",
        ),
        ("x,port=1,rate=-1", "rate: \"-1\" is no number"),
        ("x,port=1,period=0us", "period: \"0us\" is no time"),
        ("x,port=1,period=10", "period: \"10\" is no time"),
        ("x,port=1,period=us", "period: \"us\" is no time"),
        ("x,port=1,period=20000000000s", "is no time"),
        (
            "x,port=1,rate=1,count=0",
            "count: \"0\" is no number from 1",
        ),
        (
            "x,port=1,rate=1,start=later",
            "\"later\" is neither now nor command",
        ),
        ("x,port=1,rate=1,speed=2", "\"speed\" is none of port, rate"),
        ("x,port=1,rate=1,rate=2", "\"rate\" is given twice"),
        ("x,port=1,rate", "there is no \"=\" in \"rate\""),
    ] {
        let error = text.parse::<GenerateOption>().expect_err(text);
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn generators_that_do_not_fit_the_other_options_are_refused() {
    for (arguments, reason) in [
        (
            "-i 1@a --grpc off --generate x,port=1,rate=1,start=command",
            "--generate x,port=1,rate=1,start=command: expected P4Runtime (--grpc)",
        ),
        (
            "-i 1@pcap:,y --generate x,port=1,rate=1",
            "expected count=N, since the switch ends with its captures",
        ),
        (
            "-i 1@pcap:,x --generate x,port=1,rate=1,count=1",
            "names it twice",
        ),
        (
            "-i 1@a --workers 2 --generate x,port=1,rate=1",
            "--generate x,port=1,rate=1: expected one worker for a generator, found --workers 2",
        ),
    ] {
        let error = parse(arguments).expect_err(reason);
        assert!(error.contains(reason), "{arguments}: {error}");
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    for (arguments, reason) in [
        ("-i 1@a -i 1@b", "port 1 is given twice: 1@a and 1@b"),
        (
            "-i 1@a -i 2@a",
            "interface \"a\" is given twice: 1@a and 2@a",
        ),
        (
            "-i 1@a -i 2@afxdp:a",
            "interface \"a\" is given twice: 1@a and 2@afxdp:a",
        ),
        (
            "-i 1@udp:[::1]:9 -i 2@udp:[::1]:9",
            "address [::1]:9 is given twice",
        ),
        ("-i 1@a --wait doze", "possible values: sleep, spin"),
        ("-i 510@a", "number of the CPU port"),
        ("-i 7@a --cpu-port 7", "number of the CPU port"),
        ("-i 1@a --cpu-port 511", "expected 0 to 510, found 511"),
        ("-i 1@pcap:,x -i 2@pcap:,x", "names it twice"),
        ("-i 1@pcap:x -i 2@pcap:y,x", "names it twice"),
        ("-i 1@pcap:x,y --trace-to y", "names it twice"),
        ("-i 1@a --entries e", "expected a program"),
        ("-i 1@a --p4info e", "expected a .json program"),
        ("-i 1@a --p4info e x.p4", "expected a .json program"),
        ("--grpc off x.json", "nothing to do"),
        ("-i 1@a --grpc 9559", "expected IP-ADDRESS:PORT"),
        (
            "-i 1@a --metrics nope",
            "expected IP-ADDRESS:PORT, for example 127.0.0.1:9090",
        ),
        ("-i 1@a --workers 0", "0 is not in 1..=64"),
        (
            "-i 1@pcap:x --workers 2",
            "1@pcap:x: expected one worker for a capture, found --workers 2",
        ),
        ("-i 1@a --workers 2 --trace", "--trace: expected one worker"),
        (
            "-i 1@a --workers 2 --egress-rate 9",
            "--egress-rate: expected one worker for a rate",
        ),
        ("-i 1@a --egress-rate 0", "0 is not in"),
        ("-i 1@a --rx-ring 0", "expected 1 to 1048576"),
    ] {
        let error = parse(arguments).expect_err(reason);
        assert!(error.contains(reason), "{arguments}: {error}");
    }
}

#[test]
fn p4runtime_is_served_unless_there_are_only_captures() {
    let served = |arguments: &str| parse(arguments).expect("sound").grpc_address();
    assert_eq!(served("-i 1@a"), DEFAULT_GRPC_ADDRESS.parse().ok());
    let found = served("-i 1@a -i 2@pcap:x");
    assert_eq!(found, DEFAULT_GRPC_ADDRESS.parse().ok());
    assert_eq!(served("-i 1@pcap:x"), None);
    assert_eq!(served("-i 1@a --grpc off"), None);
    let explicit = served("-i 1@pcap:x --grpc [::1]:0");
    assert_eq!(explicit, "[::1]:0".parse().ok());
}

#[test]
fn unix_sockets_are_named_as_grpc_names_them_and_abstract_ones_are_refused() {
    let options = |words: &str| parse(&format!("-i 1@a {words}"));
    let served = options("--grpc unix:///run/s1.sock --socket-mode 660").unwrap();
    assert_eq!(served.grpc_address(), "unix:/run/s1.sock".parse().ok());
    assert_eq!(served.socket_mode, Some(0o660));
    let served = options("--thrift-socket t.sock").unwrap();
    assert_eq!(served.thrift_address(), "unix:t.sock".parse().ok());
    for (words, reason) in [
        ("--grpc unix:@s1", "found an abstract name"),
        ("--thrift-socket @s1", "found an abstract name"),
        ("--socket-mode 660", "expected a Unix socket"),
        ("--grpc unix:s --socket-mode 888", "in octal"),
        ("--grpc unix:s --socket-mode 0", "let somebody write"),
        ("--grpc unix:s --socket-mode 555", "let somebody write"),
        ("--thrift-socket s --thrift-addr 1.2.3.4", "cannot be used"),
        ("--grpc unix:s --thrift-socket s", "name another file"),
        ("--thrift-socket s --thrift-port 1", "cannot be used"),
    ] {
        let error = options(words).expect_err(reason);
        assert!(error.contains(reason), "{words}: {error}");
    }
}

#[test]
fn a_queue_has_room_for_one_packet_at_least() {
    for queue in ["--ingress-queue", "--egress-queue", "--recirculation-queue"] {
        assert!(parse(&format!("-i 1@a {queue} 1")).is_ok());
        let error = parse(&format!("-i 1@a {queue} 0")).expect_err(queue);
        assert!(error.contains(queue), "{error}");
        assert!(error.contains("1.."), "{error}");
    }
}

#[test]
fn thrift_is_served_on_loopback_where_a_port_is_given() {
    let options = parse("-i 1@a").unwrap();
    assert_eq!(options.thrift_address(), None);
    let options = parse("-i 1@a --thrift-port 9090").unwrap();
    assert_eq!(options.thrift_address(), "127.0.0.1:9090".parse().ok());
    for (arguments, reason) in [
        ("--thrift-addr ::1", "--thrift-port <PORT>"),
        ("--thrift-port 9090 --thrift-addr x", "invalid IP address"),
    ] {
        let error = parse(&format!("-i 1@a {arguments}")).expect_err(reason);
        assert!(error.contains(reason), "{arguments}: {error}");
    }
}
