//! A message that waits for its recipient, as numbered fields.

use std::sync::Arc;

use cluster::fields::{Corrupt, put_bytes, put_number};
use router::WaitingMessage;

use super::values::{absent, fields, instant, put_instant, put_text, required, text};

pub(super) fn put_waiting(out: &mut Vec<u8>, message: &WaitingMessage) {
    let WaitingMessage { id, aor, from, content_type, body, sent_at, expires_at } = message;
    put_number(out, 1, *id);
    put_text(out, 2, aor);
    put_text(out, 3, from);
    put_text(out, 4, content_type);
    put_bytes(out, 5, body);
    put_instant(out, 6, *sent_at);
    if let Some(expires_at) = expires_at {
        put_instant(out, 7, *expires_at);
    }
}

pub(super) fn read_waiting(bytes: &[u8]) -> Result<WaitingMessage, Corrupt> {
    let (mut id, mut aor, mut from, mut content_type) = (0, None, Box::default(), Box::default());
    let (mut body, mut sent_at, mut expires_at) = (Arc::from(&[][..]), None, None);
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => id = field.value()?,
            2 => aor = Some(text(&field)?),
            3 => from = text(&field)?,
            4 => content_type = text(&field)?,
            5 => body = Arc::from(field.bytes),
            6 => sent_at = Some(instant(&field)?),
            7 => expires_at = Some(instant(&field)?),
            _ => {}
        }
    }
    let aor = required(aor, "a message has no address")?;
    let sent_at = sent_at.ok_or(absent("a message has no time"))?;
    Ok(WaitingMessage { id, aor, from, content_type, body, sent_at, expires_at })
}
