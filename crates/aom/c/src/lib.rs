//! Implements the C interface that `include/aom.h` declares. The header documents each function.
#![warn(missing_docs)]
#![expect(unsafe_code, reason = "C passes pointers")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use aom::certificate::Certificate;
use aom::event::Event;
use aom_member::{Counters, Joined};

const ERROR: c_int = -1;
const MESSAGE: c_int = 1;
const DROP: c_int = 2;
const EVIDENCE: c_int = 3;

/// A member of a group, as an opaque pointer for C.
pub struct AomMember(Joined);

/// An event, with its parts serialized for C.
pub struct AomEvent {
    kind: c_int,
    epoch: u64,
    sequence: u32,
    /// For a drop, the last dropped sequence number; for other events the same as `sequence`.
    last_sequence: u32,
    message: Vec<u8>,
    certificate: Vec<u8>,
    hashes: Option<[u8; 64]>,
}

/// Counts received and refused datagrams. The fields have the order of `aom_counters` in `aom.h`.
#[derive(Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AomCounters {
    datagrams: u64,
    malformed: u64,
    other_group: u64,
    other_epoch: u64,
    wrong_shard: u64,
    no_number: u64,
    wrong_digest: u64,
    forged: u64,
    broken_link: u64,
    replayed: u64,
    beyond_window: u64,
    too_many: u64,
    confirms_of_strangers: u64,
    confirms_forged: u64,
    confirms_late: u64,
    confirms_contradictory: u64,
    confirms_beyond_window: u64,
    confirms_unsent: u64,
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

fn fail<T>(error: impl Display, otherwise: T) -> T {
    let text: Vec<u8> = error
        .to_string()
        .bytes()
        .filter(|byte| *byte != 0)
        .collect();
    LAST_ERROR.with_borrow_mut(|last| *last = CString::new(text).unwrap_or_default());
    otherwise
}

/// # Safety
///
/// `member_file` is NULL or a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_join(member_file: *const c_char, timeout_ms: u32) -> *mut AomMember {
    if member_file.is_null() {
        return fail(
            "expected the path of a member file, found NULL",
            std::ptr::null_mut(),
        );
    }
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(member_file) }.to_string_lossy();
    match Joined::join(Path::new(&*path), milliseconds(timeout_ms)) {
        Ok(joined) => Box::into_raw(Box::new(AomMember(joined))),
        Err(error) => fail(error, std::ptr::null_mut()),
    }
}

/// # Safety
///
/// `member` is NULL or came from [`aom_join`], and the caller does not use it after this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_leave(member: *mut AomMember) {
    if !member.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(member) });
    }
}

/// # Safety
///
/// `member` is NULL, or came from [`aom_join`] and has not left; `message` is NULL or has `message_bytes` readable
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_send(
    member: *mut AomMember,
    message: *const u8,
    message_bytes: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let (member, message) = unsafe { (member.as_ref(), bytes_at(message, message_bytes)) };
    let (Some(member), Some(message)) = (member, message) else {
        return fail("expected a member and a message, found NULL", ERROR);
    };
    match member.0.send(message) {
        Ok(()) => 0,
        Err(error) => fail(error, ERROR),
    }
}

/// # Safety
///
/// `member` is NULL, or came from [`aom_join`] and has not left; `event` is NULL or points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_next(
    member: *mut AomMember,
    timeout_ms: u32,
    event: *mut *mut AomEvent,
) -> c_int {
    // SAFETY: the caller's promise.
    let (member, place) = unsafe { (member.as_ref(), event.as_mut()) };
    let (Some(member), Some(place)) = (member, place) else {
        return fail(
            "expected a member and a place for an event, found NULL",
            ERROR,
        );
    };
    *place = std::ptr::null_mut();
    match member.0.next(milliseconds(timeout_ms)) {
        Ok(None) => 0,
        Ok(Some(event)) => {
            *place = Box::into_raw(Box::new(AomEvent::from(event)));
            1
        }
        Err(error) => fail(error, ERROR),
    }
}

/// # Safety
///
/// `event` is NULL or came from [`aom_next`] or [`aom_certificate`], and the caller does not use it after this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_event_free(event: *mut AomEvent) {
    if !event.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(event) });
    }
}

/// # Safety
///
/// `event` is NULL or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_event_kind(event: *const AomEvent) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { event.as_ref() }.map_or(0, |event| event.kind)
}

/// # Safety
///
/// `event` is NULL or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_event_epoch(event: *const AomEvent) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { event.as_ref() }.map_or(0, |event| event.epoch)
}

/// # Safety
///
/// `event` is NULL or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_event_sequence(event: *const AomEvent) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { event.as_ref() }.map_or(0, |event| event.sequence)
}

/// # Safety
///
/// `event` is NULL or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_event_last_sequence(event: *const AomEvent) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { event.as_ref() }.map_or(0, |event| event.last_sequence)
}

/// # Safety
///
/// `event` is NULL or was not freed; `message_bytes` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_event_message(
    event: *const AomEvent,
    message_bytes: *mut usize,
) -> *const u8 {
    // SAFETY: the caller's promise.
    let (event, place) = unsafe { (event.as_ref(), message_bytes.as_mut()) };
    let of_message = event.filter(|event| event.kind == MESSAGE);
    part(of_message.map(|event| event.message.as_slice()), place)
}

/// # Safety
///
/// `event` is NULL or was not freed; `certificate_bytes` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_event_certificate(
    event: *const AomEvent,
    certificate_bytes: *mut usize,
) -> *const u8 {
    // SAFETY: the caller's promise.
    let (event, place) = unsafe { (event.as_ref(), certificate_bytes.as_mut()) };
    let of_message = event.filter(|event| event.kind == MESSAGE);
    part(of_message.map(|event| event.certificate.as_slice()), place)
}

/// # Safety
///
/// `event` is NULL or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_event_hashes(event: *const AomEvent) -> *const u8 {
    // SAFETY: the caller's promise.
    let event = unsafe { event.as_ref() };
    let hashes = event.and_then(|event| event.hashes.as_ref());
    hashes.map_or(std::ptr::null(), |hashes| hashes.as_ptr())
}

/// # Safety
///
/// `member` is NULL, or came from [`aom_join`] and has not left; certificate and message are NULL or have the given
/// number of readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_verify(
    member: *mut AomMember,
    certificate: *const u8,
    certificate_bytes: usize,
    message: *const u8,
    message_bytes: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let (member, certificate, message) = unsafe {
        (
            member.as_ref(),
            bytes_at(certificate, certificate_bytes),
            bytes_at(message, message_bytes),
        )
    };
    let (Some(member), Some(certificate), Some(message)) = (member, certificate, message) else {
        return fail(
            "expected a member, a certificate and a message, found NULL",
            ERROR,
        );
    };
    match member.0.verify(certificate, message) {
        Ok(is_believed) => c_int::from(is_believed),
        Err(error) => fail(error, ERROR),
    }
}

/// # Safety
///
/// `member` is NULL, or came from [`aom_join`] and has not left; `event` is NULL or points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_certificate(
    member: *mut AomMember,
    epoch: u64,
    sequence: u32,
    event: *mut *mut AomEvent,
) -> c_int {
    // SAFETY: the caller's promise.
    let (member, place) = unsafe { (member.as_ref(), event.as_mut()) };
    let (Some(member), Some(place)) = (member, place) else {
        return fail(
            "expected a member and a place for an event, found NULL",
            ERROR,
        );
    };
    *place = std::ptr::null_mut();
    match member.0.certificate(epoch, sequence) {
        Ok(None) => 0,
        Ok(Some(certificate)) => {
            *place = Box::into_raw(Box::new(AomEvent {
                certificate: certificate.to_bytes(),
                ..AomEvent::empty(MESSAGE, epoch, sequence)
            }));
            1
        }
        Err(error) => fail(error, ERROR),
    }
}

/// # Safety
///
/// `certificate` is NULL or has `certificate_bytes` readable bytes; `epoch` and `sequence` are NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_certificate_number(
    certificate: *const u8,
    certificate_bytes: usize,
    epoch: *mut u64,
    sequence: *mut u32,
) -> c_int {
    // SAFETY: the caller's promise.
    let (certificate, epoch, sequence) = unsafe {
        (
            bytes_at(certificate, certificate_bytes),
            epoch.as_mut(),
            sequence.as_mut(),
        )
    };
    let (Some(certificate), Some(epoch), Some(sequence)) = (certificate, epoch, sequence) else {
        return fail(
            "expected a certificate and places for its numbers, found NULL",
            ERROR,
        );
    };
    match Certificate::from_bytes(certificate) {
        Ok(certificate) => {
            (*epoch, *sequence) = (certificate.epoch, certificate.sequence);
            0
        }
        Err(error) => fail(error, ERROR),
    }
}

/// # Safety
///
/// `member` is NULL, or came from [`aom_join`] and has not left; `counters` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aom_count(member: *mut AomMember, counters: *mut AomCounters) -> c_int {
    // SAFETY: the caller's promise.
    let (member, place) = unsafe { (member.as_ref(), counters.as_mut()) };
    let (Some(member), Some(place)) = (member, place) else {
        return fail(
            "expected a member and a place for its counters, found NULL",
            ERROR,
        );
    };
    *place = AomCounters::from(member.0.counters());
    0
}

/// Returns the error message of this thread's last failed call.
#[unsafe(no_mangle)]
pub extern "C" fn aom_error() -> *const c_char {
    LAST_ERROR.with_borrow(|last| last.as_ptr())
}

impl From<Counters> for AomCounters {
    fn from(counters: Counters) -> AomCounters {
        let (refused, confirms) = (counters.refused, counters.refused_confirms);
        AomCounters {
            datagrams: counters.datagrams,
            malformed: refused.malformed,
            other_group: refused.other_group,
            other_epoch: refused.other_epoch,
            wrong_shard: refused.wrong_shard,
            no_number: refused.no_number,
            wrong_digest: refused.wrong_digest,
            forged: refused.forged,
            broken_link: refused.broken_link,
            replayed: refused.replayed,
            beyond_window: refused.beyond_window,
            too_many: refused.too_many,
            confirms_of_strangers: confirms.strangers,
            confirms_forged: confirms.forged,
            confirms_late: confirms.late,
            confirms_contradictory: confirms.contradictory,
            confirms_beyond_window: confirms.beyond_window,
            confirms_unsent: counters.unsent_confirms,
        }
    }
}

impl AomEvent {
    fn empty(kind: c_int, epoch: u64, sequence: u32) -> AomEvent {
        AomEvent {
            kind,
            epoch,
            sequence,
            last_sequence: sequence,
            message: Vec::new(),
            certificate: Vec::new(),
            hashes: None,
        }
    }
}

impl From<Event> for AomEvent {
    fn from(event: Event) -> AomEvent {
        let empty = AomEvent::empty;
        match event {
            Event::Message(message) => AomEvent {
                certificate: message.certificate.to_bytes(),
                message: message.payload,
                ..empty(MESSAGE, message.epoch, message.sequence)
            },
            Event::Drop(drop) => AomEvent {
                last_sequence: drop.last,
                ..empty(DROP, drop.epoch, drop.first)
            },
            Event::Evidence(evidence) => {
                let mut hashes = [0; 64];
                hashes[..32].copy_from_slice(&evidence.first);
                hashes[32..].copy_from_slice(&evidence.second);
                AomEvent {
                    hashes: Some(hashes),
                    ..empty(EVIDENCE, evidence.epoch, evidence.sequence)
                }
            }
        }
    }
}

fn milliseconds(n: u32) -> Duration {
    Duration::from_millis(u64::from(n))
}

/// Returns the slice, or `None` if `bytes` is NULL. If `n_bytes` is 0, any pointer is valid, even NULL, and the slice
/// is empty.
///
/// # Safety
///
/// `bytes` is NULL or has `n_bytes` readable bytes.
unsafe fn bytes_at<'a>(bytes: *const u8, n_bytes: usize) -> Option<&'a [u8]> {
    if n_bytes == 0 {
        return Some(&[]);
    }
    // SAFETY: the caller's promise.
    (!bytes.is_null()).then(|| unsafe { std::slice::from_raw_parts(bytes, n_bytes) })
}

fn part(bytes: Option<&[u8]>, n_bytes: Option<&mut usize>) -> *const u8 {
    if let Some(place) = n_bytes {
        *place = bytes.map_or(0, <[u8]>::len);
    }
    bytes.map_or(std::ptr::null(), <[u8]>::as_ptr)
}
