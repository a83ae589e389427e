use std::time::Duration;

use super::*;

const KEY: [u8; KEY_LEN] = [7; KEY_LEN];

fn hello() -> Hello {
    Hello {
        kind: Kind::Hello,
        leg: 0x0102_0304,
        time_ms: 1_764_000_000_000,
        nonce: [9; NONCE_LEN],
    }
}

fn origin() -> Origin {
    Origin {
        port: 3,
        mac: [2, 0, 0, 0, 0, 1],
        address: "192.0.2.1".parse().expect("an address"),
        udp_port: 5000,
        own_address: "192.0.2.254".parse().expect("an address"),
    }
}

#[test]
fn a_signed_hello_is_read_as_it_was_and_no_bit_of_it_can_change() {
    let bytes = hello().sign(&KEY);
    assert_eq!(Hello::decode(&bytes), Ok(hello()));
    assert!(is_signed_with(&bytes, &KEY));
    assert!(!is_signed_with(&bytes, &[8; KEY_LEN]));
    assert!(!is_signed_with(&bytes[..LEN - 1], &KEY));
    for bit in 0..LEN * 8 {
        let mut changed = bytes;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(!is_signed_with(&changed, &KEY), "bit {bit}");
    }
}

#[test]
fn what_is_no_hello_says_why() {
    let bytes = hello().sign(&KEY);
    let with = |at: usize, value: u8| {
        let mut changed = bytes;
        changed[at] = value;
        Hello::decode(&changed)
    };
    assert_eq!(Hello::decode(&bytes[1..]), Err(NoHello::Length(LEN - 1)));
    assert_eq!(with(0, b'X'), Err(NoHello::Magic));
    assert_eq!(with(2, 2), Err(NoHello::Version(2)));
    assert_eq!(with(3, 4), Err(NoHello::Kind(4)));
    assert_eq!(with(4, 1), Err(NoHello::Kind(1)));
}

#[test]
fn the_switch_answers_with_the_hello_itself() {
    let sent = hello().sign(&KEY);
    let mut answer = sent;
    answer[3] = Kind::Alive as u8;
    assert!(is_alive(&answer, &sent));
    assert!(!is_alive(&sent, &sent));
    answer[20] ^= 1;
    assert!(!is_alive(&answer, &sent));
}

#[test]
fn a_nonce_is_good_for_one_leg_and_origin_for_ten_to_twenty_seconds() {
    let nonces = Nonces::new([1; KEY_LEN]);
    let now_ms = 25_000;
    let nonce = nonces.nonce(5, &origin(), now_ms);
    let is_good = |leg, origin: &Origin, now_ms| nonces.is_nonce(&nonce, leg, origin, now_ms);
    assert!(is_good(5, &origin(), now_ms));
    assert!(is_good(5, &origin(), now_ms + NONCE_LIFE_MS));
    assert!(!is_good(5, &origin(), now_ms + 2 * NONCE_LIFE_MS));
    assert!(!is_good(6, &origin(), now_ms));
    let address = "192.0.2.2".parse().expect("an address");
    let others = [
        Origin {
            port: 4,
            ..origin()
        },
        Origin {
            mac: [2, 0, 0, 0, 0, 2],
            ..origin()
        },
        Origin {
            address,
            ..origin()
        },
        Origin {
            udp_port: 5001,
            ..origin()
        },
        Origin {
            own_address: address,
            ..origin()
        },
    ];
    for other in others {
        assert!(!is_good(5, &other, now_ms), "{other:?}");
    }
    assert!(!Nonces::new([2; KEY_LEN]).is_nonce(&nonce, 5, &origin(), now_ms));
    assert_ne!(nonce, [0; NONCE_LEN]);
}

const LEG: u32 = 5;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn answer(kind: Kind, nonce: [u8; NONCE_LEN]) -> [u8; LEN] {
    Hello {
        kind,
        leg: LEG,
        time_ms: 1,
        nonce,
    }
    .sign(&KEY)
}

/// Returns a socket that has answered a challenge at once, and was welcomed at 20 ms.
fn signed_in() -> SigningIn {
    let mut socket = SigningIn::new(LEG, KEY);
    let first = Hello::decode(&socket.hello(ms(0), 1).expect("the first")).expect("a hello");
    assert_eq!(first.nonce, [0; NONCE_LEN]);
    assert_eq!(socket.hello(ms(99), 1), None);
    let challenge = answer(Kind::Challenge, [3; NONCE_LEN]);
    assert_eq!(socket.receive(&challenge, ms(10)), Received::Challenged);
    let second = Hello::decode(&socket.hello(ms(10), 1).expect("at once")).expect("a hello");
    assert_eq!(second.nonce, [3; NONCE_LEN]);
    let welcome = answer(Kind::Welcome, [3; NONCE_LEN]);
    assert_eq!(socket.receive(&welcome, ms(20)), Received::SignedIn);
    assert_eq!(socket.next(), ms(1_020));
    socket
}

#[test]
fn a_host_answers_a_challenge_and_says_hello_every_second() {
    let mut socket = signed_in();
    for second in 1..10 {
        let now = ms(20 + 1_000 * second);
        let sent = socket.hello(now, 1).expect("a refresh");
        let mut alive = sent;
        alive[3] = Kind::Alive as u8;
        assert_eq!(socket.receive(&alive, now), Received::Alive);
    }
}

#[test]
fn a_host_that_is_not_answered_signs_in_again() {
    let mut socket = signed_in();
    for second in 1..=3 {
        socket.hello(ms(20 + 1_000 * second), 1).expect("a refresh");
        assert!(socket.is_signed_in());
    }
    socket.hello(ms(4_020), 1).expect("another");
    assert!(!socket.is_signed_in());
    let pauses: Vec<u128> = (0..7)
        .map(|_| {
            let at = socket.next();
            socket.hello(at, 1).expect("it is time");
            (socket.next() - at).as_millis()
        })
        .collect();
    assert_eq!(pauses, [200, 400, 800, 1_600, 2_000, 2_000, 2_000]);
    let again = answer(Kind::Challenge, [4; NONCE_LEN]);
    assert_eq!(socket.receive(&again, ms(30_000)), Received::Challenged);
    socket.hello(ms(30_000), 1).expect("at once");
    let welcome = answer(Kind::Welcome, [4; NONCE_LEN]);
    assert_eq!(socket.receive(&welcome, ms(30_001)), Received::SignedIn);
}

#[test]
fn a_host_believes_only_who_knows_the_key_or_saw_its_hello() {
    let mut socket = signed_in();
    let sent = socket.hello(ms(1_020), 1).expect("a refresh");
    let foreign = Hello {
        kind: Kind::Challenge,
        leg: LEG,
        time_ms: 1,
        nonce: [9; NONCE_LEN],
    };
    let mut guessed = sent;
    guessed[3] = Kind::Alive as u8;
    guessed[40] ^= 1;
    let others = [
        foreign.sign(&[8; KEY_LEN]).to_vec(),
        answer(Kind::Welcome, [9; NONCE_LEN]).to_vec(),
        Hello {
            leg: LEG + 1,
            ..foreign
        }
        .sign(&KEY)
        .to_vec(),
        guessed.to_vec(),
        sent.to_vec(),
        vec![0x80, 96, 0, 1],
        Vec::new(),
    ];
    for other in others {
        assert_eq!(
            socket.receive(&other, ms(1_030)),
            Received::Other,
            "{other:?}"
        );
    }
}
