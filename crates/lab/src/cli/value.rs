//! The forms values take on the command line: times, numbers, addresses, transports.
//!
//! Every parser returns what is wrong and what is expected, as half a sentence; the caller puts the flag's name before it. Where SIPp has words
//! for a mistake they are kept.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use lab_sip::options::{CallIdType, DefaultBehaviours, Protocol, Sockets, Transport};

/// The unit of a bare number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultUnit {
    /// A number without a suffix counts milliseconds.
    Milliseconds,
    /// A number without a suffix counts seconds.
    Seconds,
}

/// `250`, `1.5`, `250ms`, `20s`, `5m`, `2h`, `01:30`, `1:00:00`.
pub fn time(text: &str, unit: DefaultUnit) -> Result<Duration, String> {
    let wrong = || {
        format!("\"{text}\" is not a time: a number with ms, s, m or h behind it, or hh:mm:ss, is expected")
    };
    if text.contains(':') {
        return clock(text).ok_or_else(wrong);
    }
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match (suffix.to_ascii_lowercase().as_str(), unit) {
        ("ms", _) | ("", DefaultUnit::Milliseconds) => number / 1000.0,
        ("s", _) | ("", DefaultUnit::Seconds) => number,
        ("m", _) => number * 60.0,
        ("h", _) => number * 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// `mm:ss` or `hh:mm:ss`, the seconds with a fraction if there is one.
fn clock(text: &str) -> Option<Duration> {
    let parts: Vec<&str> = text.split(':').collect();
    if !(2..=3).contains(&parts.len()) {
        return None;
    }
    let (last, rest) = parts.split_last()?;
    let mut minutes = 0_u32;
    for part in rest {
        // Hours and minutes: each part is worth sixty of the next.
        minutes = minutes.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    // `parse` would also take "inf", "nan" and a sign.
    if !last.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let seconds: f64 = last.parse().ok()?;
    Duration::try_from_secs_f64(f64::from(minutes) * 60.0 + seconds).ok()
}

/// A whole number; what is allowed follows from the type.
pub fn integer<T: FromStr + std::fmt::Display + IntegerRange>(text: &str) -> Result<T, String> {
    // Hexadecimal with 0x; a leading 0 alone means nothing.
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let number =
        hexadecimal.and_then(|digits| u64::from_str_radix(digits, 16).ok()).map(|number| number.to_string());
    let decimal = number.as_deref().unwrap_or(text);
    decimal.parse().map_err(|_| format!("\"{text}\" is not an integer from {} to {}", T::LOWEST, T::HIGHEST))
}

/// The ends of an integer type, for messages.
pub trait IntegerRange {
    /// The least value.
    const LOWEST: Self;
    /// The greatest value.
    const HIGHEST: Self;
}

macro_rules! limits {
    ($($t:ty),*) => { $(impl IntegerRange for $t { const LOWEST: $t = <$t>::MIN; const HIGHEST: $t = <$t>::MAX; })* };
}
limits!(u8, u16, u32, u64, usize, i64);

/// A finite decimal number.
pub fn float(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(format!("\"{text}\" is not a floating point number!")),
    }
}

/// A number that cannot be below zero.
pub fn positive(text: &str) -> Result<f64, String> {
    let value = float(text)?;
    if value < 0.0 { Err(format!("\"{text}\" is below zero")) } else { Ok(value) }
}

/// A truth value.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err(format!("\"{text}\" is not a boolean: true or false is expected")),
    }
}

/// Cuts `host`, `host:port`, `[v6]:port` and a bare `v6` without looking anything up.
pub fn host_port(text: &str) -> Result<(String, Option<u16>), String> {
    let port = |digits: &str| {
        digits
            .parse::<u16>()
            .map(Some)
            .map_err(|_| format!("\"{digits}\" of \"{text}\" is not a port: 0 to 65535 is expected"))
    };
    if text.is_empty() {
        return Err("an empty host".to_owned());
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or_else(|| format!("\"{text}\" has no closing ]"))?;
        return match after {
            "" => Ok((host.to_owned(), None)),
            _ => {
                let digits = after
                    .strip_prefix(':')
                    .ok_or_else(|| format!("\"{text}\": a colon and a port are expected after ]"))?;
                Ok((host.to_owned(), port(digits)?))
            }
        };
    }
    match text.matches(':').count() {
        1 => {
            let (host, digits) = text.split_once(':').unwrap_or((text, ""));
            Ok((host.to_owned(), port(digits)?))
        }
        // No colon, or several: a name, or an IPv6 address without brackets, which cannot have a port.
        _ => Ok((text.to_owned(), None)),
    }
}

/// An address or a name the system's resolver knows; of several, the first of the family of `like`.
pub fn address(text: &str, default_port: u16, like: Option<IpAddr>) -> Result<SocketAddr, String> {
    let (host, port) = host_port(text)?;
    let port = port.unwrap_or(default_port);
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    let found: Vec<SocketAddr> = (host.as_str(), port)
        .to_socket_addrs()
        .map_err(|error| format!("Unknown host '{host}': {error}; check the name, or give an IP address"))?
        .collect();
    let preferred = like.and_then(|like| found.iter().find(|address| address.is_ipv4() == like.is_ipv4()));
    preferred
        .or(found.first())
        .copied()
        .ok_or_else(|| format!("Unknown host '{host}': it has no address; give an IP address"))
}

/// The address that a host name or a written address stands for.
pub fn ip(text: &str) -> Result<IpAddr, String> {
    address(text, 0, None).map(|address| address.ip())
}

/// SIPp's two characters, and the WebSocket words.
pub fn transport(text: &str) -> Result<Transport, String> {
    let made = |protocol, sockets| Ok(Transport { protocol, sockets });
    match text {
        "u1" => made(Protocol::Udp, Sockets::Shared),
        "un" => made(Protocol::Udp, Sockets::PerCall),
        "ui" => made(Protocol::Udp, Sockets::PerAddress),
        "t1" => made(Protocol::Tcp, Sockets::Shared),
        "tn" => made(Protocol::Tcp, Sockets::PerCall),
        "l1" => made(Protocol::Tls, Sockets::Shared),
        "ln" => made(Protocol::Tls, Sockets::PerCall),
        // SIPp's names since 3.8, and those that Ringer had before.
        "w1" | "ws" => made(Protocol::Ws, Sockets::Shared),
        "wn" | "wsn" => made(Protocol::Ws, Sockets::PerCall),
        "x1" | "wss" => made(Protocol::Wss, Sockets::Shared),
        "xn" | "wssn" => made(Protocol::Wss, Sockets::PerCall),
        // Modes of SIPp that are refused with a reason instead of "invalid argument".
        "s1" | "sn" => Err("SCTP is not built into Ringer; u, t, l, w and x are".to_owned()),
        "c1" | "cn" => Err("No compression plugin available".to_owned()),
        "ti" | "li" => Err("You can only use a perip socket with UDP!".to_owned()),
        _ => Err(format!(
            "Invalid argument for -t param : '{text}': one of u1 un ui t1 tn l1 ln w1 wn x1 xn is expected"
        )),
    }
}

/// `uuid`, `uuid-compact`, `random` or `timestamp`.
pub fn call_id_type(text: &str) -> Result<CallIdType, String> {
    match text {
        "uuid" => Ok(CallIdType::Uuid),
        "uuid-compact" => Ok(CallIdType::UuidCompact),
        "random" => Ok(CallIdType::Random),
        "timestamp" => Ok(CallIdType::Timestamp),
        _ => Err(format!(
            "Unknown Call-ID type: '{text}': uuid, uuid-compact, random or timestamp is expected"
        )),
    }
}

/// `all`, `none`, or names with `-` before those to turn off, by commas.
pub fn behaviours(text: &str, mut now: DefaultBehaviours) -> Result<DefaultBehaviours, String> {
    // In order: "none,bye" turns one on again.
    for word in text.split(',').map(str::trim) {
        let (on, name) = word.strip_prefix('-').map_or((true, word), |name| (false, name));
        match name {
            "all" => now = every(on),
            "none" => now = every(!on),
            "bye" => now.bye = on,
            "abortunexp" => now.abort_unexpected = on,
            "pingreply" => now.ping_reply = on,
            "cseq" => now.check_cseq = on,
            _ => {
                return Err(format!(
                    "Unknown default behavior: '{word}': all, none, bye, abortunexp, pingreply or cseq is expected"
                ));
            }
        }
    }
    Ok(now)
}

/// All default behaviours on, or all off.
pub fn every(on: bool) -> DefaultBehaviours {
    DefaultBehaviours { bye: on, abort_unexpected: on, ping_reply: on, check_cseq: on }
}

/// Lines `name;host:port`; blank lines and `#` comments are passed over.
pub fn peers(file: &str) -> Result<Vec<(String, SocketAddr)>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: cannot be read: {error}"))?;
    let mut peers = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |why: &str| format!("{file}:{}: {why}", index + 1);
        let (name, target) =
            line.split_once(';').ok_or_else(|| at("a name, a semicolon and host:port are expected"))?;
        // A semicolon at the end of the line is taken too.
        let target = target.trim_end_matches(';').trim();
        peers.push((name.trim().to_owned(), address(target, 0, None).map_err(|why| at(&why))?));
    }
    if peers.is_empty() { Err(format!("{file}: names no peer")) } else { Ok(peers) }
}
