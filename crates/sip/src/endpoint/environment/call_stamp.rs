//! The parameter `s` of our Record-Route in a farm: when a call began and was answered, and in which life. The node that
//! handles its BYE writes the call record from it, when the life whose ledger has the call is dead.
//!
//! `s=<life>-<start>[-<until the answer>]-<proof>`: milliseconds in hexadecimal, 40 bytes or so. It is signed, and no secret.
//! The caller's side has the time of the answer. The callee's side has its route before there is one: a record that is made
//! of a callee's BYE has the start as its answer.

use std::io::Write;

use router::Life;
use stdx::Instant;

use super::Environment;
use crate::token;
use crate::wire::{Address, Header, Message};

/// The beginning of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallStamp {
    /// The life whose ledger has the call.
    pub(crate) life: Life,
    /// The time of the INVITE.
    pub(crate) start: Instant,
    /// The time of the 2xx, where it was known.
    pub(crate) answer: Option<Instant>,
}

/// The value of `s` for the call of a caller.
pub(crate) fn call_stamp_text(
    env: &Environment,
    stamp: &CallStamp,
    call_id: &[u8],
    caller_tag: &[u8],
) -> Vec<u8> {
    let mut text = Vec::with_capacity(48);
    let _ = write!(text, "{:x}-{:x}", stamp.life.0, stamp.start.as_millis());
    if let Some(answer) = stamp.answer {
        let _ = write!(text, "-{:x}", answer.since(stamp.start).as_millis());
    }
    let proof = call_stamp_proof(env, &text, call_id, caller_tag);
    text.push(b'-');
    token::write(&mut text, proof);
    text
}

/// Back from a text, if it is of this call.
pub(crate) fn parse_call_stamp(
    env: &Environment,
    text: &[u8],
    call_id: &[u8],
    caller_tag: &[u8],
) -> Option<CallStamp> {
    let at = memchr::memrchr(b'-', text)?;
    let (text, proof) = (&text[..at], token::parse(&text[at + 1..])?);
    if proof != call_stamp_proof(env, text, call_id, caller_tag) {
        return None;
    }
    let mut parts = std::str::from_utf8(text).ok()?.split('-');
    let life = Life(u32::from_str_radix(parts.next()?, 16).ok()?);
    let mut millis = || u64::from_str_radix(parts.next()?, 16).ok();
    let at = |millis: u64| Instant::from_micros(millis.saturating_mul(1_000));
    let start = millis()?;
    Some(CallStamp { life, start: at(start), answer: millis().map(|after| at(start.saturating_add(after))) })
}

/// The call of a request within a dialog that came by our Route, when the life whose ledger has it is dead.
pub(crate) fn call_of_dead(env: &Environment, request: &Message, is_from_caller: bool) -> Option<CallStamp> {
    let dead = env.dead_lives.as_ref()?;
    let own = request.values(Header::Route).map_while(|value| {
        let uri = Address::parse(value)?.parsed_uri().ok()?;
        env.listeners.is_us(&uri).then_some(uri)
    });
    let text = own.last()?.params.get("s")?;
    let caller_tag = if is_from_caller { request.from_tag()? } else { request.to_tag()? };
    let stamp = parse_call_stamp(env, text, request.call_id()?, caller_tag)?;
    dead.contains(&stamp.life).then_some(stamp)
}

fn call_stamp_proof(env: &Environment, text: &[u8], call_id: &[u8], caller_tag: &[u8]) -> u64 {
    env.keys.route.mac(&[b"call", call_id, caller_tag, text])
}

/// The value of `s` in a Record-Route value of ours.
pub(crate) fn call_stamp_in(value: &[u8]) -> Option<&[u8]> {
    const START: &[u8] = b";s=";
    let text = &value[memchr::memmem::find(value, START)? + START.len()..];
    let end = text.iter().position(|byte| matches!(byte, b';' | b'>'))?;
    Some(&text[..end])
}
