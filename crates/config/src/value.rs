//! Kinds of value: how each is written, read and shown.
//!
//! A kind is a type with [`Value`]: it says for messages and for the reference what it accepts, reads a value of TOML, and shows a default as the
//! file would have it. Kinds of one section only are beside that section.
//!
//! Invariant: `read` of the text that `show` returns gives an equal value for all kinds here, as the defaults
//! of the reference are meant to be copied into a file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use sip::transport::Transport;
use toml::de::DeValue;

use net::{Listener, Network};

/// One kind of value.
/// A kind only says yes or no; the text of the mistake is made by `Section`, from `EXPECTED`.
pub(super) trait Value: Sized {
    /// The accepted values, for messages and the reference.
    const EXPECTED: &'static str;

    /// `None`: not of this kind.
    fn read(value: &DeValue<'_>) -> Option<Self>;

    /// As it would stand in the file.
    fn show(&self) -> String;
}

impl Value for bool {
    const EXPECTED: &'static str = "true or false";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        value.as_bool()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for u32 {
    const EXPECTED: &'static str = "a whole number";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        // TOML has numbers in other bases (`0x1f`); the parser keeps the digits as text and the base beside
        // them. Negative numbers and those beyond 32 bits are no whole numbers of ours.
        let integer = value.as_integer()?;
        u32::from_str_radix(integer.as_str(), integer.radix()).ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Text in quotes.
impl Value for Box<str> {
    const EXPECTED: &'static str = "text in quotes";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        // An empty text is a key that was left unfilled: nothing of ours may be empty, and "not set" is written
        // by leaving the key out.
        value.as_str().filter(|text| !text.is_empty()).map(Into::into)
    }

    fn show(&self) -> String {
        quoted(self)
    }
}

impl Value for PathBuf {
    const EXPECTED: &'static str = "a path in quotes";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        value.as_str().filter(|text| !text.is_empty()).map(Into::into)
    }

    fn show(&self) -> String {
        quoted(&self.display().to_string())
    }
}

impl Value for SocketAddr {
    const EXPECTED: &'static str = "an address and port, as \"127.0.0.1:9090\" or \"[::1]:9090\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        value.as_str()?.parse().ok()
    }

    fn show(&self) -> String {
        quoted(&self.to_string())
    }
}

/// A DNS server: the port may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nameserver(pub(super) SocketAddr);

impl Value for Nameserver {
    const EXPECTED: &'static str = "an address, as \"192.0.2.53\", or with a port, \"192.0.2.53:5353\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let text = value.as_str()?;
        // An address with a port is tried first; an IPv6 address without brackets is then read as an address
        // alone. 53 is the port of DNS (RFC 1035 §4.2).
        let address = text.parse().or_else(|_| text.parse().map(|ip| SocketAddr::new(ip, 53)));
        address.ok().map(Nameserver)
    }

    fn show(&self) -> String {
        quoted(&self.0.to_string())
    }
}

impl Value for Network {
    const EXPECTED: &'static str = "an address, as \"192.0.2.7\", or a network, as \"10.0.0.0/8\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        value.as_str()?.parse().ok()
    }

    fn show(&self) -> String {
        quoted(&self.to_string())
    }
}

impl Value for Listener {
    const EXPECTED: &'static str = "udp:, tcp:, tls:, ws: or wss: with an address and port, as \"udp:127.0.0.1:5060\" or \"tls:[::]:5061\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        // At the first colon: an IPv6 address has more of them.
        let (transport, address) = value.as_str()?.split_once(':')?;
        let transport = match transport {
            "udp" => Transport::Udp,
            "tcp" => Transport::Tcp,
            "tls" => Transport::Tls,
            "ws" => Transport::Ws,
            "wss" => Transport::Wss,
            _ => return None,
        };
        Some(Listener { transport, address: address.parse().ok()? })
    }

    fn show(&self) -> String {
        quoted(&listener_text(self))
    }
}

/// `udp:127.0.0.1:5060`.
/// The form in which listeners are written in the file, shown in the log and told by `belfry status`.
pub fn listener_text(listener: &Listener) -> String {
    let transport = match listener.transport {
        Transport::Udp => "udp",
        Transport::Tcp => "tcp",
        Transport::Tls => "tls",
        Transport::Ws => "ws",
        Transport::Wss => "wss",
    };
    format!("{transport}:{}", listener.address)
}

/// Units of durations in milliseconds, the smallest first.
const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl Value for Duration {
    const EXPECTED: &'static str = "a duration, as \"500ms\", \"30s\", \"10m\", \"12h\" or \"90d\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        parse_duration(value.as_str()?)
    }

    fn show(&self) -> String {
        quoted(&duration_text(*self))
    }
}

/// `30s`, `10m`: a whole number and one unit.
/// `None`: no number, no unit or an unknown one, or more milliseconds than 64 bits have. Also used by the
/// command line.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*millis).map(Duration::from_millis)
}

/// In the largest unit that divides it.
/// Zero is `0s`. Parts of a millisecond are dropped, as no key has them.
pub fn duration_text(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let fits = |(_, unit): &&(&str, u64)| millis.is_multiple_of(*unit) && millis > 0;
    let (name, unit) = UNITS.iter().rev().find(fits).unwrap_or(&("s", 1_000));
    format!("{}{name}", millis / unit)
}

/// Bytes.
/// Written with a binary unit. `usize`, as most of them are lengths of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(super) struct Size(pub(super) usize);

/// Units of sizes in bytes, the smallest first.
const SIZES: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

impl Value for Size {
    const EXPECTED: &'static str = "a size, as \"512KiB\" or \"8MiB\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let (number, unit) = split_unit(value.as_str()?)?;
        let (_, bytes) = SIZES.iter().find(|(name, _)| *name == unit)?;
        usize::try_from(number.checked_mul(*bytes)?).ok().map(Size)
    }

    fn show(&self) -> String {
        let bytes = self.0 as u64;
        let fits = |(_, unit): &&(&str, u64)| bytes.is_multiple_of(*unit) && bytes > 0;
        let (name, unit) = SIZES.iter().rev().find(fits).unwrap_or(&SIZES[0]);
        quoted(&format!("{}{name}", bytes / unit))
    }
}

/// A number and what stands behind it. `None`: it begins with no digit, or has no unit.
fn split_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    // More digits than a `u64` has are refused here; the multiplication by the unit is checked by the callers.
    Some((text[..end].parse().ok()?, text[end..].trim_start()))
}

/// A string as TOML writes it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_durations_are_read_back_unchanged() {
        for (text, millis) in
            [("500ms", 500), ("1s", 1_000), ("90s", 90_000), ("10m", 600_000), ("90d", 7_776_000_000)]
        {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
            assert_eq!(duration_text(Duration::from_millis(millis)), text);
        }
        assert_eq!(duration_text(Duration::ZERO), "0s");
        for text in ["", "10", "s", "-1s", "1 week", "1.5h", "99999999999999999999d"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
