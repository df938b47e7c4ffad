//! `-cid_str` and `-cid_type`: the shape of the Call-IDs of calls that we start.

use std::fmt::Write as _;
use std::net::IpAddr;

use stdx::rng::Rng;
use stdx::time::Instant;

use crate::options::{CallIdType, CallOptions};

/// The facts of a call that its Call-ID may hold.
#[derive(Debug, Clone, Copy)]
pub struct CallIdFacts {
    /// The call's number.
    pub number: u64,
    /// Our address.
    pub ip: IpAddr,
    /// The process.
    pub pid: u32,
    /// The time.
    pub now: Instant,
}

/// The Call-ID of a new call.
pub fn call_id(options: &CallOptions, facts: &CallIdFacts, rng: &mut Rng) -> Box<[u8]> {
    let ip = facts.ip;
    let id = match options.call_id_type {
        None => formatted(&options.call_id_format, facts, rng),
        Some(CallIdType::Uuid) => uuid(rng, "-"),
        Some(CallIdType::UuidCompact) => uuid(rng, ""),
        Some(CallIdType::Random) => format!("{:016x}@{ip}", rng.next_u64()),
        Some(CallIdType::Timestamp) => {
            let micros = facts.now.since(Instant::from_unix_seconds(0)).as_micros();
            format!("{micros}-{}@{ip}", facts.number)
        }
    };
    id.into_bytes().into_boxed_slice()
}

/// A UUID of version 4 (RFC 9562 §5.4), its groups joined by `hyphen`.
fn uuid(rng: &mut Rng, hyphen: &str) -> String {
    let (high, low) = (rng.next_u64(), rng.next_u64());
    format!(
        "{:08x}{hyphen}{:04x}{hyphen}4{:03x}{hyphen}{:04x}{hyphen}{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff,
    )
}

/// `%u` is the call's number, `%s` our address, `%p` the process, `%r` a random number, `%%` a per cent sign. Anything
/// else after `%` is dropped with it, as SIPp drops it.
fn formatted(format: &str, facts: &CallIdFacts, rng: &mut Rng) -> String {
    let mut id = String::with_capacity(format.len() + 32);
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            id.push(character);
            continue;
        }
        // Writing to a string cannot fail.
        let _ = match rest.next() {
            Some('u') => write!(id, "{}", facts.number),
            Some('p') => write!(id, "{}", facts.pid),
            Some('s') => write!(id, "{}", facts.ip),
            Some('r') => write!(id, "{}", rng.next_u64() >> 32),
            Some('%') => id.write_char('%'),
            _ => Ok(()),
        };
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(format: &str, of_type: Option<CallIdType>) -> String {
        let options = CallOptions {
            call_id_format: format.to_owned(),
            call_id_type: of_type,
            ..crate::options::Options::default().call
        };
        let now = Instant::from_unix_seconds(1_000_000);
        let facts = CallIdFacts { number: 7, ip: [127, 0, 0, 1].into(), pid: 42, now };
        String::from_utf8(call_id(&options, &facts, &mut Rng::from_seed([7; 32])).into()).unwrap()
    }

    #[test]
    fn the_format_is_followed() {
        let id = |format| made(format, None);
        assert_eq!(id("%u-%p@%s"), "7-42@127.0.0.1");
        assert_eq!(id("100%%-%u"), "100%-7");
        assert_eq!(id("a%xb%"), "ab");
        assert_eq!(id(""), "");
        let random = id("%r");
        assert!(random.parse::<u32>().is_ok(), "{random}");
    }

    #[test]
    fn a_uuid_is_of_version_4_and_variant_10() {
        let id = made("", Some(CallIdType::Uuid));
        let groups: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12], "{id}");
        assert_eq!(&id[14..15], "4", "{id}");
        assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
        assert_eq!(made("", Some(CallIdType::UuidCompact)), id.replace('-', ""));
    }

    #[test]
    fn random_ones_and_time_stamps_have_our_address() {
        let random = made("", Some(CallIdType::Random));
        assert!(random.len() == 16 + "@127.0.0.1".len() && random.ends_with("@127.0.0.1"), "{random}");
        assert_eq!(made("", Some(CallIdType::Timestamp)), "1000000000000-7@127.0.0.1");
    }
}
