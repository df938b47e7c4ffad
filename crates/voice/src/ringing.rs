//! The ringing tone that a caller hears: ITU-T E.180 supplement 2, by country.
//!
//! A caller that an application has answered gets no 180 any more (RFC 3261 §13.3.1), so a Dial plays the
//! tone as sound. It ends with the callee's early media, with the connection, or with the last attempt.
//! Twilio's `ringTone` names the country.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use media::codec::Codec;
use media::prompt::Prompt;
use media::session::PlayOptions;
use media::tone;

use super::leg::Leg;

/// A country's tone: Hz of one or two tones (0: none), and milliseconds of sound and silence in turn.
struct Cadence {
    country: &'static str,
    tones: [f64; 2],
    milliseconds: &'static [u32],
}

/// The first is for countries that are not here.
const CADENCES: [Cadence; 8] = [
    Cadence { country: "us", tones: [440.0, 480.0], milliseconds: &[2_000, 4_000] },
    Cadence { country: "uk", tones: [400.0, 450.0], milliseconds: &[400, 200, 400, 2_000] },
    Cadence { country: "gb", tones: [400.0, 450.0], milliseconds: &[400, 200, 400, 2_000] },
    Cadence { country: "de", tones: [425.0, 0.0], milliseconds: &[1_000, 4_000] },
    Cadence { country: "fr", tones: [440.0, 0.0], milliseconds: &[1_500, 3_500] },
    Cadence { country: "it", tones: [425.0, 0.0], milliseconds: &[1_000, 4_000] },
    Cadence { country: "es", tones: [425.0, 0.0], milliseconds: &[1_500, 3_000] },
    Cadence { country: "jp", tones: [400.0, 0.0], milliseconds: &[1_000, 2_000] },
];

/// Peak of each tone: some -13 dBm0, as exchanges send it. Two of them stay below the full scale.
const LEVEL: i16 = 5_000;
const RATE: u32 = 8_000;

/// The tones, encoded once for each country and codec, and shared by all calls of the shard.
#[derive(Default)]
pub(super) struct RingTones {
    made: HashMap<(&'static str, Codec), Prompt>,
}

impl RingTones {
    /// The tone of a country in a codec, by its two letters in either case. `None`: the codec cannot be
    /// encoded here.
    fn get(&mut self, country: &str, codec: Codec) -> Option<Prompt> {
        let is_it = |cadence: &&Cadence| country.eq_ignore_ascii_case(cadence.country);
        let cadence = CADENCES.iter().find(is_it).unwrap_or(&CADENCES[0]);
        match self.made.entry((cadence.country, codec)) {
            Entry::Occupied(made) => Some(made.get().clone()),
            Entry::Vacant(place) => round(cadence, codec).map(|prompt| place.insert(prompt).clone()),
        }
    }
}

/// One round of a cadence, which the media repeats without end. Its silence is not encoded: the shard does this while calls wait.
fn round(cadence: &Cadence, codec: Codec) -> Option<Prompt> {
    let part = |(index, &milliseconds): (usize, &u32)| {
        if index % 2 == 1 {
            return Prompt::pause(codec, milliseconds).ok();
        }
        let [first, second] = cadence.tones.map(|frequency| tone::tone(frequency, LEVEL, RATE, milliseconds));
        let samples: Vec<i16> = first.iter().zip(second).map(|(a, b)| a.saturating_add(b)).collect();
        Prompt::encode(codec, &samples, RATE).ok()
    };
    let parts: Option<Vec<Prompt>> = cadence.milliseconds.iter().enumerate().map(part).collect();
    Prompt::concat(&parts?)
}

impl Leg {
    /// Plays an answered caller the ringing tone of a country.
    pub(super) fn start_ringing(&mut self, tones: &mut RingTones, country: &str) {
        let Some(media) = &mut self.media else { return };
        // Several parties of one Dial ask for it.
        if self.hears_ringing {
            return;
        }
        if let Some(prompt) = tones.get(country, media.negotiated().audio.codec) {
            self.hears_ringing = true;
            self.playing += 1;
            media.play(prompt, PlayOptions { id: self.playing, loops: None, offset_ms: 0 });
        }
    }

    /// Ends the tone, if it plays.
    pub(super) fn stop_ringing(&mut self) {
        if std::mem::take(&mut self.hears_ringing)
            && let Some(media) = &mut self.media
        {
            // The number of the stopped sound is used up, so that a late report of it ends no prompt.
            self.playing += 1;
            media.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_country_rings_in_its_own_way_and_an_unknown_one_in_the_first() {
        let mut tones = RingTones::default();
        for (country, milliseconds) in [("DE", 5_000), ("uk", 3_000), ("zz", 6_000), ("", 6_000)] {
            let prompt = tones.get(country, Codec::Pcma).unwrap();
            assert_eq!(prompt.duration_ms(), milliseconds, "{country:?}");
        }
        assert_eq!(tones.made.len(), 3, "each is made once");
    }
}
