//! An account whose messages are traced: it is compared with the addresses in From and To, part by part.

use router::Aor;

use crate::wire::{Scheme, Uri, eq_ignore_case};

/// An account whose messages are traced, or an address that has no account here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedAccount {
    /// As traces name it.
    pub account: Aor,
    user: Box<str>,
    /// As in URIs: A-labels.
    host: Box<str>,
    /// The user part is a telephone number without visual separators: URIs may have it with them, and as `tel:`.
    is_number: bool,
}

impl TracedAccount {
    /// `account` is `user@domain`; `host` is the domain as URIs have it, with A-labels.
    pub fn new(account: &str, host: &str) -> TracedAccount {
        let user = account.rsplit_once('@').map_or(account, |(user, _)| user);
        let digits = user.strip_prefix('+').unwrap_or(user);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        TracedAccount { account: account.into(), user: user.into(), host: host.into(), is_number }
    }

    /// The accounts, as traces name them.
    pub fn names(accounts: &[TracedAccount]) -> Vec<Aor> {
        accounts.iter().map(|traced| traced.account.clone()).collect()
    }

    /// True if the URI is an address of the account. RFC 3261 §19.1.4: the host is compared in any case, the user part as it is without its
    /// escapes. A tel URI has no host, and stands for the number at any.
    pub(crate) fn is_named_by(&self, uri: &Uri<'_>) -> bool {
        if uri.scheme != Scheme::Tel && !(uri.is_sip() && eq_ignore_case(uri.host, &self.host)) {
            return false;
        }
        let Some(user) = uri.user_decoded() else { return false };
        let is_it = uri.is_sip() && *user == *self.user;
        is_it || self.is_number && number(&user).eq(self.user.chars())
    }
}

/// A telephone number without visual separators and parameters (RFC 3966 §3, RFC 3261 §19.1.6).
fn number(user: &str) -> impl Iterator<Item = char> {
    user.split(';').next().unwrap_or_default().chars().filter(|c| !"-.()".contains(*c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_named_by_its_own_addresses_only() {
        let rows: [(&str, &[&str], &[&str]); 4] = [
            (
                "bob@example.net",
                &[
                    "sip:bob@example.net",
                    "sips:bob@EXAMPLE.Net:5061;transport=tcp",
                    "sip:%62ob@example.net",
                    "sip:bob:secret@example.net?Subject=x",
                ],
                &[
                    "sip:jimbob@example.net",
                    "sip:bob@example.net.evil.test",
                    "sip:bob@xexample.net",
                    "sip:Bob@example.net",
                    "sip:example.net",
                    "sip:eve@evil.test?Subject=bob@example.net",
                    "sip:eve@evil.test;x=bob@example.net",
                    "mailto:bob@example.net",
                    "tel:bob",
                ],
            ),
            ("ice@example.net", &["sip:ice@example.net"], &["sip:alice@example.net"]),
            (
                "+4930123@example.net",
                &[
                    "sip:+4930123@example.net",
                    "sip:+49-30-123;phone-context=x@example.net;user=phone",
                    "tel:+49(30)123",
                ],
                &["sip:+49301234@example.net", "sip:+4930123@other.test", "tel:4930123", "tel:+49301234"],
            ),
            // One that is spelled with separators is no other spelling of a number that has a role.
            ("+49-30@example.net", &["sip:+49-30@example.net"], &["sip:+4930@example.net", "tel:+4930"]),
        ];
        for (account, named, others) in rows {
            let traced = TracedAccount::new(account, "example.net");
            let is_named = |uri: &&&str| Uri::parse(uri.as_bytes()).is_ok_and(|uri| traced.is_named_by(&uri));
            assert_eq!(named.iter().filter(is_named).count(), named.len(), "{account}");
            let wrong: Vec<_> = others.iter().filter(is_named).collect();
            assert!(wrong.is_empty(), "{account} by {wrong:?}");
        }
    }

    #[test]
    fn a_domain_of_another_alphabet_is_compared_as_uris_have_it() {
        let traced = TracedAccount::new("bob@bücher.example", "xn--bcher-kva.example");
        assert!(traced.is_named_by(&Uri::parse(b"sip:bob@XN--bcher-kva.example").unwrap()));
        assert_eq!(&*traced.account, "bob@bücher.example");
    }
}
