//! `[accounts]`: the digests of passwords that the database keeps, and sources of sign-ins outside of it.
//!
//! `server::node::build` tells the database at each start whether digests are kept (`Write::KeepDigests`),
//! which removes those of before.

use external_auth::SourceSettings;

use super::reader::Reader;
use super::sources;

/// `[accounts]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Accounts {
    /// The digests that phones prove passwords with are kept (RFC 7616).
    /// Phones need them: SIP has no other kind of password proof here (RFC 3261 §22).
    pub digests: bool,
    /// The sources of sign-ins outside the database, one for each domain that has one.
    pub sources: Vec<SourceSettings>,
}

impl Accounts {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("accounts");
        let accounts = Accounts {
            digests: section.key(
                "digests",
                true,
                "Whether MD5 and SHA hashes of passwords are kept, by which phones sign in (SIP digest): a thief of them can sign in as well. When off, no phone can sign in by password, chat clients can, and the hashes that are there are removed at the next start.",
            ),
            sources: sources::read(&mut section),
        };
        // The two contradict each other: phones of that domain would be promised a sign-in that the database
        // may not store.
        if !accounts.digests && accounts.sources.iter().any(|source| !source.keep_digests.is_zero()) {
            let expected = "either `digests = true` or no `keep_digests`";
            section.mistake("sources", "`keep_digests` of a source beside `digests = false`", expected);
        }
        section.finish();
        accounts
    }

    /// Warns of a consequence that operators may not expect.
    pub fn warning(&self) -> Option<&'static str> {
        (!self.digests).then_some(
            "[accounts] digests is false: no phone can sign in by SIP digest, only chat clients by SCRAM or PLAIN",
        )
    }
}
