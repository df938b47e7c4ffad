//! The descriptions of a session, as far as later ones must agree with them (RFC 3264 §8).

use super::{Description, Media, MediaKind};
use crate::codec::{Codec, PayloadType};

/// The numbers that are given to payload types without a fixed one (RFC 3551 §6).
const DYNAMIC: std::ops::Range<u8> = 96..128;

/// The descriptions of one session. It counts the version of `o=`, and knows the streams of this side's last description and
/// the meaning of payload type numbers.
#[derive(Debug, Clone, Default)]
pub struct DescriptionHistory {
    /// This side's last description; a changed one has the next version.
    last: Option<Description>,
    /// The payload types of sound without a fixed meaning that either side has named, each number once, the latest last.
    named: Vec<PayloadType>,
}

impl DescriptionHistory {
    /// This side's last description; `None` before the first.
    pub fn last(&self) -> Option<&Description> {
        self.last.as_ref()
    }

    /// A description of this side is sent. Sets its version, which rises by one with every change (RFC 3264 §8).
    pub fn stamp(&mut self, description: &mut Description) {
        if let Some(last) = &self.last {
            description.origin.version = last.origin.version;
            if description != last {
                description.origin.version += 1;
            }
        }
        self.note(description);
        self.last = Some(description.clone());
    }

    /// A description of either side has named payload types. Their numbers keep that meaning (RFC 3264 §8.3.2).
    pub fn note(&mut self, description: &Description) {
        let audio = description.media.iter().filter(|media| media.kind == MediaKind::Audio);
        for one in audio.flat_map(named) {
            self.named.retain(|known| known.number != one.number);
            self.named.push(one);
        }
    }

    /// Payload types under the numbers that they have in this session: a new one under its own number, or the first that is free.
    /// One for which no number is free is left out.
    pub(super) fn numbered(&self, own: Vec<PayloadType>) -> Vec<PayloadType> {
        let mut named = self.named.clone();
        let numbered = |own: PayloadType| {
            if PayloadType::fixed(own.number).is_some() {
                return Some(own);
            }
            let is_same = |one: &&PayloadType| one.codec == own.codec && one.clock_rate == own.clock_rate;
            if let Some(known) = named.iter().rev().find(is_same) {
                return Some(PayloadType { number: known.number, ..own });
            }
            let is_free = |number: &u8| named.iter().all(|known| known.number != *number);
            let number = std::iter::once(own.number).chain(DYNAMIC).find(is_free)?;
            let one = PayloadType { number, ..own };
            named.push(one);
            Some(one)
        };
        own.into_iter().filter_map(numbered).collect()
    }
}

/// The payload types of a stream without a fixed meaning, each number once.
fn named(media: &Media) -> impl Iterator<Item = PayloadType> {
    let listed =
        media.formats.iter().filter_map(|format| format.parse().ok()).filter(|number| *number < 128_u8);
    let mapped = media.rtpmaps.iter().map(|map| map.number);
    let numbers = listed.chain(mapped).fold(0_u128, |numbers, number| numbers | (1_u128 << number));
    let is_dynamic =
        move |number: &u8| (numbers >> *number) & 1 == 1 && PayloadType::fixed(*number).is_none();
    (0..128).filter(is_dynamic).map(move |number| {
        let unknown = PayloadType { number, codec: Codec::Other, clock_rate: 0, channels: 1 };
        media.rtpmaps.iter().find(|map| map.number == number).copied().unwrap_or(unknown)
    })
}
