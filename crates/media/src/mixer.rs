//! Conferences: each member hears the sum of the others, and members that only listen share one encoded
//! frame.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::codec::Codec;
use crate::level::{clamp, mean};
use crate::limits::{CONFERENCE_MEMBERS, CONFERENCE_SPEAKERS, FRAME_MS};
use crate::resample::Resampler;
use crate::session::FrameSource;
use crate::session::transcoder::Transcoder;

/// A member of one conference; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(u32);

/// One leg in a conference, with its frame of this tick.
struct Member {
    id: MemberId,
    /// The rate of the member's frames, in Hz.
    rate: u32,
    /// From the member's rate to the conference's.
    resampler: Option<Resampler>,
    /// This tick's sound at the conference's rate; empty when there was none.
    frame: Vec<i16>,
    /// The mean magnitude, falling slowly, so that a speaker stays the loudest between two words.
    level: u32,
    /// The others do not hear the member.
    is_muted: bool,
    /// The member never has a sound: nothing is mixed for it.
    only_listens: bool,
    /// Heard by that one alone.
    whispers_to: Option<MemberId>,
    /// Put since the last mix.
    is_fresh: bool,
    /// The sum of this tick has the member's sound: its own frame is the sum without it.
    is_mixed: bool,
}

/// One frame of the whole mix for all members that hear it in one codec.
struct SharedFrame {
    codec: Codec,
    transcoder: Transcoder,
    /// The encoded frame of `tick`, for all members that are not in the sum.
    payload: Vec<u8>,
    /// The tick in which the frame was encoded.
    tick: u64,
}

/// Mean magnitude that is not worth mixing.
const INAUDIBLE: u32 = 8;
/// Sounds waiting to be injected; one more is left out.
const SOUNDS: usize = 8;

/// A conference at one rate. A tick: [`Conference::put`] for every member, [`Conference::mix`] once, then
/// [`Conference::frame`] for every member.
pub struct Conference {
    /// The rate of the sum, in Hz.
    rate: u32,
    /// By id.
    members: Vec<Member>,
    next_id: u32,
    /// The sum of this tick before it is limited to 16 bits.
    total: Vec<i32>,
    /// The sum of this tick.
    whole: Vec<i16>,
    /// The sum without one member's sound.
    own: Vec<i16>,
    resampled: Vec<i16>,
    /// Level and place of the members that may be mixed.
    candidates: Vec<(u32, usize)>,
    /// Places of the members that whisper in this tick, and the member that hears each.
    whispers: Vec<(usize, MemberId)>,
    shared: Vec<SharedFrame>,
    /// Beeps and announcements, with the position in the first.
    sounds: VecDeque<(Arc<[i16]>, usize)>,
    /// The music of a single member, with its position.
    music: Option<(Arc<[i16]>, usize)>,
    tick: u64,
}

impl Conference {
    /// `rate`: 8000, 16000 or 48000 Hz, another counts as 8000. That of its best member's codec serves all.
    pub fn new(rate: u32) -> Conference {
        let rate = if matches!(rate, 16_000 | 48_000) { rate } else { 8_000 };
        let frame = (rate * FRAME_MS / 1000) as usize;
        Conference {
            rate,
            members: Vec::new(),
            next_id: 0,
            total: vec![0; frame],
            whole: vec![0; frame],
            own: Vec::with_capacity(frame),
            resampled: Vec::new(),
            candidates: Vec::new(),
            whispers: Vec::new(),
            shared: Vec::new(),
            sounds: VecDeque::new(),
            music: None,
            tick: 0,
        }
    }

    /// The mixer's sample rate, in Hz.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// `rate`: of the member's sound, 8000, 16000 or 48000 Hz. A member that `only_listens` is never mixed.
    /// `None`: the conference is full.
    pub fn join(&mut self, rate: u32, only_listens: bool) -> Option<MemberId> {
        if self.members.len() >= CONFERENCE_MEMBERS {
            return None;
        }
        let id = MemberId(self.next_id);
        self.next_id = self.next_id.checked_add(1)?;
        self.members.push(Member {
            id,
            rate,
            resampler: Resampler::new(rate, self.rate),
            frame: Vec::new(),
            level: 0,
            is_muted: false,
            only_listens,
            whispers_to: None,
            is_fresh: false,
            is_mixed: false,
        });
        Some(id)
    }

    /// `false` when it was no member.
    pub fn leave(&mut self, id: MemberId) -> bool {
        let at = self.members.binary_search_by_key(&id, |member| member.id);
        at.map(|at| self.members.remove(at)).is_ok()
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True without members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The member of this id, while it is in the conference.
    fn member(&mut self, id: MemberId) -> Option<&mut Member> {
        let at = self.members.binary_search_by_key(&id, |member| member.id).ok()?;
        self.members.get_mut(at)
    }

    /// A muted member is not mixed. `false` when it is none.
    pub fn mute(&mut self, id: MemberId, on: bool) -> bool {
        self.member(id).map(|member| member.is_muted = on).is_some()
    }

    /// Only that other member hears this one; `None`: all do. `false` when it is none.
    pub fn whisper(&mut self, id: MemberId, to: Option<MemberId>) -> bool {
        self.member(id).map(|member| member.whispers_to = to).is_some()
    }

    /// Heard by all from the next tick on, over what is said: a beep. Samples at the conference's rate.
    pub fn inject(&mut self, sound: Arc<[i16]>) {
        if self.sounds.len() < SOUNDS {
            self.sounds.push_back((sound, 0));
        }
    }

    /// The sound that a lone member hears, repeated. Samples at the conference's rate.
    pub fn hold_music(&mut self, music: Option<Arc<[i16]>>) {
        self.music = music.filter(|music| !music.is_empty()).map(|music| (music, 0));
    }

    /// The sound of a member in this tick: a frame at its rate.
    pub fn put(&mut self, id: MemberId, samples: &[i16]) {
        let rate = self.rate;
        let Some(member) = self.member(id).filter(|member| !member.only_listens && !member.is_muted) else {
            return;
        };
        member.frame.clear();
        member.is_fresh = true;
        match &mut member.resampler {
            Some(resampler) => resampler.process(samples, &mut member.frame),
            None if member.rate == rate => member.frame.extend_from_slice(samples),
            None => {}
        }
    }

    /// Sums this tick: of many speakers the loudest.
    pub fn mix(&mut self) {
        self.tick += 1;
        self.total.fill(0);
        self.candidates.clear();
        self.whispers.clear();
        for (at, member) in self.members.iter_mut().enumerate() {
            // Sound of an earlier tick is not played again.
            if !std::mem::take(&mut member.is_fresh) {
                member.frame.clear();
            }
            let level = u32::from(mean(&member.frame));
            member.level = level.max(member.level * 15 / 16);
            member.is_mixed = false;
            if level < INAUDIBLE || member.is_muted {
                continue;
            }
            match member.whispers_to {
                Some(to) => self.whispers.push((at, to)),
                None => self.candidates.push((member.level, at)),
            }
        }
        if self.candidates.len() > CONFERENCE_SPEAKERS {
            self.candidates.select_nth_unstable_by(CONFERENCE_SPEAKERS - 1, |one, other| other.cmp(one));
            self.candidates.truncate(CONFERENCE_SPEAKERS);
        }
        for (_, at) in &self.candidates {
            let member = &mut self.members[*at];
            member.is_mixed = true;
            for (sum, sample) in self.total.iter_mut().zip(&member.frame) {
                *sum += i32::from(*sample);
            }
        }
        self.add_sounds();
        for (sample, sum) in self.whole.iter_mut().zip(&self.total) {
            *sample = clamp(*sum);
        }
    }

    /// Adds the sound that is played to all members, and the music while a member is alone.
    fn add_sounds(&mut self) {
        if let Some((sound, at)) = self.sounds.front_mut() {
            for (sum, sample) in self.total.iter_mut().zip(&sound[*at..]) {
                *sum += i32::from(*sample);
            }
            *at += self.total.len();
            if *at >= sound.len() {
                self.sounds.pop_front();
            }
        }
        if let Some((music, at)) = &mut self.music
            && self.members.len() < 2
        {
            for sum in &mut self.total {
                *sum += i32::from(music[*at]);
                *at = (*at + 1) % music.len();
            }
        }
    }

    /// The sound for a member, for its leg's `send_frame` with the codec that it sends: the others' sum, or the
    /// encoded whole that all members share whose sound is not in it.
    pub fn frame(&mut self, id: MemberId, codec: Codec) -> FrameSource<'_> {
        let Ok(at) = self.members.binary_search_by_key(&id, |member| member.id) else {
            return FrameSource::None;
        };
        let member = &self.members[at];
        if member.is_mixed || self.whispers.iter().any(|(_, to)| *to == id) {
            self.mix_own(at);
            return FrameSource::Samples { rate: self.rate, samples: &self.own };
        }
        // The state of these codecs does not bear a change of encoder within a stream; G.711 has none.
        if !member.only_listens && !matches!(codec, Codec::Pcmu | Codec::Pcma) {
            return FrameSource::Samples { rate: self.rate, samples: &self.whole };
        }
        match self.share(codec) {
            Some(at) => FrameSource::Payload { codec, payload: &self.shared[at].payload },
            None => FrameSource::Samples { rate: self.rate, samples: &self.whole },
        }
    }

    /// The total without a member's own sound, and with the whispers to it.
    fn mix_own(&mut self, at: usize) {
        let member = &self.members[at];
        let mut whispers = self.whispers.iter().filter(|(_, to)| *to == member.id).peekable();
        // A frame from another node may be shorter than the mix.
        let own = |index: usize| match member.frame.get(index) {
            Some(sample) if member.is_mixed => i32::from(*sample),
            _ => 0,
        };
        self.own.clear();
        if whispers.peek().is_none() {
            let all = self.total.iter().zip(&member.frame);
            self.own.extend(all.map(|(sum, own)| clamp(sum - i32::from(*own))));
            return;
        }
        let whispers: Vec<&[i16]> = whispers.map(|(at, _)| &*self.members[*at].frame).collect();
        self.own.extend(self.total.iter().enumerate().map(|(index, sum)| {
            let whispered: i32 =
                whispers.iter().filter_map(|frame| frame.get(index)).map(|s| i32::from(*s)).sum();
            clamp(sum - own(index) + whispered)
        }));
    }

    /// The whole mix encoded, once a tick.
    fn share(&mut self, codec: Codec) -> Option<usize> {
        let at = match self.shared.iter().position(|shared| shared.codec == codec) {
            Some(at) => at,
            None => {
                let transcoder = Transcoder::new(codec).ok()?;
                self.shared.push(SharedFrame { codec, transcoder, payload: Vec::new(), tick: 0 });
                self.shared.len() - 1
            }
        };
        let shared = &mut self.shared[at];
        if shared.tick != self.tick {
            shared.tick = self.tick;
            shared.payload.clear();
            shared.transcoder.samples(self.rate, &self.whole, &mut self.resampled, &mut shared.payload);
        }
        Some(at)
    }

    /// The whole mix of this tick, for a recording.
    pub fn whole(&self) -> &[i16] {
        &self.whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Decoder;
    use crate::tone::tone;

    /// The level of a frequency in samples, by Goertzel.
    fn level(samples: &[i16], rate: u32, frequency: f64) -> f64 {
        let (re, im) = samples.iter().enumerate().fold((0.0, 0.0), |(re, im), (at, sample)| {
            let turn = std::f64::consts::TAU * frequency * at as f64 / f64::from(rate);
            (re + f64::from(*sample) * turn.cos(), im + f64::from(*sample) * turn.sin())
        });
        re.hypot(im) * 2.0 / samples.len() as f64
    }

    /// Members who say tones for 400 ms; the sound that each hears at the conference's rate in the last 200.
    fn confer(conference: &mut Conference, members: &[(MemberId, Vec<i16>)], codec: Codec) -> Vec<Vec<i16>> {
        let mut mixes = vec![Vec::new(); members.len()];
        let mut decoders: Vec<_> = members.iter().map(|_| Decoder::new(codec).unwrap()).collect();
        for tick in 0..20 {
            for (id, samples) in members {
                let frame = samples.len() / 20;
                conference.put(*id, &samples[tick * frame..(tick + 1) * frame]);
            }
            conference.mix();
            for (index, (id, _)) in members.iter().enumerate() {
                match conference.frame(*id, codec) {
                    FrameSource::Samples { samples, .. } => mixes[index].extend_from_slice(samples),
                    FrameSource::Payload { payload, .. } => {
                        decoders[index].decode(payload, &mut mixes[index]).unwrap();
                    }
                    FrameSource::None => {}
                }
            }
        }
        mixes.iter().map(|all| all[all.len() / 2..].to_vec()).collect()
    }

    fn saying(frequency: f64, level: i16, rate: u32) -> Vec<i16> {
        tone(frequency, level, rate, 400)
    }

    const TONES: [f64; 3] = [440.0, 700.0, 1_250.0];

    #[test]
    fn each_hears_the_others_and_not_itself_at_every_rate() {
        for rate in [8_000, 16_000, 48_000] {
            let mut conference = Conference::new(rate);
            let rates = [8_000, 16_000, 48_000];
            let members: Vec<_> = (0..3)
                .map(|at| (conference.join(rates[at], false).unwrap(), saying(TONES[at], 6_000, rates[at])))
                .collect();
            for (index, mixes) in confer(&mut conference, &members, Codec::Pcma).iter().enumerate() {
                for (other, frequency) in TONES.iter().enumerate() {
                    let level = level(mixes, rate, *frequency);
                    let fits =
                        if other == index { level < 60.0 } else { (5_700.0..6_300.0).contains(&level) };
                    assert!(fits, "{rate}: {index} hears {frequency} at {level}");
                }
            }
        }
    }

    #[test]
    fn the_muted_and_the_listeners_are_not_heard_and_hear_all() {
        let mut conference = Conference::new(8_000);
        let members: Vec<_> = (0..3)
            .map(|at| (conference.join(8_000, at == 2).unwrap(), saying(TONES[at], 6_000, 8_000)))
            .collect();
        assert!(conference.mute(members[1].0, true));
        let mixes = confer(&mut conference, &members, Codec::Pcma);
        let of = |member: usize| TONES.map(|frequency| level(&mixes[member], 8_000, frequency) > 3_000.0);
        assert_eq!([of(0), of(1), of(2)], [[false; 3], [true, false, false], [true, false, false]]);
        // Whole and encoded once: the same bytes for both.
        let payload = |conference: &mut Conference, id| match conference.frame(id, Codec::Pcma) {
            FrameSource::Payload { payload, .. } => payload.as_ptr(),
            other => panic!("{other:?}"),
        };
        assert_eq!(payload(&mut conference, members[1].0), payload(&mut conference, members[2].0));
        assert!(conference.leave(members[0].0) && !conference.leave(members[0].0));
        assert!(!conference.mute(members[0].0, true));
        assert_eq!(conference.frame(members[0].0, Codec::Pcma), FrameSource::None);
        assert_eq!(conference.len(), 2);
    }

    #[test]
    fn a_coach_is_heard_by_one_member_and_hears_all() {
        let mut conference = Conference::new(8_000);
        let members: Vec<_> = (0..3)
            .map(|at| (conference.join(8_000, false).unwrap(), saying(TONES[at], 6_000, 8_000)))
            .collect();
        assert!(conference.whisper(members[2].0, Some(members[0].0)));
        let mixes = confer(&mut conference, &members, Codec::Pcma);
        let of = |member: usize| TONES.map(|frequency| level(&mixes[member], 8_000, frequency) > 3_000.0);
        assert_eq!([of(0), of(1), of(2)], [[false, true, true], [true, false, false], [true, true, false]]);
        conference.whisper(members[2].0, None);
        let mixes = confer(&mut conference, &members, Codec::Pcma);
        assert!(level(&mixes[1], 8_000, TONES[2]) > 3_000.0);
    }

    /// Another node may send less than a whole frame.
    #[test]
    fn a_short_frame_of_a_member_that_is_coached_is_mixed() {
        let mut conference = Conference::new(8_000);
        let ids: Vec<_> = (0..3).map(|_| conference.join(8_000, false).unwrap()).collect();
        conference.whisper(ids[2], Some(ids[0]));
        conference.put(ids[0], &[30_000]);
        conference.put(ids[1], &[1_000; 160]);
        conference.put(ids[2], &[1_000; 160]);
        conference.mix();
        let FrameSource::Samples { samples, .. } = conference.frame(ids[0], Codec::Pcmu) else {
            panic!("a frame of its own")
        };
        assert_eq!(samples.len(), 160);
    }

    #[test]
    fn of_many_the_loudest_are_heard() {
        let mut conference = Conference::new(8_000);
        let frequency = |at: usize| 300.0 + 50.0 * at as f64;
        let mut members: Vec<_> = (0..12)
            .map(|at| {
                let loud = if at < CONFERENCE_SPEAKERS { 2_000 } else { 900 };
                (conference.join(8_000, false).unwrap(), saying(frequency(at), loud, 8_000))
            })
            .collect();
        members.push((conference.join(8_000, true).unwrap(), vec![0; 3_200]));
        let mixes = &confer(&mut conference, &members, Codec::Pcma)[12];
        for at in 0..12 {
            let level = level(mixes, 8_000, frequency(at));
            assert_eq!(level > 1_500.0, at < CONFERENCE_SPEAKERS, "{at}: {level}");
            assert!(at < CONFERENCE_SPEAKERS || level < 100.0, "{at}: {level}");
        }
    }

    #[test]
    fn sums_are_clipped_and_a_member_without_frames_is_silent() {
        let mut conference = Conference::new(8_000);
        let ids: Vec<_> = (0..3).map(|_| conference.join(8_000, false).unwrap()).collect();
        ids[..2].iter().for_each(|id| conference.put(*id, &[30_000; 160]));
        conference.mix();
        assert_eq!(conference.whole(), [32_767; 160]);
        let own = FrameSource::Samples { rate: 8_000, samples: &[30_000; 160] };
        assert_eq!(conference.frame(ids[0], Codec::Pcmu), own);
        assert_eq!(conference.frame(ids[1], Codec::Pcmu), own);
        conference.mix();
        assert_eq!(conference.whole(), [0; 160]);
        let muted = Conference::new(12_345);
        assert_eq!((muted.rate(), muted.is_empty()), (8_000, true));
    }

    #[test]
    fn a_single_member_hears_music_and_all_hear_a_beep() {
        let mut conference = Conference::new(8_000);
        let first = (conference.join(8_000, false).unwrap(), saying(TONES[0], 6_000, 8_000));
        // Whole periods: the loop has no seam.
        conference.hold_music(Some(tone(1_000.0, 4_000, 8_000, 1_000).into()));
        let mixes = confer(&mut conference, std::slice::from_ref(&first), Codec::Pcmu);
        assert!(level(&mixes[0], 8_000, 1_000.0) > 3_800.0);
        assert!(level(&mixes[0], 8_000, TONES[0]) < 60.0);
        let second = (conference.join(8_000, false).unwrap(), vec![0; 3_200]);
        let beep: Arc<[i16]> = tone(1_400.0, 4_000, 8_000, 400).into();
        conference.inject(beep);
        let mixes = confer(&mut conference, &[first, second], Codec::Pcmu);
        for (member, says_first) in [(0, false), (1, true)] {
            assert!(level(&mixes[member], 8_000, 1_400.0) > 3_700.0);
            assert!(level(&mixes[member], 8_000, 1_000.0) < 60.0);
            assert_eq!(level(&mixes[member], 8_000, TONES[0]) > 5_000.0, says_first);
        }
    }

    #[test]
    fn a_conference_has_its_bound() {
        let mut conference = Conference::new(8_000);
        for _ in 0..CONFERENCE_MEMBERS {
            assert!(conference.join(8_000, false).is_some());
        }
        assert_eq!(conference.join(8_000, false), None);
    }
}
