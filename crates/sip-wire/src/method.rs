//! Methods: RFC 3261, 3262, 3265/6665, 3311, 3428, 3515, 3903, 6086.

use std::fmt;

/// A method this server treats by name. Others are `Other` and forwarded as they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// RFC 3261 §13.
    Invite,
    /// RFC 3261 §13.2.2.4.
    Ack,
    /// RFC 3261 §9.
    Cancel,
    /// RFC 3261 §15.
    Bye,
    /// RFC 3261 §10.
    Register,
    /// RFC 3261 §11.
    Options,
    /// RFC 6665 §3.1.
    Subscribe,
    /// RFC 6665 §3.2.
    Notify,
    /// RFC 3903.
    Publish,
    /// RFC 3428.
    Message,
    /// RFC 6086.
    Info,
    /// RFC 3262.
    Prack,
    /// RFC 3311.
    Update,
    /// RFC 3515.
    Refer,
    /// Any other token.
    Other,
}

/// The Allow header of the methods that we serve ourselves.
pub const ALLOW: &str = "INVITE, ACK, CANCEL, BYE, REGISTER, OPTIONS, SUBSCRIBE, NOTIFY, PUBLISH, MESSAGE, INFO, PRACK, UPDATE, REFER";

impl Method {
    /// Methods are case-sensitive (RFC 3261 §7.1).
    pub fn from_bytes(token: &[u8]) -> Method {
        match token {
            b"INVITE" => Method::Invite,
            b"ACK" => Method::Ack,
            b"CANCEL" => Method::Cancel,
            b"BYE" => Method::Bye,
            b"REGISTER" => Method::Register,
            b"OPTIONS" => Method::Options,
            b"SUBSCRIBE" => Method::Subscribe,
            b"NOTIFY" => Method::Notify,
            b"PUBLISH" => Method::Publish,
            b"MESSAGE" => Method::Message,
            b"INFO" => Method::Info,
            b"PRACK" => Method::Prack,
            b"UPDATE" => Method::Update,
            b"REFER" => Method::Refer,
            _ => Method::Other,
        }
    }

    /// Empty for `Other`: its name stands in the message.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Invite => "INVITE",
            Method::Ack => "ACK",
            Method::Cancel => "CANCEL",
            Method::Bye => "BYE",
            Method::Register => "REGISTER",
            Method::Options => "OPTIONS",
            Method::Subscribe => "SUBSCRIBE",
            Method::Notify => "NOTIFY",
            Method::Publish => "PUBLISH",
            Method::Message => "MESSAGE",
            Method::Info => "INFO",
            Method::Prack => "PRACK",
            Method::Update => "UPDATE",
            Method::Refer => "REFER",
            Method::Other => "",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Method::Other { "(other)" } else { self.as_str() })
    }
}
