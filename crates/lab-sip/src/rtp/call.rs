//! The media of one call: its ports, the addresses of the other side, the players and the receivers.
//!
//! The shard of the call changes this; the packets themselves are handled where their socket is read, under the lock of `MediaReceiver`.

use std::net::SocketAddr;
use std::sync::Arc;

use stdx::slab::Key;

use super::check::MediumFacts;
use super::crypto::{CallCryptoLine, CryptoOffer, CryptoSession};
use super::play::{Player, PlayerSlot};
use super::ports::MediaPort;
use super::receiver::MediaReceiver;
use super::{PortKind, RemoteMedia};
use crate::stats::{Count, Stats};

/// Packets of a pattern that may be under way when a call ends: their echo is not missed. 100 ms of audio.
const UNDER_WAY: u64 = 5;

/// The audio and the video of one call.
#[derive(Default)]
pub(super) struct CallMedia {
    /// Audio, digits included.
    pub(super) audio: CallMedium,
    pub(super) video: CallMedium,
    /// Where T.38 goes; it is only played.
    pub(super) image: Option<SocketAddr>,
    /// Where text goes; it is only played.
    pub(super) text: Option<SocketAddr>,
    /// One player a slot, `None` when nothing plays there.
    pub(super) players: [Option<Key>; PlayerSlot::N],
}

/// Audio or video of a call.
#[derive(Default)]
pub(super) struct CallMedium {
    /// The port of `[media_port]` or `[auto_media_port]`.
    pub(super) port: Option<Arc<MediaPort>>,
    /// The port of `[rtpstream_…_port]`.
    pub(super) stream_port: Option<Arc<MediaPort>>,
    /// Where the other side wants its packets; `None` before its SDP, and on hold.
    pub(super) remote: Option<SocketAddr>,
    /// Measures what arrives, and has the keys of SRTP.
    pub(super) sink: Arc<MediaReceiver>,
    /// The lines of SRTP that this side has named.
    pub(super) offer: CryptoOffer,
    /// The lines that the other side has named.
    pub(super) peer_lines: Vec<CallCryptoLine>,
    /// By players that ended.
    sent: u64,
}

impl CallMedia {
    pub(super) fn medium(&mut self, video: bool) -> &mut CallMedium {
        if video { &mut self.video } else { &mut self.audio }
    }

    /// The destination of the packets of a slot.
    pub(super) fn destination(&self, slot: PlayerSlot) -> Option<SocketAddr> {
        match slot {
            PlayerSlot::PlayAudio | PlayerSlot::Digits | PlayerSlot::StreamAudio => self.audio.remote,
            PlayerSlot::PlayVideo | PlayerSlot::StreamVideo => self.video.remote,
            PlayerSlot::PlayImage => self.image,
            PlayerSlot::PlayText => self.text,
        }
    }

    /// The port it leaves from, of those the call has named so far.
    pub(super) fn source(&self, slot: PlayerSlot) -> Option<Arc<MediaPort>> {
        let (audio, video) = (&self.audio, &self.video);
        // The port of the same kind first, then any port of the call.
        let order = match slot {
            PlayerSlot::PlayAudio | PlayerSlot::PlayImage | PlayerSlot::PlayText | PlayerSlot::Digits => {
                [&audio.port, &audio.stream_port, &None]
            }
            PlayerSlot::PlayVideo => [&video.port, &video.stream_port, &audio.port],
            PlayerSlot::StreamAudio => [&audio.stream_port, &audio.port, &None],
            PlayerSlot::StreamVideo => [&video.stream_port, &video.port, &None],
        };
        order.into_iter().flatten().next().cloned()
    }

    /// The port's place in the call: the first is for audio, the one two above for video, odd ones are RTCP's.
    pub(super) fn place(&mut self, which: PortKind, offset: i32) -> &mut Option<Arc<MediaPort>> {
        match which {
            PortKind::StreamAudio => &mut self.audio.stream_port,
            PortKind::StreamVideo => &mut self.video.stream_port,
            PortKind::Fixed | PortKind::Auto if offset == 0 => &mut self.audio.port,
            PortKind::Fixed | PortKind::Auto => &mut self.video.port,
        }
    }

    /// From the SDP of a message: what it does not speak of stays.
    pub(super) fn hear_of(&mut self, call: u64, description: &RemoteMedia) {
        self.image = description.image.or(self.image);
        self.text = description.text.or(self.text);
        self.audio.expect(call, description.audio, &description.audio_crypto);
        self.video.expect(call, description.video, &description.video_crypto);
        if !description.codecs.is_empty() {
            for medium in [&self.audio, &self.video] {
                medium.sink.with(|received| received.mapped.clone_from(&description.codecs));
            }
        }
        if description.events.is_some() {
            self.audio.sink.with(|received| received.event_type = description.events);
        }
    }

    /// A player ended.
    pub(super) fn ended(&mut self, player: &Player, key: Key) {
        self.medium(player.slot.is_video()).sent += player.sent;
        let place = &mut self.players[player.slot as usize];
        if *place == Some(key) {
            *place = None;
        }
    }

    /// The end of the call: its streams are counted and it leaves its ports.
    pub(super) fn close(self, call: u64, stats: &mut Stats) {
        for medium in [self.audio, self.video] {
            medium.count(stats);
            for port in [medium.port, medium.stream_port].into_iter().flatten() {
                port.routes.lock().leave(call);
            }
        }
    }
}

impl CallMedium {
    /// The other side has named an address and perhaps keys.
    fn expect(&mut self, call: u64, remote: Option<SocketAddr>, crypto: &[String]) {
        let Some(remote) = remote else { return };
        if remote.ip().is_unspecified() || remote.port() == 0 {
            // On hold (RFC 3264 §8.4 and before it RFC 2543): nothing is sent until it has an address again.
            self.remote = None;
            return;
        }
        self.remote = Some(remote);
        self.peer_lines = crypto.iter().filter_map(|line| CallCryptoLine::parse(line)).collect();
        self.agree();
        for port in [&self.port, &self.stream_port].into_iter().flatten() {
            port.routes.lock().expect(call, remote);
        }
    }

    /// Keys for both directions, as soon as both sides have named theirs. Without a common line media is plain, as SIPp's.
    pub(super) fn agree(&mut self) {
        let lines = self.offer.agree(&self.peer_lines);
        self.sink.with(|received| match lines {
            Some(lines) if received.session.as_ref().is_some_and(|session| session.is(&lines)) => {}
            Some((own, peer)) => received.session = Some(Box::new(CryptoSession::new(own, peer))),
            None => received.session = None,
        });
    }

    /// From now on, packets at `port` belong to this medium.
    pub(super) fn listen(&self, call: u64, port: &MediaPort) {
        let mut routes = port.routes.lock();
        routes.listen(call, Arc::clone(&self.sink));
        if let Some(remote) = self.remote {
            routes.expect(call, remote);
        }
    }

    /// `playing`: packets sent by players that go on.
    pub(super) fn facts(&self, playing: u64, take_digits: bool) -> MediumFacts {
        self.sink.with(|received| MediumFacts {
            summary: received.summary(),
            digits: if take_digits { std::mem::take(&mut received.digits) } else { received.digits.clone() },
            sent: self.sent + playing + received.echoed,
            refused: received.refused,
        })
    }

    /// Adds the received stream to the totals of the run.
    fn count(&self, stats: &mut Stats) {
        let MediumFacts { summary, sent, .. } = self.facts(0, false);
        let totals = &mut stats.media;
        if (summary.packets > 0) != (sent > 0) {
            totals.one_way += 1;
        }
        if summary.packets > 0 {
            totals.streams += 1;
            totals.packets += summary.packets;
            totals.lost += summary.lost;
            totals.reordered += summary.reordered;
            totals.duplicates += summary.duplicates;
            totals.jitter.record(summary.jitter_us);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1000 to 4500")]
            totals.mos.record((summary.mos * 1_000.0) as u64);
            stats.add(Count::RtpLost, summary.lost);
        }
        stats.media.digits += self.sink.with(|received| received.digits_total);
    }

    /// Judges if the pattern came back well enough; `playing`: packets sent by players that go on.
    pub(super) fn judge(
        &self,
        name: &str,
        playing: u64,
        tolerance: f64,
        report: &mut Vec<String>,
    ) -> Result<(), String> {
        let (pattern, refused) = self.sink.with(|received| (received.pattern, received.refused));
        let Some(pattern) = pattern else { return Ok(()) };
        let sent = self.sent + playing;
        let missed = pattern.misses(sent);
        let text = format!(
            "{name}: {sent} packets of the pattern sent, {} came back, {} changed, {refused} refused by SRTP: {:.1} % \
             missed, at most {:.1} % wanted",
            pattern.matched,
            pattern.mismatched,
            missed * 100.0,
            tolerance * 100.0
        );
        report.push(text.clone());
        if missed > tolerance { Err(text) } else { Ok(()) }
    }
}

impl super::receiver::EchoedPattern {
    /// The share, 0 to 1, of what was sent that did not come back as it was.
    #[expect(clippy::cast_precision_loss, reason = "packets of a call are far below 2^53")]
    pub(super) fn misses(&self, sent: u64) -> f64 {
        let missing = sent.saturating_sub(self.matched + self.mismatched + UNDER_WAY);
        (self.mismatched + missing) as f64 / sent.max(1) as f64
    }
}
