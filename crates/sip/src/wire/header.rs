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
    MaxBreadth,
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
    ("Max-Breadth", Header::MaxBreadth),
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
        let Some(first) = first_letter(name) else { return Header::Other };
        let row = usize::from(*BY_SHAPE.get(name.len()).map_or(&0, |row| &row[first]));
        NAMES[row..]
            .iter()
            .take_while(|(known, _)| known.len() == name.len())
            .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
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
                | Header::MaxBreadth
        )
    }

    /// The canonical long name; empty for `Other`.
    pub fn as_str(self) -> &'static str {
        (self as usize).checked_sub(1).map_or("", |row| NAMES[row].0)
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

const LONGEST: usize = "Proxy-Authorization".len();

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
            "P-Asserted-Identity",
            "Acceptable-Names-Are-Longer",
        ] {
            assert_eq!(Header::from_bytes(name.as_bytes()), Header::Other, "{name}");
        }
    }
}
