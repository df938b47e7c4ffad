//! The client's description of itself (XEP-0388 §2.3.1), as a value in a message of chat.

use cluster::fields::Corrupt;
use xmpp::c2s::UserAgent;

use super::chat::put_optional;
use super::values::{fields, text};

// Numbers of the fields; each is left out where the client has not said it.
const ID: u64 = 1;
const SOFTWARE: u64 = 2;
const DEVICE: u64 = 3;

pub(super) fn put(out: &mut Vec<u8>, agent: &UserAgent) {
    let UserAgent { id, software, device } = agent;
    put_optional(out, ID, id.as_deref());
    put_optional(out, SOFTWARE, software.as_deref());
    put_optional(out, DEVICE, device.as_deref());
}

pub(super) fn read(bytes: &[u8]) -> Result<UserAgent, Corrupt> {
    let mut agent = UserAgent::default();
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            ID => agent.id = Some(text(&field)?),
            SOFTWARE => agent.software = Some(text(&field)?),
            DEVICE => agent.device = Some(text(&field)?),
            _ => {}
        }
    }
    Ok(agent)
}
