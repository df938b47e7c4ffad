//! The front of the registrar: REGISTER in, [`router::Register`] out, and back from bindings to a 200 (RFC
//! 3261 §10.3, 3327 Path, 3608 Service-Route, 5626 Outbound, 5627 GRUU). Permissions and the bindings
//! themselves are not known here.

mod answer;
mod contacts;
pub mod gruu;
mod reach;
mod refusal;
#[cfg(test)]
mod tests;

use router::{Aor, Change, Register};

pub use answer::{OkSettings, write_ok};
pub use reach::ContactReach;
pub(crate) use refusal::RETRY_AFTER;
pub use refusal::RegisterRefusal;

use crate::transport::Source;
use crate::wire::{Header, Message};

/// Extensions that a REGISTER may require of us.
const EXTENSIONS: [&str; 3] = ["path", "outbound", "gruu"];

/// Seconds, except where said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrarRules {
    /// Shorter intervals are answered 423.
    pub min_expires: u32,
    /// Longer intervals are cut to this.
    pub max_expires: u32,
    /// When none is asked for, or one that is no number (RFC 3261 §20.10).
    pub default_expires: u32,
    /// Bindings of one account.
    pub max_contacts: usize,
}

impl Default for RegistrarRules {
    fn default() -> Self {
        RegistrarRules { min_expires: 60, max_expires: 3600, default_expires: 3600, max_contacts: 10 }
    }
}

/// The request of an authenticated REGISTER for `aor` to the router, or the answer to its fault.
pub fn parse_register(
    request: &Message,
    source: &Source,
    aor: Aor,
    rules: &RegistrarRules,
    reach: &ContactReach<'_>,
) -> Result<Register, RegisterRefusal> {
    check_require(request)?;
    let call_id = text(request.call_id().ok_or(RegisterRefusal::bad("Missing Call-ID"))?, "Bad Call-ID")?;
    let (cseq, _) = request.cseq().ok_or(RegisterRefusal::bad("Bad CSeq"))?;
    let change = if request.values(Header::Contact).any(|value| value == b"*") {
        check_remove_all(request)?;
        Change::RemoveAll
    } else {
        let contacts = contacts::parse(request, source, &aor, rules, reach)?;
        if contacts.is_empty() { Change::None } else { Change::Update(contacts) }
    };
    Ok(Register { aor, call_id, cseq, change, max_contacts: rules.max_contacts })
}

/// RFC 3261 §8.2.2.3.
fn check_require(request: &Message) -> Result<(), RegisterRefusal> {
    let unknown: Vec<_> = request
        .values(Header::Require)
        .filter(|tag| !EXTENSIONS.iter().any(|known| tag.eq_ignore_ascii_case(known.as_bytes())))
        .map(String::from_utf8_lossy)
        .collect();
    if unknown.is_empty() { Ok(()) } else { Err(RegisterRefusal::bad_extension(unknown.join(", "))) }
}

/// RFC 3261 §10.3 step 6: `*` stands alone, with an Expires of zero.
fn check_remove_all(request: &Message) -> Result<(), RegisterRefusal> {
    if request.values(Header::Contact).count() > 1 {
        return Err(RegisterRefusal::bad("Contact * Must Stand Alone"));
    }
    match request.header(Header::Expires).and_then(crate::wire::parse_number) {
        Some(0) => Ok(()),
        _ => Err(RegisterRefusal::bad("Contact * Needs Expires: 0")),
    }
}

fn text(bytes: &[u8], otherwise: &'static str) -> Result<Box<str>, RegisterRefusal> {
    std::str::from_utf8(bytes).map(Box::from).map_err(|_| RegisterRefusal::bad(otherwise))
}
