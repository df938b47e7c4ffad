//! Header names that this workspace asks for, with their compact forms (RFC 3261 §7.3.3 and the IANA list).

/// A header field's name. A name that is not asked for is `Other` and travels untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Header {
    /// Any header without a variant of its own.
    Other,
    /// RFC 3261 §20.1.
    Accept,
    /// RFC 3261 §20.5.
    Allow,
    /// RFC 6665 §8.2.2.
    AllowEvents,
    /// RFC 3261 §20.7.
    Authorization,
    /// RFC 3261 §20.8.
    CallId,
    /// RFC 3261 §20.10.
    Contact,
    /// RFC 3261 §20.12.
    ContentEncoding,
    /// RFC 3261 §20.14.
    ContentLength,
    /// RFC 3261 §20.15.
    ContentType,
    /// RFC 3261 §20.16.
    CSeq,
    /// RFC 3261 §20.17.
    Date,
    /// RFC 6665 §8.2.1.
    Event,
    /// RFC 3261 §20.19.
    Expires,
    /// RFC 3261 §20.20.
    From,
    /// RFC 3261 §20.22.
    MaxForwards,
    /// RFC 5393 §5.3.
    MaxBreadth,
    /// RFC 3261 §20.23.
    MinExpires,
    /// RFC 3327 §4.
    Path,
    /// RFC 3261 §20.27.
    ProxyAuthenticate,
    /// RFC 3261 §20.28.
    ProxyAuthorization,
    /// RFC 3325 §9.1.
    PAssertedIdentity,
    /// RFC 3325 §9.2.
    PPreferredIdentity,
    /// RFC 3261 §20.29.
    ProxyRequire,
    /// RFC 3261 §20.30.
    RecordRoute,
    /// RFC 3515 §2.1.
    ReferTo,
    /// RFC 3261 §20.32.
    Require,
    /// RFC 3261 §20.33.
    RetryAfter,
    /// RFC 3261 §20.34.
    Route,
    /// RFC 3608 §5.
    ServiceRoute,
    /// RFC 4028 §4.
    SessionExpires,
    /// RFC 3903 §11.3.1.
    SipEtag,
    /// RFC 3903 §11.3.2.
    SipIfMatch,
    /// RFC 3261 §20.36.
    Subject,
    /// RFC 6665 §8.2.3.
    SubscriptionState,
    /// RFC 3261 §20.37.
    Supported,
    /// RFC 3261 §20.38.
    Timestamp,
    /// RFC 3261 §20.39.
    To,
    /// RFC 3261 §20.40.
    Unsupported,
    /// RFC 3261 §20.41.
    UserAgent,
    /// RFC 3261 §20.42.
    Via,
    /// RFC 3261 §20.43.
    Warning,
    /// RFC 3261 §20.44.
    WwwAuthenticate,
    /// RFC 3323 §4.2.
    Privacy,
    /// Any other header by which a trusted element names the caller or the callee: see [`GROUPS`].
    AssertedIdentity,
    /// Any header that never leaves a trust domain: see [`GROUPS`].
    TrustDomain,
}

/// Canonical name and header; matched without regard to case.
const NAMES: &[(&str, Header)] = &[
    ("Accept", Header::Accept),
    ("Allow", Header::Allow),
    ("Allow-Events", Header::AllowEvents),
    ("Authorization", Header::Authorization),
    ("Call-ID", Header::CallId),
    ("Contact", Header::Contact),
    ("Content-Encoding", Header::ContentEncoding),
    ("Content-Length", Header::ContentLength),
    ("Content-Type", Header::ContentType),
    ("CSeq", Header::CSeq),
    ("Date", Header::Date),
    ("Event", Header::Event),
    ("Expires", Header::Expires),
    ("From", Header::From),
    ("Max-Forwards", Header::MaxForwards),
    ("Max-Breadth", Header::MaxBreadth),
    ("Min-Expires", Header::MinExpires),
    ("Path", Header::Path),
    ("Proxy-Authenticate", Header::ProxyAuthenticate),
    ("Proxy-Authorization", Header::ProxyAuthorization),
    ("P-Asserted-Identity", Header::PAssertedIdentity),
    ("P-Preferred-Identity", Header::PPreferredIdentity),
    ("Proxy-Require", Header::ProxyRequire),
    ("Record-Route", Header::RecordRoute),
    ("Refer-To", Header::ReferTo),
    ("Require", Header::Require),
    ("Retry-After", Header::RetryAfter),
    ("Route", Header::Route),
    ("Service-Route", Header::ServiceRoute),
    ("Session-Expires", Header::SessionExpires),
    ("SIP-ETag", Header::SipEtag),
    ("SIP-If-Match", Header::SipIfMatch),
    ("Subject", Header::Subject),
    ("Subscription-State", Header::SubscriptionState),
    ("Supported", Header::Supported),
    ("Timestamp", Header::Timestamp),
    ("To", Header::To),
    ("Unsupported", Header::Unsupported),
    ("User-Agent", Header::UserAgent),
    ("Via", Header::Via),
    ("Warning", Header::Warning),
    ("WWW-Authenticate", Header::WwwAuthenticate),
    ("Privacy", Header::Privacy),
];

/// Headers that are only ever removed, all of a group at once. None of them has a compact form (IANA, SIP header fields).
const GROUPS: &[(&str, Header)] = &[
    // draft-ietf-sip-privacy-04 (still sent by carriers); RFC 5806; RFC 7044; RFC 8496.
    ("Remote-Party-ID", Header::AssertedIdentity),
    ("Diversion", Header::AssertedIdentity),
    ("History-Info", Header::AssertedIdentity),
    ("P-Charge-Info", Header::AssertedIdentity),
    // RFC 6050 §4.1, RFC 7315 §5, RFC 5502 §6, RFC 5002 §6, RFC 4457 §4, RFC 5009 §8, RFC 7316 §5.
    ("P-Asserted-Service", Header::TrustDomain),
    ("P-Preferred-Service", Header::TrustDomain),
    ("P-Access-Network-Info", Header::TrustDomain),
    ("P-Called-Party-ID", Header::TrustDomain),
    ("P-Charging-Function-Addresses", Header::TrustDomain),
    ("P-Charging-Vector", Header::TrustDomain),
    ("P-Visited-Network-ID", Header::TrustDomain),
    ("P-Served-User", Header::TrustDomain),
    ("P-Profile-Key", Header::TrustDomain),
    ("P-User-Database", Header::TrustDomain),
    ("P-Early-Media", Header::TrustDomain),
    ("P-Private-Network-Indication", Header::TrustDomain),
    // RFC 5503 §7 and §8.
    ("P-DCS-Trace-Party-ID", Header::TrustDomain),
    ("P-DCS-OSPS", Header::TrustDomain),
    ("P-DCS-Billing-Info", Header::TrustDomain),
    ("P-DCS-LAES", Header::TrustDomain),
    ("P-DCS-Redirect", Header::TrustDomain),
];

impl Header {
    /// The header of a name, in any case and in its compact form; [`Header::Other`] if it is unknown.
    pub fn from_bytes(name: &[u8]) -> Header {
        if let [letter] = name {
            return Header::from_compact(letter.to_ascii_lowercase());
        }
        let Some(first) = first_letter(name) else { return Header::Other };
        let row = usize::from(*BY_SHAPE.get(name.len()).map_or(&0, |row| &row[first]));
        NAMES[row..]
            .iter()
            .take_while(|(known, _)| known.len() == name.len())
            .find(|(known, _)| is_same(known.as_bytes(), name) || known.as_bytes().eq_ignore_ascii_case(name))
            .map_or_else(|| Header::in_group(name), |&(_, header)| header)
    }

    fn in_group(name: &[u8]) -> Header {
        // Most other headers begin with another letter: X-, Alert-Info, Content-Disposition.
        if !matches!(name.first().map(u8::to_ascii_uppercase), Some(b'P' | b'R' | b'D' | b'H')) {
            return Header::Other;
        }
        let known = GROUPS.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
        known.map_or(Header::Other, |&(_, header)| header)
    }

    /// Its bit in [`Message::has_any`](super::Message::has_any).
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }

    fn from_compact(letter: u8) -> Header {
        match letter {
            b'c' => Header::ContentType,
            b'e' => Header::ContentEncoding,
            b'f' => Header::From,
            b'i' => Header::CallId,
            b'k' => Header::Supported,
            b'l' => Header::ContentLength,
            b'm' => Header::Contact,
            b'o' => Header::Event,
            b'r' => Header::ReferTo,
            b's' => Header::Subject,
            b't' => Header::To,
            b'u' => Header::AllowEvents,
            b'v' => Header::Via,
            b'x' => Header::SessionExpires,
            _ => Header::Other,
        }
    }

    /// True if transactions are matched or messages framed by it: it stands in one line.
    pub(crate) fn is_single(self) -> bool {
        matches!(
            self,
            Header::From
                | Header::To
                | Header::CallId
                | Header::CSeq
                | Header::ContentLength
                | Header::MaxForwards
                | Header::MaxBreadth
        )
    }

    /// The canonical long name; empty for `Other` and for groups.
    pub fn as_str(self) -> &'static str {
        (self as usize).checked_sub(1).and_then(|row| NAMES.get(row)).map_or("", |(name, _)| name)
    }
}

/// By length and first letter, the first row of `NAMES` of that shape, or a row of another length. Two names
/// of one shape stand next to each other.
static BY_SHAPE: [[u8; 26]; LONGEST + 1] = {
    let mut shapes = [[0; 26]; LONGEST + 1];
    let mut row = NAMES.len();
    while row > 0 {
        row -= 1;
        let name = NAMES[row].0.as_bytes();
        shapes[name.len()][(name[0].to_ascii_lowercase() - b'a') as usize] = row as u8;
    }
    shapes
};

/// No longer name is looked up in the table.
const LONGEST: usize = "P-Preferred-Identity".len();

/// Compares names of one length: most have 8 to 16 bytes, of which two words that overlap are all.
fn is_same(known: &[u8], name: &[u8]) -> bool {
    if known.len() > 16 || known.len() < 8 {
        return known == name;
    }
    let ends = |text: &[u8]| Some((*text.first_chunk::<8>()?, *text.last_chunk::<8>()?));
    ends(known) == ends(name)
}

fn first_letter(name: &[u8]) -> Option<usize> {
    let letter = name.first()?.to_ascii_lowercase();
    letter.is_ascii_lowercase().then(|| usize::from(letter - b'a'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_the_order_of_the_headers() {
        for (row, &(name, header)) in NAMES.iter().enumerate() {
            assert_eq!(header as usize, row + 1, "{name}");
            assert_eq!(header.as_str(), name);
            assert_eq!(Header::from_bytes(name.as_bytes()), header);
            assert_eq!(Header::from_bytes(name.to_lowercase().as_bytes()), header);
            assert_eq!(Header::from_bytes(format!("{name}x").as_bytes()), Header::Other);
        }
        assert_eq!(Header::Other.as_str(), "");
    }

    #[test]
    fn other_names_are_other() {
        for name in [
            "",
            "-",
            "Contacts",
            "Contaxt",
            "y",
            "X-Header",
            "P-Asserted-Identities",
            "Acceptable-Names-Are-Longer",
        ] {
            assert_eq!(Header::from_bytes(name.as_bytes()), Header::Other, "{name}");
        }
    }

    #[test]
    fn identities_are_known_in_any_case() {
        for &(name, header) in GROUPS {
            for name in [name.to_owned(), name.to_lowercase(), name.to_uppercase()] {
                assert_eq!(Header::from_bytes(name.as_bytes()), header, "{name}");
            }
        }
        // RFC 8224: the signature authenticates its signer, independent of the sender.
        assert_eq!(Header::from_bytes(b"Identity"), Header::Other);
    }
}
