//! Media streams: a call's sound over WebSockets of applications, and theirs to the caller.
//!
//! A stream is a task of the helpers ([`StreamSender`]) and two bounded queues: an application that reads or
//! writes too slowly loses sound, and the shard loses no time.
//!
//! The messages are Twilio's: `media` with µ-law of 8 kHz in base64, `mark`, `clear`, `dtmf`; the helpers
//! write and read the JSON. All streams of a leg share the conversion of each direction. Sound of the
//! application is played in place of the partner's (`tick`), one stream at a time.

use std::collections::VecDeque;

use bytes::Bytes;
use ivr::document::{Track, code};
use ivr::script::{Id, MediaStream, StreamEvent};
use ivr::{sid, signature};
use media::codec::{Codec, Encoder};
use media::resample::Resampler;
use stdx::Instant;
use stdx::slab::Key;

use super::bridge::SentSound;
use super::calls::Calls;
use super::helper_service::{MediaStreamEvent, Opening, StreamMessage, StreamOrder, StreamSender};
use super::{World, limits};

/// The streams of one leg.
#[derive(Default)]
pub(super) struct Streams {
    all: Vec<Stream>,
    /// The conversions of received and of sent sound, for all streams of the leg.
    heard: Taken,
    said: Taken,
}

/// A stream that is open, or opening. Nothing is sent before it is open.
struct Stream {
    ticket: u64,
    /// The actor whose script started it.
    actor: Key,
    id: Id,
    sid: String,
    /// The queue to the helper; dropping it ends the stream.
    orders: Box<dyn StreamSender>,
    /// The directions that the application gets.
    track: Track,
    is_open: bool,
    /// Milliseconds since it is open: `timestamp` of its messages.
    at_ms: u64,
    /// Chunks of received and of sent sound.
    chunks: [u64; 2],
    /// The sound to play, of a stream that goes both ways.
    queue: Option<Queue>,
}

/// Sound of an application, G.711 µ-law, that waits to be played.
#[derive(Default)]
struct Queue {
    sound: VecDeque<u8>,
    /// Marks in order, each with the number of played bytes after which the application is told.
    marks: VecDeque<(u64, Box<str>)>,
    /// Bytes that came and bytes that were played, or cleared, so far.
    put: u64,
    played: u64,
    /// The application was told that it sends too much; once a stream.
    has_overflown: bool,
}

/// Frames of one direction on their way to G.711 µ-law.
#[derive(Default)]
struct Taken {
    /// Hz of the frames so far. A leg's codec may change.
    rate: usize,
    resampler: Option<Resampler>,
    encoder: Option<Encoder>,
    samples: Vec<i16>,
    payload: Vec<u8>,
}

/// Samples of 20 ms at 8 kHz, and bytes of them.
const FRAME: usize = 8 * media::limits::FRAME_MS as usize;

impl Taken {
    /// A frame of any rate as 20 ms of µ-law. `None`: nothing was heard or said.
    fn encode(&mut self, frame: &[i16]) -> Option<Bytes> {
        if frame.is_empty() {
            return None;
        }
        let rate = frame.len() * 1000 / media::limits::FRAME_MS as usize;
        if rate != self.rate {
            self.rate = rate;
            self.resampler = u32::try_from(rate).ok().and_then(|rate| Resampler::new(rate, 8_000));
        }
        let samples = match &mut self.resampler {
            Some(resampler) => {
                self.samples.clear();
                resampler.process(frame, &mut self.samples);
                &self.samples
            }
            None => frame,
        };
        // Kept from frame to frame, as codecs and resamplers have a memory.
        if self.encoder.is_none() {
            self.encoder = Encoder::new(Codec::Pcmu).ok();
        }
        self.payload.clear();
        self.encoder.as_mut()?.encode(samples, &mut self.payload).ok()?;
        Some(Bytes::copy_from_slice(&self.payload))
    }
}

impl Streams {
    /// Sends the received and the sent sound of one tick. Returns the number of frames that slow applications have
    /// lost.
    pub(super) fn put(&mut self, heard: &[i16], said: &[i16]) -> u64 {
        if !self.all.iter().any(|stream| stream.is_open) {
            return 0;
        }
        let (heard, said) = (self.heard.encode(heard), self.said.encode(said));
        self.all.iter_mut().map(|stream| stream.put(heard.as_ref(), said.as_ref())).sum()
    }

    /// Tells a key to the applications that listen.
    pub(super) fn digit(&self, digit: char) {
        for stream in self.all.iter().filter(|stream| stream.is_open && stream.track != Track::Outbound) {
            stream.orders.try_send(StreamOrder::Digit(digit));
        }
    }

    /// Plays a tick of the first application that has sound, unless a prompt plays. Marks are told even then:
    /// their sound is over.
    pub(super) fn play(&mut self, is_free: bool, into: &mut SentSound) {
        let mut queues = self.all.iter_mut().filter_map(|stream| stream.queue.as_mut());
        let first = queues.find(|queue| !queue.sound.is_empty()).filter(|_| is_free);
        if let Some(queue) = first {
            let length = queue.sound.len().min(FRAME);
            queue.played += length as u64;
            let frame = queue.sound.drain(..length).chain(std::iter::repeat(SILENCE));
            into.take_stream(Codec::Pcmu, frame.take(FRAME));
        }
        self.tell_marks();
    }

    /// Tells marks whose sound has been played. One for which the queue has no room waits for the next tick,
    /// as an application may wait for it; frames are lost instead.
    fn tell_marks(&mut self) {
        for stream in &mut self.all {
            let Some(queue) = &mut stream.queue else { continue };
            while let Some((_, name)) = queue.marks.front().filter(|(at, _)| *at <= queue.played) {
                if !stream.orders.try_send(StreamOrder::Mark(name.clone())) {
                    break;
                }
                queue.marks.pop_front();
            }
        }
    }

    /// The place of a stream in the list. Streams of a leg are few.
    fn position(&self, ticket: u64) -> Option<usize> {
        self.all.iter().position(|stream| stream.ticket == ticket)
    }
}

/// Silence in G.711 µ-law.
const SILENCE: u8 = 0xff;

impl Stream {
    /// Sends a tick of the wanted directions. Returns the number of frames for which the queue had no room.
    /// The numbers of chunks go on, so the application sees what it lost.
    fn put(&mut self, heard: Option<&Bytes>, said: Option<&Bytes>) -> u64 {
        if !self.is_open {
            return 0;
        }
        let heard = heard.filter(|_| self.track != Track::Outbound);
        let said = said.filter(|_| self.track != Track::Inbound);
        let mut lost = 0;
        let tracks = [("inbound", heard), ("outbound", said)];
        for ((track, payload), chunks) in tracks.into_iter().zip(&mut self.chunks) {
            let Some(payload) = payload else { continue };
            *chunks += 1;
            let media =
                StreamOrder::Media { track, chunk: *chunks, at_ms: self.at_ms, payload: payload.clone() };
            lost += u64::from(!self.orders.try_send(media));
        }
        self.at_ms += u64::from(media::limits::FRAME_MS);
        lost
    }

    /// Takes a message of the application. Returns the text of a notification, if one is due.
    fn take(&mut self, said: StreamMessage) -> Option<String> {
        let queue = self.queue.as_mut()?;
        let fits = match &said {
            StreamMessage::Sound(sound) => queue.sound.len() + sound.len() <= limits::STREAM_QUEUE,
            StreamMessage::Mark(_) => queue.marks.len() < limits::STREAM_MARKS,
            StreamMessage::Clear | StreamMessage::Nonsense(_) => true,
        };
        if !fits {
            let is_first = !std::mem::replace(&mut queue.has_overflown, true);
            return is_first
                .then(|| "a media stream sent more than is kept: what is beyond is lost".to_owned());
        }
        match said {
            StreamMessage::Sound(sound) => {
                queue.put += sound.len() as u64;
                queue.sound.extend(sound);
            }
            StreamMessage::Mark(name) => queue.marks.push_back((queue.put, name)),
            // All that came counts as played, so that the marks of the cleared sound are told (Twilio's
            // `clear`).
            StreamMessage::Clear => {
                queue.sound.clear();
                queue.played = queue.put;
            }
            StreamMessage::Nonsense(problem) => return Some(problem),
        }
        None
    }
}

impl Calls {
    /// Starts a stream. A stream that cannot be opened does not end the call: the script is told.
    pub(super) fn start_stream(
        &mut self,
        now: Instant,
        actor: Key,
        id: Id,
        stream: MediaStream,
        world: &mut World<'_>,
    ) {
        if let Err(reason) = self.open_stream(actor, id, stream) {
            let failed = StreamEvent::Failed { reason };
            self.tell(now, actor, world, |script, out| script.handle_stream(now, id, failed, out));
        }
    }

    /// Asks the helpers for a connection. The stream is in the list from now on, and open once they say so.
    fn open_stream(&mut self, actor: Key, id: Id, wanted: MediaStream) -> Result<(), String> {
        let random = self.random();
        let gone = || "the call is over".to_owned();
        let key = self.actors.get(actor).map(|actor| actor.leg).ok_or_else(gone)?;
        let leg = self.legs.get_mut(key).ok_or_else(gone)?;
        let media = leg.media.as_mut().ok_or("the call has no sound")?;
        let streams = leg.streams.get_or_insert_default();
        if streams.all.len() >= limits::STREAMS {
            return Err(format!("a call has at most {} media streams", limits::STREAMS));
        }
        let key_of_signature = &*leg.owner.signing_key;
        // As requests of HTTP are signed, with no parameters (Twilio's `X-Twilio-Signature`).
        let signature = match key_of_signature {
            "" => String::new(),
            secret => signature::sign(secret, &wanted.url, &[]),
        };
        let sid = sid::new(sid::STREAM, random);
        let tracks = match wanted.track {
            Track::Inbound => vec!["inbound"],
            Track::Outbound => vec!["outbound"],
            Track::Both => vec!["inbound", "outbound"],
        };
        let opening = Opening {
            url: wanted.url,
            signature,
            sid: sid.clone(),
            account: leg.owner.account.to_string(),
            call: leg.sid.clone(),
            tracks,
            parameters: wanted.parameters,
            two_way: wanted.two_way,
        };
        let (ticket, orders) = self.helper_requests.stream(key, opening);
        media.tap(true);
        streams.all.push(Stream {
            ticket,
            actor,
            id,
            sid,
            orders,
            track: wanted.track,
            is_open: false,
            at_ms: 0,
            chunks: [0; 2],
            queue: wanted.two_way.then(Queue::default),
        });
        Ok(())
    }

    /// Stops a stream. The helpers tell the application, once the last sender of its orders is dropped.
    pub(super) fn stop_stream(&mut self, _now: Instant, actor: Key, id: Id, _world: &mut World<'_>) {
        let Some((key, leg)) = self.leg_of(actor) else { return };
        let Some(streams) = &leg.streams else { return };
        let at = streams.all.iter().position(|stream| stream.actor == actor && stream.id == id);
        if let Some(at) = at {
            self.drop_stream(key, at);
        }
    }

    /// Forgets a stream and ends it. Returns the script's actor and its number for the stream.
    fn drop_stream(&mut self, key: Key, at: usize) -> Option<(Key, Id)> {
        let leg = self.legs.get_mut(key)?;
        let streams = leg.streams.as_mut()?;
        let stream = streams.all.remove(at);
        if streams.all.is_empty() {
            leg.streams = None;
            if let Some(media) = &mut leg.media {
                // The last one: frames are not handed out any more.
                media.tap(false);
            }
        }
        Some((stream.actor, stream.id))
    }

    /// An event of a stream's helper. One of a leg or stream that is gone is ignored; the last one frees the
    /// ticket.
    pub(super) fn stream_news(
        &mut self,
        now: Instant,
        ticket: u64,
        news: MediaStreamEvent,
        world: &mut World<'_>,
    ) {
        let is_last = matches!(news, MediaStreamEvent::Over(_));
        let Some(key) = self.helper_requests.stream_of(ticket, is_last) else { return };
        let Some(streams) = self.legs.get_mut(key).and_then(|leg| leg.streams.as_mut()) else { return };
        let Some(at) = streams.position(ticket) else { return };
        let stream = &mut streams.all[at];
        match news {
            MediaStreamEvent::Opened => {
                stream.is_open = true;
                let (actor, id, sid) = (stream.actor, stream.id, stream.sid.clone());
                let started = StreamEvent::Started { sid };
                self.tell(now, actor, world, |script, out| script.handle_stream(now, id, started, out));
            }
            MediaStreamEvent::Said(said) => {
                let words: Vec<String> = said.into_iter().filter_map(|said| stream.take(said)).collect();
                for text in words {
                    self.warn(now, key, code::STREAM, text, world);
                }
            }
            MediaStreamEvent::Over(result) => {
                let Some((actor, id)) = self.drop_stream(key, at) else { return };
                let event = match result {
                    Ok(()) => StreamEvent::Ended,
                    Err(reason) => StreamEvent::Failed { reason },
                };
                self.tell(now, actor, world, |script, out| script.handle_stream(now, id, event, out));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use stdx::slab::Slab;

    use super::*;

    /// A bounded queue to the application.
    #[derive(Clone, Default)]
    struct Queued {
        room: usize,
        orders: Arc<Mutex<VecDeque<StreamOrder>>>,
    }

    impl Queued {
        fn try_recv(&mut self) -> Option<StreamOrder> {
            self.orders.lock().unwrap().pop_front()
        }
    }

    impl StreamSender for Queued {
        fn try_send(&self, message: StreamOrder) -> bool {
            let mut orders = self.orders.lock().unwrap();
            let has_room = orders.len() < self.room;
            if has_room {
                orders.push_back(message);
            }
            has_room
        }
    }

    fn open(room: usize) -> (Streams, Queued) {
        let taken = Queued { room, ..Queued::default() };
        let orders = Box::new(taken.clone());
        let mut keys = Slab::new();
        let stream = Stream {
            ticket: 1,
            actor: keys.insert(()),
            id: Id(1),
            sid: String::new(),
            orders,
            track: Track::Both,
            is_open: true,
            at_ms: 0,
            chunks: [0; 2],
            queue: Some(Queue::default()),
        };
        (Streams { all: vec![stream], ..Streams::default() }, taken)
    }

    /// The tick goes on, and the application sees by the numbers what it has lost.
    #[test]
    fn a_slow_application_loses_frames() {
        let (mut streams, mut taken) = open(3);
        assert_eq!(streams.put(&[0; 160], &[0; 320]), 0);
        assert_eq!(streams.put(&[0; 160], &[0; 320]), 1);
        assert_eq!(streams.put(&[0; 160], &[]), 1);
        for _ in 0..3 {
            assert!(
                matches!(taken.try_recv(), Some(StreamOrder::Media { payload, .. }) if payload.len() == 160)
            );
        }
        assert_eq!(streams.put(&[0; 960], &[]), 0);
        let Some(StreamOrder::Media { track, chunk, at_ms, payload }) = taken.try_recv() else {
            panic!("no frame")
        };
        assert_eq!((track, chunk, at_ms, payload.len()), ("inbound", 4, 60, 160));
    }

    #[test]
    fn sound_beyond_the_queue_is_lost_with_one_warning() {
        let (mut streams, mut taken) = open(8);
        let stream = &mut streams.all[0];
        assert_eq!(stream.take(StreamMessage::Sound(vec![0; limits::STREAM_QUEUE])), None);
        assert!(
            stream.take(StreamMessage::Sound(vec![0])).is_some_and(|word| word.contains("more than is kept"))
        );
        assert_eq!(stream.take(StreamMessage::Sound(vec![0])), None);
        for number in 0..limits::STREAM_MARKS + 5 {
            assert_eq!(stream.take(StreamMessage::Mark(number.to_string().into())), None);
        }
        assert_eq!(stream.queue.as_ref().unwrap().marks.len(), limits::STREAM_MARKS);
        // After a clear all marks are told, as fast as they are taken.
        stream.take(StreamMessage::Clear);
        let mut heard = SentSound::default();
        for number in 0..limits::STREAM_MARKS {
            streams.play(true, &mut heard);
            assert_eq!(taken.try_recv(), Some(StreamOrder::Mark(number.to_string().into())));
        }
        assert!(taken.try_recv().is_none() && !heard.is_streamed());
    }

    #[test]
    fn a_mark_waits_for_earlier_sound_and_for_prompts() {
        let (mut streams, mut taken) = open(8);
        let mut heard = SentSound::default();
        let stream = &mut streams.all[0];
        stream.take(StreamMessage::Mark("first".into()));
        stream.take(StreamMessage::Sound(vec![0; FRAME + 1]));
        stream.take(StreamMessage::Mark("second".into()));
        streams.play(false, &mut heard);
        assert_eq!(taken.try_recv(), Some(StreamOrder::Mark("first".into())));
        assert!(!heard.is_streamed());
        streams.play(true, &mut heard);
        assert!(heard.is_streamed() && taken.try_recv().is_none());
        streams.play(true, &mut heard);
        assert_eq!(taken.try_recv(), Some(StreamOrder::Mark("second".into())));
    }
}
