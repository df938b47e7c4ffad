//! Prompts, tones and filling silence: the frames that a leg has by itself.

use super::PlayOptions;
use crate::codec::Codec;
use crate::limits::FRAME_MS;
use crate::prompt::{Prompt, PromptFrame};

/// The frames that a leg has by itself. Tones go before the prompt, the prompt before the filling.
#[derive(Default)]
pub(super) struct Playback {
    prompt: Option<Playing>,
    /// Digits as tones, before the prompt.
    tones: Option<Playing>,
    /// One frame of silence.
    fill: Option<Prompt>,
}

/// A prompt with its position.
struct Playing {
    prompt: Prompt,
    /// The next frame.
    frame: usize,
    /// Repetitions that are left; `None` until stopped.
    loops: Option<u32>,
    id: u64,
}

/// The part of a tick that a prompt has.
pub(super) enum PlaybackFrame<'p> {
    /// Nothing plays.
    Idle,
    Frame {
        codec: Codec,
        frame: PromptFrame<'p>,
    },
    /// It came to its end by itself before this tick.
    Ended {
        id: u64,
    },
}

impl Playback {
    /// Plays a prompt instead of the current one.
    pub(super) fn play(&mut self, prompt: Prompt, options: PlayOptions) {
        // Beyond its end is its end.
        let frame = usize::try_from(options.offset_ms / u64::from(FRAME_MS)).unwrap_or(usize::MAX);
        let frame = frame.min(prompt.len());
        self.prompt = Some(Playing { prompt, frame, loops: options.loops, id: options.id });
    }

    /// The id of the prompt that played, and its position in milliseconds.
    pub(super) fn stop(&mut self) -> Option<(u64, u64)> {
        self.prompt.take().map(|playing| (playing.id, playing.frame as u64 * u64::from(FRAME_MS)))
    }

    pub(super) fn is_playing(&self) -> bool {
        self.prompt.is_some()
    }

    /// Plays digits as tones; the prompt waits behind them.
    pub(super) fn play_tones(&mut self, prompt: Prompt) {
        self.tones = Some(Playing { prompt, frame: 0, loops: Some(1), id: 0 });
    }

    pub(super) fn has_tones(&self) -> bool {
        self.tones.is_some()
    }

    /// The frame for ticks in which nothing else is sent.
    pub(super) fn set_fill(&mut self, fill: Option<Prompt>) {
        self.fill = fill;
    }

    /// This tick's frame of the tones.
    pub(super) fn next_tone(&mut self) -> PlaybackFrame<'_> {
        next_frame(&mut self.tones)
    }

    /// This tick's frame of the prompt.
    pub(super) fn next_prompt(&mut self) -> PlaybackFrame<'_> {
        next_frame(&mut self.prompt)
    }

    /// Silence for peers that take a pause for a dead line.
    pub(super) fn fill(&self) -> Option<(Codec, PromptFrame<'_>)> {
        let fill = self.fill.as_ref()?;
        Some((fill.codec(), fill.frame(0)?))
    }
}

/// The next frame; a prompt that is over is removed and reported once.
fn next_frame(playing: &mut Option<Playing>) -> PlaybackFrame<'_> {
    let next = playing.as_mut().map(|playing| (playing.next(), playing.id));
    if let Some((None, id)) = next {
        *playing = None;
        return PlaybackFrame::Ended { id };
    }
    match (playing, next) {
        (Some(playing), Some((Some(frame), _))) => {
            let frame = playing.prompt.frame(frame).unwrap_or(PromptFrame::Encoded(&[]));
            PlaybackFrame::Frame { codec: playing.prompt.codec(), frame }
        }
        _ => PlaybackFrame::Idle,
    }
}

impl Playing {
    /// The frame of this tick.
    fn next(&mut self) -> Option<usize> {
        if self.frame >= self.prompt.len() {
            self.loops = self.loops.map(|left| left.saturating_sub(1));
            if self.loops == Some(0) || self.prompt.is_empty() {
                return None;
            }
            self.frame = 0;
        }
        if self.loops == Some(0) {
            return None;
        }
        self.frame += 1;
        Some(self.frame - 1)
    }
}
