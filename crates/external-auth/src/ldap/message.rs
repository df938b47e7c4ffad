//! The messages of LDAP that sign-ins and groups need (RFC 4511 §4): bind, search, StartTLS, unbind.

use super::ber::{self, BOOLEAN, BerReader, ENUMERATED, INTEGER, Malformed, OCTETS, SEQUENCE, SET};
use super::filter::FilterTemplate;
use super::groups::{DirectoryEntry, GroupSettings};
use super::text::Names;
use crate::limits;

const BIND: u8 = 0x60;
const BIND_RESPONSE: u8 = 0x61;
const UNBIND: u8 = 0x42;
const SEARCH: u8 = 0x63;
const ENTRY: u8 = 0x64;
const SEARCH_DONE: u8 = 0x65;
const REFERENCE: u8 = 0x73;
const EXTENDED: u8 = 0x77;
const EXTENDED_RESPONSE: u8 = 0x78;
/// The choice `simple` of a bind (RFC 4511 §4.2).
const SIMPLE: u8 = 0x80;
/// `requestName` of an extended request.
const REQUEST_NAME: u8 = 0x80;
/// RFC 4511 §4.14.1.
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";
/// No attributes (RFC 4511 §4.5.1.8).
const NO_ATTRIBUTES: &[u8] = b"1.1";
const WHOLE_SUBTREE: u32 = 2;
const NEVER_DEREFERENCE: u32 = 0;

/// A message of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// To a bind.
    Bind(ResultCode),
    /// An entry that was found.
    Entry(DirectoryEntry),
    /// A part of the tree that another directory has.
    Reference,
    /// A search has ended.
    SearchDone(ResultCode),
    /// To an extended request.
    Extended(ResultCode),
}

/// RFC 4511 appendix A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResultCode(pub(super) u32);

impl ResultCode {
    pub(super) const SUCCESS: ResultCode = ResultCode(0);
    pub(super) const SIZE_LIMIT_EXCEEDED: ResultCode = ResultCode(4);
    pub(super) const NO_SUCH_OBJECT: ResultCode = ResultCode(32);
    const INVALID_DN_SYNTAX: ResultCode = ResultCode(34);
    const INAPPROPRIATE_AUTHENTICATION: ResultCode = ResultCode(48);
    const INVALID_CREDENTIALS: ResultCode = ResultCode(49);

    /// True if a bind with it says that the user may not sign in. Any other failure says nothing about the password.
    pub(super) fn refuses(self) -> bool {
        [
            // Active Directory has it for each user that may not sign in: locked, expired, unknown.
            ResultCode::INVALID_CREDENTIALS,
            // The entry has no password (RFC 4511 appendix A.2).
            ResultCode::INAPPROPRIATE_AUTHENTICATION,
            ResultCode::NO_SUCH_OBJECT,
            ResultCode::INVALID_DN_SYNTAX,
        ]
        .contains(&self)
    }
}

fn message(id: u32, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    ber::put_with(&mut out, SEQUENCE, |out| {
        ber::put_number(out, INTEGER, id);
        fill(out);
    });
    out
}

/// A simple bind (RFC 4513 §5.1.3).
pub(super) fn bind(id: u32, name: &str, password: &str) -> Vec<u8> {
    message(id, |out| {
        ber::put_with(out, BIND, |out| {
            ber::put_number(out, INTEGER, 3);
            ber::put(out, OCTETS, name.as_bytes());
            ber::put(out, SIMPLE, password.as_bytes());
        });
    })
}

/// A search for entries of one user. Two are enough to see that a name is not unique.
pub(super) fn search(
    id: u32,
    base: &str,
    filter: &FilterTemplate,
    names: Names<'_>,
    seconds: u32,
) -> Vec<u8> {
    let bounds = SearchBounds { entries: 2, seconds };
    search_below(id, base, bounds, |out| filter.encode(names, out), NO_ATTRIBUTES)
}

/// A search for the groups that have this member, with their names.
pub(super) fn search_groups(id: u32, groups: &GroupSettings, member: &str, seconds: u32) -> Vec<u8> {
    let bounds = SearchBounds { entries: limits::GROUPS, seconds };
    let filter = |out: &mut Vec<u8>| groups.filter.encode(groups, member, out);
    search_below(id, &groups.base, bounds, filter, groups.name.as_bytes())
}

/// The most that a search may give and take.
#[derive(Clone, Copy)]
struct SearchBounds {
    entries: u32,
    seconds: u32,
}

/// RFC 4511 §4.5.1, for one attribute of the entries.
fn search_below(
    id: u32,
    base: &str,
    bounds: SearchBounds,
    filter: impl FnOnce(&mut Vec<u8>),
    attribute: &[u8],
) -> Vec<u8> {
    message(id, |out| {
        ber::put_with(out, SEARCH, |out| {
            ber::put(out, OCTETS, base.as_bytes());
            ber::put_number(out, ENUMERATED, WHOLE_SUBTREE);
            ber::put_number(out, ENUMERATED, NEVER_DEREFERENCE);
            ber::put_number(out, INTEGER, bounds.entries);
            ber::put_number(out, INTEGER, bounds.seconds);
            ber::put(out, BOOLEAN, &[0]);
            filter(out);
            ber::put_with(out, SEQUENCE, |out| ber::put(out, OCTETS, attribute));
        });
    })
}

/// RFC 4511 §4.14.1.
pub(super) fn start_tls(id: u32) -> Vec<u8> {
    message(id, |out| ber::put_with(out, EXTENDED, |out| ber::put(out, REQUEST_NAME, START_TLS)))
}

/// RFC 4511 §4.3.
pub(super) fn unbind(id: u32) -> Vec<u8> {
    message(id, |out| ber::put(out, UNBIND, &[]))
}

/// Reads one whole message; the number is that of its request, or 0 for a notice of disconnection.
pub(super) fn read(bytes: &[u8]) -> Result<(u32, Response), Malformed> {
    let mut message = BerReader::new(BerReader::new(bytes).expect(SEQUENCE)?);
    let id = message.number(INTEGER)?;
    let (tag, content) = message.next()?;
    let mut content = BerReader::new(content);
    let response = match tag {
        BIND_RESPONSE => Response::Bind(result(&mut content)?),
        SEARCH_DONE => Response::SearchDone(result(&mut content)?),
        EXTENDED_RESPONSE => Response::Extended(result(&mut content)?),
        ENTRY => {
            let name = std::str::from_utf8(content.expect(OCTETS)?).map_err(|_| Malformed)?;
            let values = values(BerReader::new(content.expect(SEQUENCE)?))?;
            Response::Entry(DirectoryEntry { name: name.into(), values })
        }
        REFERENCE => Response::Reference,
        _ => return Err(Malformed),
    };
    Ok((id, response))
}

/// The values of all attributes of an entry (RFC 4511 §4.5.2) that are texts.
fn values(mut attributes: BerReader<'_>) -> Result<Vec<Box<str>>, Malformed> {
    let mut values = Vec::new();
    while !attributes.is_empty() {
        let mut attribute = BerReader::new(attributes.expect(SEQUENCE)?);
        attribute.expect(OCTETS)?;
        let mut of_attribute = BerReader::new(attribute.expect(SET)?);
        while !of_attribute.is_empty() {
            values.extend(std::str::from_utf8(of_attribute.expect(OCTETS)?).ok().map(Box::from));
        }
    }
    Ok(values)
}

/// The code of an `LDAPResult`. Its texts are not shown: a directory may repeat names of users in them.
fn result(content: &mut BerReader<'_>) -> Result<ResultCode, Malformed> {
    content.number(ENUMERATED).map(ResultCode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bind_is_written_as_the_rfc_says() {
        let expected =
            [&[0x30, 0x16, 2, 1, 1, 0x60, 0x11, 2, 1, 3, 4, 4][..], b"cn=a", &[0x80, 6], b"secret"].concat();
        assert_eq!(bind(1, "cn=a", "secret"), expected);
        assert_eq!(unbind(3), [0x30, 5, 2, 1, 3, 0x42, 0]);
    }

    #[test]
    fn responses_are_read() {
        let result = [0x0a, 1, 49, 4, 0, 4, 0];
        for (tag, expected) in [
            (BIND_RESPONSE, Response::Bind(ResultCode(49))),
            (SEARCH_DONE, Response::SearchDone(ResultCode(49))),
            (EXTENDED_RESPONSE, Response::Extended(ResultCode(49))),
        ] {
            let bytes = message(7, |out| ber::put(out, tag, &result));
            assert_eq!(read(&bytes), Ok((7, expected)));
            for cut in 0..bytes.len() {
                assert_eq!(read(&bytes[..cut]), Err(Malformed), "{cut}");
            }
        }
        let entry = message(2, |out| {
            ber::put_with(out, ENTRY, |out| {
                ber::put(out, OCTETS, b"uid=alice");
                ber::put(out, SEQUENCE, &[]);
            });
        });
        let alice = DirectoryEntry { name: "uid=alice".into(), values: Vec::new() };
        assert_eq!(read(&entry), Ok((2, Response::Entry(alice))));
        assert_eq!(read(&bind(1, "a", "b")), Err(Malformed), "a request is no response");
    }

    #[test]
    fn the_names_of_a_group_are_read_and_values_that_are_no_texts_are_left_out() {
        let group = message(2, |out| {
            ber::put_with(out, ENTRY, |out| {
                ber::put(out, OCTETS, b"cn=ops");
                ber::put_with(out, SEQUENCE, |out| {
                    ber::put_with(out, SEQUENCE, |out| {
                        ber::put(out, OCTETS, b"cn");
                        ber::put_with(out, SET, |out| {
                            for value in [&b"ops"[..], &[0xff], b"Operators"] {
                                ber::put(out, OCTETS, value);
                            }
                        });
                    });
                });
            });
        });
        let expected =
            DirectoryEntry { name: "cn=ops".into(), values: vec!["ops".into(), "Operators".into()] };
        assert_eq!(read(&group), Ok((2, Response::Entry(expected))));
        for cut in 0..group.len() {
            assert_eq!(read(&group[..cut]), Err(Malformed), "{cut}");
        }
    }

    #[test]
    fn only_codes_about_the_user_refuse() {
        assert!([49, 48, 32, 34].into_iter().all(|code| ResultCode(code).refuses()));
        // success, operationsError, referral, confidentialityRequired, busy, unavailable, unwillingToPerform
        assert!(![0, 1, 10, 13, 51, 52, 53].into_iter().any(|code| ResultCode(code).refuses()));
    }
}
