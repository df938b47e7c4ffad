//! The media commands of calls: [`CallMediaControl`], implemented by the shard's [`MediaStreams`].
//!
//! A command finds the call's port and medium, makes a [`Player`] for it and puts it into the schedule; the turn of the shard's media then plays
//! it. Nothing is sent from here.

use std::sync::Arc;

use stdx::time::Instant;

use super::crypto::CryptoKeyword;
use super::play::{CapturePlayback, Player, PlayerSlot, PlayerSource, SoundPlayback, digits};
use super::ports::{MediaPort, offset_port};
use super::receiver::EchoedPattern;
use super::sound::Encoded;
use super::spec::{DtmfSpec, PatternSpec, StreamSpec};
use super::streams::MediaStreams;
use super::{MediaCommand, PortKind, ReceivedMedia, RemoteMedia, Requirement, check};
use crate::call::CallMediaControl;
use crate::scenario::action::PlayKind;
use crate::stats::{Count, Stats};

/// The payload type of digits when the other side's SDP has none: the usual one, in absence of a negotiation.
const EVENT_TYPE: u8 = 101;

impl CallMediaControl for MediaStreams {
    fn port(&mut self, call: u64, which: PortKind, offset: i32) -> Result<u16, String> {
        // A scenario without media: ports are only written into its messages.
        if !self.shared.active {
            return self.mention(call, which, offset);
        }
        // The second of a pair is RTCP's: named, not bound.
        let even = offset & !1;
        let base = if matches!(which, PortKind::Fixed | PortKind::Auto) { even } else { 0 };
        let port = self.open(call, which, base)?;
        offset_port(port.number, offset - base)
    }

    fn listens(&self) -> bool {
        self.shared.active
    }

    fn remote(&mut self, call: u64, description: &RemoteMedia) {
        if !self.shared.active {
            return;
        }
        // Packets that have come already have the meaning of the description before.
        self.catch_up(call, false);
        self.catch_up(call, true);
        let media = self.calls.entry(call).or_default();
        media.hear_of(call, description);
        // Players that play already send to the new address.
        for key in media.players.into_iter().flatten() {
            if let Some(player) = self.players.get_mut(key) {
                player.to = media.destination(player.slot);
            }
        }
    }

    fn streams_end(&self, call: u64) -> Option<Instant> {
        let media = self.calls.get(&call)?;
        // Only `rtp_stream`: captures and digits are not waited for.
        let players =
            [PlayerSlot::StreamAudio, PlayerSlot::StreamVideo].map(|slot| media.players[slot as usize]);
        let ends = players.into_iter().flatten().filter_map(|key| self.players.get(key));
        ends.filter(|player| !player.source.is_over()).map(|player| player.source.end()).max()
    }

    fn command(&mut self, now: Instant, call: u64, command: &MediaCommand) -> Result<(), String> {
        match command {
            MediaCommand::Play { kind, file } => self.play_file(now, call, *kind, file),
            MediaCommand::PlayDtmf(spec) => self.play_digits(now, call, spec),
            MediaCommand::Stream(spec) => self.stream(now, call, spec),
            MediaCommand::PauseStream => self.pause(call, PlayerSlot::StreamAudio),
            MediaCommand::ResumeStream => self.resume(now, call, PlayerSlot::StreamAudio),
            MediaCommand::Pattern { video, spec } => self.pattern(now, call, *video, spec),
            MediaCommand::PausePattern { video } => self.pause(call, stream_slot(*video)),
            MediaCommand::ResumePattern { video } => self.resume(now, call, stream_slot(*video)),
            // SIPp's echo has parameters of codecs; here everything is sent back as it came, so start and update are one.
            MediaCommand::EchoStart { video, .. } | MediaCommand::EchoUpdate { video, .. } => {
                self.echo(call, *video, true)
            }
            MediaCommand::EchoStop { video } => self.echo(call, *video, false),
            // The action `<rtp_echo>`: all media of the call.
            MediaCommand::EchoCall(on) => {
                let media = self.calls.entry(call).or_default();
                for medium in [&media.audio, &media.video] {
                    medium.sink.with(|received| received.echo = Some(*on));
                }
                Ok(())
            }
        }
    }

    fn check(&mut self, _now: Instant, call: u64, wanted: &Requirement) -> Result<(), String> {
        self.catch_up(call, wanted.video);
        let playing = self.playing(call, wanted.video);
        let medium = self.calls.entry(call).or_default().medium(wanted.video);
        check::check(&medium.facts(playing, wanted.dtmf.is_some()), wanted)
    }

    fn received(&mut self, call: u64, video: bool) -> ReceivedMedia {
        self.catch_up(call, video);
        self.calls.entry(call).or_default().medium(video).sink.with(|received| received.seen.clone())
    }

    fn event_digits(&mut self, call: u64, payload_type: u8) -> String {
        self.catch_up(call, false);
        let media = self.calls.entry(call).or_default();
        media.audio.sink.with(|received| received.digits_of(payload_type))
    }

    fn verdict(&mut self, call: u64, report: &mut Vec<String>) -> Result<(), String> {
        self.catch_up(call, false);
        self.catch_up(call, true);
        // Players that still play have not yet added their packets to the medium.
        let playing = [self.playing(call, false), self.playing(call, true)];
        let Some(media) = self.calls.get(&call) else { return Ok(()) };
        let options = &self.shared.options;
        // Both are judged, so that the report has both; the first that failed is returned.
        let audio = media.audio.judge("audio", playing[0], options.audio_tolerance, report);
        audio.and(media.video.judge("video", playing[1], options.video_tolerance, report))
    }

    fn crypto(&mut self, call: u64, keyword: &str) -> Result<String, String> {
        let keyword =
            CryptoKeyword::parse(keyword).ok_or_else(|| format!("[{keyword}] is no keyword of SRTP"))?;
        let media = self.calls.entry(call).or_default();
        let medium = media.medium(keyword.video);
        let text = medium.offer.render(keyword, &mut self.rng);
        medium.agree();
        Ok(text)
    }

    fn close(&mut self, _now: Instant, call: u64, stats: &mut Stats) {
        self.catch_up(call, false);
        self.catch_up(call, true);
        // A run may end without another turn.
        stats.add(Count::RtpReceived, self.take_uncounted());
        let Some(media) = self.calls.get(&call) else { return };
        for key in media.players.into_iter().flatten() {
            self.stop(key);
        }
        if let Some(media) = self.calls.remove(&call) {
            media.close(call, stats);
        }
    }
}

impl MediaStreams {
    /// Ports of a scenario that does nothing with media are numbers; only the fixed ones are bound, once, so that two
    /// programs on one address name different ones.
    fn mention(&mut self, call: u64, which: PortKind, offset: i32) -> Result<u16, String> {
        let base = match which {
            PortKind::Fixed => 0,
            PortKind::Auto => return offset_port(self.shared.ports.auto_number(call)?, offset),
            PortKind::StreamAudio | PortKind::StreamVideo => {
                let port = self.open(call, which, 0)?;
                return offset_port(port.number, offset);
            }
        };
        // Each offset is asked for once: later calls get the same number.
        if let Some((_, number)) = self.mentioned.iter().find(|(known, _)| *known == offset) {
            return Ok(*number);
        }
        let (port, _) = self.shared.ports.fixed(base)?;
        let number = offset_port(port.number, offset)?;
        self.mentioned.push((offset, number));
        Ok(number)
    }

    /// The call's port of this kind, bound at first use and listened to.
    fn open(&mut self, call: u64, which: PortKind, offset: i32) -> Result<Arc<MediaPort>, String> {
        let media = self.calls.entry(call).or_default();
        let place = media.place(which, offset);
        if let Some(port) = place {
            return Ok(Arc::clone(port));
        }
        let ports = &self.shared.ports;
        let taken = match which {
            // Shared by all calls.
            PortKind::Fixed => ports.fixed(offset)?,
            // By the number of the call; a second medium stands beside it.
            PortKind::Auto if offset == 0 => ports.auto(call)?,
            PortKind::Auto => {
                let base = ports.auto(call)?.0;
                ports.beside(&base, offset)?
            }
            PortKind::StreamAudio | PortKind::StreamVideo => ports.own()?,
        };
        let port = self.watch_new(taken)?;
        let media = self.calls.entry(call).or_default();
        *media.place(which, offset) = Some(Arc::clone(&port));
        // An offset means the port of a second medium, which is video.
        let is_video = matches!(which, PortKind::StreamVideo) || offset != 0;
        let medium = media.medium(is_video);
        medium.listen(call, &port);
        medium.sink.with(|received| {
            received.wants_tones = self.shared.wants_tones;
            received.keeps_first = self.shared.wants_first;
            received.event_types = self.shared.event_types;
        });
        Ok(port)
    }

    /// The port a play leaves from; a call that named none gets one.
    fn source(&mut self, call: u64, slot: PlayerSlot) -> Result<Arc<MediaPort>, String> {
        if let Some(port) = self.calls.entry(call).or_default().source(slot) {
            return Ok(port);
        }
        let which = match slot {
            PlayerSlot::StreamAudio => PortKind::StreamAudio,
            PlayerSlot::StreamVideo => PortKind::StreamVideo,
            _ => PortKind::Fixed,
        };
        self.open(call, which, 0)
    }

    /// Puts a new player into its slot. `distances`: ports beside the main one that the source sends from.
    fn start(
        &mut self,
        call: u64,
        slot: PlayerSlot,
        source: PlayerSource,
        distances: &[u16],
    ) -> Result<(), String> {
        let port = self.source(call, slot)?;
        let mut beside = Vec::with_capacity(distances.len());
        for distance in distances {
            // Taken by another program: the packets leave by the port itself, as those of rtcp-mux do.
            let Ok(taken) = self.shared.ports.beside(&port, i32::from(*distance)) else { continue };
            beside.push((*distance, self.watch_new(taken)?));
        }
        let media = self.calls.entry(call).or_default();
        let (before, to) = (media.players[slot as usize], media.destination(slot));
        // A slot plays one thing: the new one takes the place of the old one.
        if let Some(before) = before {
            self.stop(before);
        }
        // A source without a first packet has nothing to play.
        let Some(due) = source.due() else { return Ok(()) };
        let sink = Arc::clone(&self.calls.entry(call).or_default().medium(slot.is_video()).sink);
        let key =
            self.players.insert(Player { call, slot, port, beside, to, sink, sent: 0, armed: true, source });
        self.calls.entry(call).or_default().players[slot as usize] = Some(key);
        self.schedule.insert(due, key);
        Ok(())
    }

    /// `play_pcap_audio` and its kin. With `--rewrite-rtp` the numbers of the packets are made anew.
    fn play_file(&mut self, now: Instant, call: u64, kind: PlayKind, file: &str) -> Result<(), String> {
        let recording = self.shared.files.recording(file)?;
        let slot = match kind {
            PlayKind::Audio => PlayerSlot::PlayAudio,
            PlayKind::Video => PlayerSlot::PlayVideo,
            PlayKind::Image => PlayerSlot::PlayImage,
            PlayKind::Text => PlayerSlot::PlayText,
        };
        // Otherwise the packets leave with the numbers of the capture.
        let fresh = self.shared.options.rewrite.then_some(&mut self.rng);
        let source = PlayerSource::Recorded(CapturePlayback::new(Arc::clone(&recording), now, fresh));
        self.start(call, slot, source, &recording.distances)
    }

    /// `play_dtmf`: digits become a capture of RTP events (RFC 4733).
    fn play_digits(&mut self, now: Instant, call: u64, spec: &str) -> Result<(), String> {
        let spec = DtmfSpec::parse(spec)?;
        let media = self.calls.entry(call).or_default();
        let peer_type = media.audio.sink.with(|received| received.event_type);
        // The scenario's number, else that of the other side's SDP.
        let payload_type = spec.payload_type.or(peer_type).unwrap_or(EVENT_TYPE);
        let recording = Arc::new(digits(&spec, payload_type, &mut self.rng));
        self.start(
            call,
            PlayerSlot::Digits,
            PlayerSource::Recorded(CapturePlayback::new(recording, now, None)),
            &[],
        )
    }

    /// `rtp_stream="FILE…"`.
    fn stream(&mut self, now: Instant, call: u64, spec: &str) -> Result<(), String> {
        let spec = StreamSpec::parse(spec, self.shared.options.payload_type)?;
        let sound = self.shared.files.sound(&spec)?;
        let slot = stream_slot(spec.coding.video);
        if let Some(codec) = spec.coding.codec {
            // A peer that is sent a payload type of ours answers with it.
            let medium = self.calls.entry(call).or_default().medium(spec.coding.video);
            medium.sink.with(|received| received.agreed = Some((spec.coding.payload_type, codec)));
        }
        let paced = SoundPlayback::new(sound, spec.loops, now, self.shared.next_ssrc());
        self.start(call, slot, PlayerSource::Paced(paced), &[])
    }

    /// `rtp_stream="apattern…"`: sent without end, and compared with what comes back.
    fn pattern(&mut self, now: Instant, call: u64, video: bool, spec: &str) -> Result<(), String> {
        let spec = PatternSpec::parse(spec, self.shared.options.payload_type)?;
        let sound = Arc::new(Encoded::pattern(spec.fill, &spec.coding));
        let paced = SoundPlayback::new(sound, None, now, self.shared.next_ssrc());
        self.start(call, stream_slot(video), PlayerSource::Paced(paced), &[])?;
        let medium = self.calls.entry(call).or_default().medium(video);
        medium.sink.with(|received| {
            received.pattern = Some(EchoedPattern { fill: spec.fill, matched: 0, mismatched: 0 });
        });
        Ok(())
    }

    /// Only sound pauses: captures and digits play to their end.
    fn pause(&mut self, call: u64, slot: PlayerSlot) -> Result<(), String> {
        if let Some(player) = self.player(call, slot)
            && let PlayerSource::Paced(paced) = &mut player.source
        {
            paced.pause();
        }
        Ok(())
    }

    /// Goes on where it was paused.
    fn resume(&mut self, now: Instant, call: u64, slot: PlayerSlot) -> Result<(), String> {
        let Some(player) = self.player(call, slot) else { return Ok(()) };
        if let PlayerSource::Paced(paced) = &mut player.source {
            paced.resume(now);
        }
        // One that is still in the schedule finds its new time when it fires.
        if !player.armed
            && let Some(due) = player.source.due()
        {
            player.armed = true;
            if let Some(key) = self.calls.get(&call).and_then(|media| media.players[slot as usize]) {
                self.schedule.insert(due, key);
            }
        }
        Ok(())
    }

    /// The player in a slot of the call.
    fn player(&mut self, call: u64, slot: PlayerSlot) -> Option<&mut Player> {
        let key = self.calls.get(&call)?.players[slot as usize]?;
        self.players.get_mut(key)
    }

    /// `rtp_echo="start…"`: a call that named no port gets one, as otherwise nothing arrives.
    fn echo(&mut self, call: u64, video: bool, on: bool) -> Result<(), String> {
        if on {
            self.source(call, stream_slot(video))?;
        }
        let medium = self.calls.entry(call).or_default().medium(video);
        medium.sink.with(|received| received.echo = Some(on));
        Ok(())
    }

    /// Packets sent so far by players that go on.
    fn playing(&self, call: u64, video: bool) -> u64 {
        let Some(media) = self.calls.get(&call) else { return 0 };
        let players = media.players.iter().flatten().filter_map(|key| self.players.get(*key));
        players.filter(|player| player.slot.is_video() == video).map(|player| player.sent).sum()
    }
}

/// Streams and patterns share a slot for each medium, so that one replaces the other.
fn stream_slot(video: bool) -> PlayerSlot {
    if video { PlayerSlot::StreamVideo } else { PlayerSlot::StreamAudio }
}
