//! Header names that somebody here asks for, with their compact forms (RFC 3261 §7.3.3 and the IANA list).

/// A header field's name. What nobody asks for is `Other` and travels untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Header {
    Other,
    Accept,
    Allow,
    AllowEvents,
    Authorization,
    CallId,
    Contact,
    ContentEncoding,
    ContentLength,
    ContentType,
    CSeq,
    Date,
    Event,
    Expires,
    From,
    MaxForwards,
    MinExpires,
    Path,
    ProxyAuthenticate,
    ProxyAuthorization,
    ProxyRequire,
    RecordRoute,
    ReferTo,
    Require,
    RetryAfter,
    Route,
    ServiceRoute,
    SessionExpires,
    SipEtag,
    SipIfMatch,
    Subject,
    SubscriptionState,
    Supported,
    Timestamp,
    To,
    Unsupported,
    UserAgent,
    Via,
    Warning,
    WwwAuthenticate,
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
    ("Min-Expires", Header::MinExpires),
    ("Path", Header::Path),
    ("Proxy-Authenticate", Header::ProxyAuthenticate),
    ("Proxy-Authorization", Header::ProxyAuthorization),
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
];

impl Header {
    pub fn from_bytes(name: &[u8]) -> Header {
        if let [letter] = name {
            return Header::from_compact(letter.to_ascii_lowercase());
        }
        // Length and first letter reject nearly all rows before the comparison.
        let Some(&first) = name.first() else { return Header::Other };
        let first = first.to_ascii_lowercase();
        NAMES
            .iter()
            .find(|(known, _)| {
                known.len() == name.len()
                    && known.as_bytes()[0].to_ascii_lowercase() == first
                    && known.as_bytes().eq_ignore_ascii_case(name)
            })
            .map_or(Header::Other, |&(_, header)| header)
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

    /// What a transaction is matched by or a message is framed by: it stands in one line.
    pub(crate) fn is_single(self) -> bool {
        matches!(
            self,
            Header::From
                | Header::To
                | Header::CallId
                | Header::CSeq
                | Header::ContentLength
                | Header::MaxForwards
        )
    }

    /// The canonical long name; empty for `Other`.
    pub fn as_str(self) -> &'static str {
        NAMES.iter().find(|&&(_, header)| header == self).map_or("", |&(name, _)| name)
    }
}
