use std::net::SocketAddr;
use std::time::Duration;

use media::codec::alaw_encode;
use media::record::RecordOptions;
use media::rtp::Header;
use media::session::{FrameSource, TickWork};
use media::tone::tone;
use media::wav::Wav;

use super::*;
use crate::testing::{MemoryFiles, media};
use crate::{RecordingFiles, Ticket};

/// The outbox of a leg's tick.
struct Line<'a>(&'a mut Recording);

impl MediaOutbox for Line<'_> {
    fn rtp(&mut self, _to: SocketAddr, _packet: &[u8]) {}
    fn rtcp(&mut self, _to: SocketAddr, _packet: &[u8]) {}
    fn event(&mut self, _event: MediaEvent) {}
    fn recorded(&mut self, samples: &[i16]) {
        self.0.put(samples);
    }
}

/// A caller with a low voice, who hears a high one.
struct Leg {
    media: MediaSession,
    recording: Recording,
    work: TickWork,
    ticks: u32,
    low: Vec<i16>,
    high: Vec<i16>,
}

const PEER: &str = "127.0.0.2:6000";

impl Leg {
    fn new() -> Leg {
        let (low, high) = (tone(400.0, 6_000, 8_000, 4_000), tone(1_000.0, 6_000, 8_000, 4_000));
        Leg { media: media(), recording: Recording::new(), work: TickWork::default(), ticks: 0, low, high }
    }

    fn talk(&mut self, ms: u32) {
        for _ in 0..ms / 20 {
            let Leg { media, recording, work, ticks, low, high } = self;
            let now = Instant::from_unix_seconds(1) + Duration::from_millis(u64::from(*ticks) * 20);
            let at = *ticks as usize * 160;
            let payload: Vec<u8> = low[at..at + 160].iter().map(|sample| alaw_encode(*sample)).collect();
            let header = Header {
                marker: false,
                payload_type: 8,
                sequence: *ticks as u16,
                timestamp: *ticks * 160,
                ssrc: 1,
            };
            let mut packet = Vec::new();
            header.write(&payload, &mut packet);
            media.handle_packet(now, PEER.parse().unwrap(), &packet, work, &mut Line(recording));
            media.pull_frame(now, work, &mut Line(recording));
            let feed = FrameSource::Samples { rate: 8_000, samples: &high[at..at + 160] };
            media.send_frame(now, feed, work, &mut Line(recording));
            *ticks += 1;
        }
    }

    fn begin(&mut self, files: &MemoryFiles, number: u64, source: RecordSource) {
        let sid = ivr::sid::new(ivr::sid::RECORDING, u128::from(number));
        let mut file = files.create(Ticket { shard: 0, id: number }, &sid, "AC1").unwrap();
        let channels = if source == RecordSource::Dual { 2 } else { 1 };
        let options = RecordOptions { rate: 8_000, channels, trim: false, max_ms: 0 };
        let recorder = Recorder::new(options, &mut file);
        self.recording.flush(&mut self.media);
        self.recording.active.push(ActiveRecording {
            sid,
            of: "test",
            conference: None,
            source,
            rate: 8_000,
            recorder,
            file,
            pause: None,
            observer: RecordingObserver::Api { status: None },
            started: Instant::default(),
            over: None,
        });
        self.recording.arrange(&mut self.media);
    }

    fn end(&mut self, index: usize) -> u32 {
        self.recording.finish(&mut self.media);
        let mut one = self.recording.active.remove(index);
        self.recording.arrange(&mut self.media);
        let ms = one.recorder.finish(&mut one.file);
        one.file.close(true);
        ms
    }
}

fn read(files: &MemoryFiles, number: u128) -> Wav {
    Wav::parse(&files.read(&ivr::sid::new(ivr::sid::RECORDING, number)).unwrap()).unwrap()
}

/// Times the samples cross zero upwards in a second.
fn frequency(samples: &[i16]) -> usize {
    let crossings = samples.windows(2).filter(|pair| pair[0] < 0 && pair[1] >= 0).count();
    crossings * 8_000 / samples.len()
}

#[test]
fn two_recordings_of_one_leg_have_their_own_sources_and_nothing_of_a_pause() {
    let files = MemoryFiles::default();
    let mut leg = Leg::new();
    leg.begin(&files, 1, RecordSource::Received);
    leg.talk(500);
    leg.begin(&files, 2, RecordSource::Dual);
    leg.talk(500);
    assert_eq!(leg.end(0), 1_000);
    leg.talk(300);
    leg.recording.flush(&mut leg.media);
    leg.recording.active[0].pause = Some(Pause::Skip);
    leg.talk(700);
    leg.recording.flush(&mut leg.media);
    leg.recording.active[0].pause = None;
    leg.talk(300);
    assert_eq!(leg.end(0), 500 + 300 + 300);
    let heard = read(&files, 1);
    assert_eq!((heard.channels, heard.samples.len()), (1, 8_000));
    assert!((390..=410).contains(&frequency(&heard.samples[1_600..])), "{}", frequency(&heard.samples));
    let both = read(&files, 2);
    assert_eq!((both.channels, both.samples.len()), (2, 2 * 8_800));
    let channel = |at: usize| both.samples.iter().skip(at).step_by(2).copied().collect::<Vec<_>>();
    assert!((390..=410).contains(&frequency(&channel(0))), "{}", frequency(&channel(0)));
    assert!((980..=1_020).contains(&frequency(&channel(1))), "{}", frequency(&channel(1)));
}

#[test]
fn each_recording_gets_its_own_source_of_both_directions() {
    let mut scratch = Vec::new();
    let given = [1, 10, i16::MAX, 5];
    let mut take = |wanted| heard(&given, RecordSource::Dual, wanted, &mut scratch).to_vec();
    assert_eq!(take(RecordSource::Dual), given);
    assert_eq!(take(RecordSource::Received), [1, i16::MAX]);
    assert_eq!(take(RecordSource::Both), [11, i16::MAX]);
    assert_eq!(heard(&[4, 5], RecordSource::Received, RecordSource::Received, &mut scratch), [4, 5]);
}

#[test]
fn a_pause_of_silence_is_as_long_as_it_lasted() {
    let files = MemoryFiles::default();
    let mut leg = Leg::new();
    leg.begin(&files, 1, RecordSource::Received);
    leg.talk(500);
    leg.recording.flush(&mut leg.media);
    leg.recording.active[0].pause = Some(Pause::Silence);
    leg.talk(700);
    leg.recording.flush(&mut leg.media);
    leg.recording.active[0].pause = None;
    leg.talk(300);
    assert_eq!(leg.end(0), 500 + 700 + 300);
    let heard = read(&files, 1);
    assert_eq!(heard.samples.len(), 8 * 1_500);
    let second = |from: usize, to: usize| &heard.samples[8 * from..8 * to];
    assert!(second(520, 1_180).iter().all(|sample| *sample == 0));
    for (from, to) in [(200, 480), (1_220, 1_480)] {
        assert!((390..=410).contains(&frequency(second(from, to))), "{}", frequency(second(from, to)));
    }
}
