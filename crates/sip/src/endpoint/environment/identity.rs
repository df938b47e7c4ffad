//! Identities at the border of the trust domain (RFC 3325), privacy (RFC 3323), and credentials for us (RFC 3261 §22.3).
//!
//! A message from the untrusted loses its identities as it comes in, before anything is done with it; a copy for the
//! untrusted loses those that its sender wants kept private. A message without such headers costs one test of a bit mask.

use super::Environment;
use super::forwarded_copy::ForwardedCopy;
use crate::digest::names_realm;
use crate::transport::{Source, Target};
use crate::wire::{Header, Message, Rewrite, escape_user};

/// Headers that only a trusted sender may write.
const ASSERTED: u64 =
    Header::PAssertedIdentity.bit() | Header::AssertedIdentity.bit() | Header::TrustDomain.bit();
/// And the one that a user agent writes for its proxy (RFC 3325 §9.2).
pub(crate) const IDENTITIES: u64 = ASSERTED | Header::PPreferredIdentity.bit();
/// Headers that may carry credentials for a realm of ours (RFC 3261 §22.3).
const CREDENTIALS: u64 = Header::Authorization.bit() | Header::ProxyAuthorization.bit();

/// RFC 3323 §5.3: optional headers that identify the sender. `Subject` and `User-Agent` have a [`Header`] of
/// their own. `b` is the compact form of Referred-By (RFC 3892 §3); the others have none (IANA, SIP header fields).
const USER_HEADERS: &[&str] = &["Call-Info", "Organization", "Reply-To", "In-Reply-To", "Referred-By", "b"];

/// The privacy that the sender asks for (RFC 3323 §4.2, RFC 3325 §9.3, RFC 7044 §10.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Privacy {
    /// `id`, or a value that includes it: `user` and `header`.
    identity: bool,
    history: bool,
    user: bool,
}

impl Privacy {
    fn of(message: &Message) -> Self {
        let mut privacy = Privacy::default();
        // RFC 3323 §4.2 separates values by semicolons; some write commas.
        let values = message.header_lines(Header::Privacy).flat_map(|line| line.split(|b| b";,".contains(b)));
        for value in values.map(<[u8]>::trim_ascii) {
            match value.to_ascii_lowercase().as_slice() {
                // No more may be done than the sender wants: identities stay.
                b"none" => return Privacy::default(),
                b"id" | b"header" => privacy.identity = true,
                b"user" => (privacy.identity, privacy.user) = (true, true),
                b"history" => privacy.history = true,
                _ => {}
            }
        }
        privacy
    }
}

impl Environment {
    /// A request as it counts for us: without the identities that an untrusted source asserts (RFC 3325 §5). The one that it prefers
    /// stays: a claim to be proved ([`Environment::claim`]).
    pub(crate) fn without_untrusted_identity(&self, request: Message, source: &Source) -> Option<Message> {
        if !request.has_any(ASSERTED) || self.trust().trusts_source(source) {
            return Some(request);
        }
        let mut rewrite = Rewrite::new(&request);
        remove_asserted(&mut rewrite);
        Message::parse(rewrite.finish()).ok()
    }

    /// A response as its request's sender may have it. `None`: as it is. `from` is where it comes from, `to` where it goes;
    /// most responses say nothing for which that matters.
    pub(crate) fn response_across_border(
        &self,
        from: impl FnOnce() -> Option<Target>,
        to: impl FnOnce() -> Option<Target>,
        response: &Message,
    ) -> Option<Message> {
        if !response.has_any(IDENTITIES) {
            return None;
        }
        let is_trusted =
            |target: Option<Target>| target.is_some_and(|target| self.trust().trusts_target(&target));
        let mut rewrite = Rewrite::new(response);
        if !is_trusted(from()) {
            remove_identities(&mut rewrite);
        } else if !is_trusted(to()) {
            leave_trust_domain(&mut rewrite, response);
        }
        Message::parse(rewrite.finish()).ok()
    }

    /// The part of §16.6 that RFC 3261 leaves to others: credentials for us, identities, privacy.
    pub(crate) fn rewrite_identity(
        &self,
        rewrite: &mut Rewrite<'_>,
        request: &Message,
        source: &Source,
        copy: &ForwardedCopy<'_>,
    ) {
        if request.has_any(CREDENTIALS) {
            self.remove_own_credentials(rewrite);
        }
        if !copy.is_trusted {
            if request.has_any(IDENTITIES | Header::Privacy.bit()) {
                leave_trust_domain(rewrite, request);
            }
            return;
        }
        // RFC 3325 §5: what the sender prefers is for its first proxy alone, which asserts what was proved.
        if request.has_any(Header::PPreferredIdentity.bit()) && !self.trust().trusts_source(source) {
            rewrite.remove_all(Header::PPreferredIdentity);
        }
        // RFC 3325 §5: an authenticated caller has the identity of its account, unless a trusted source
        // asserts another.
        if let Some(aor) = copy.asserted.filter(|_| !request.has_any(Header::PAssertedIdentity.bit())) {
            rewrite.append(Header::PAssertedIdentity.as_str(), |text| write_identity(text, aor));
        }
    }

    /// RFC 3261 §22.3: credentials of another realm are for others on the way; those of ours have done their work, and
    /// any receiver could guess the password by them.
    fn remove_own_credentials(&self, rewrite: &mut Rewrite<'_>) {
        let is_ours = |line: &[u8]| names_realm(line, |realm| self.settings.serves(realm));
        rewrite.remove_lines(Header::Authorization, is_ours);
        rewrite.remove_lines(Header::ProxyAuthorization, is_ours);
    }
}

pub(crate) fn remove_identities(rewrite: &mut Rewrite<'_>) {
    remove_asserted(rewrite);
    rewrite.remove_all(Header::PPreferredIdentity);
}

fn remove_asserted(rewrite: &mut Rewrite<'_>) {
    rewrite.remove_all(Header::PAssertedIdentity);
    rewrite.remove_all(Header::AssertedIdentity);
    rewrite.remove_all(Header::TrustDomain);
}

/// RFC 3325 §7: the untrusted get asserted identities, unless the sender wants them private; RFC 7315 §6 and
/// its like: headers for the trust domain alone stay in it.
fn leave_trust_domain(rewrite: &mut Rewrite<'_>, message: &Message) {
    rewrite.remove_all(Header::TrustDomain);
    rewrite.remove_all(Header::PPreferredIdentity);
    let privacy = Privacy::of(message);
    if privacy.identity {
        rewrite.remove_all(Header::PAssertedIdentity);
    }
    if privacy.identity || privacy.history {
        rewrite.remove_all(Header::AssertedIdentity);
    }
    if privacy.user {
        rewrite.remove_all(Header::Subject);
        rewrite.remove_all(Header::UserAgent);
        rewrite.remove_named(USER_HEADERS);
    }
}

/// RFC 3325 §9.1: a name-addr.
fn write_identity(text: &mut Vec<u8>, aor: &str) {
    let (user, domain) = aor.rsplit_once('@').unwrap_or((aor, ""));
    text.extend_from_slice(format!("<sip:{}@{domain}>", escape_user(user)).as_bytes());
}
