//! Audio files: fetched over HTTP or read from the operator's folder, decoded to 8 kHz mono.
//!
//! `Worker::sound` gets a file by [`get`] or [`read`] and gives it to [`decode`]; a [`Check`] is kept with the samples, by which the next use asks
//! only if the file has changed.

use std::ffi::OsStr;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use media::wav::Wav;
use object_storage::ObjectStorage;
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{StatusCode, Url};
use stdx::Instant;
use symphonia::core::codecs::audio::AudioDecoderOptions;
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, TrackType};
use symphonia::core::io::MediaSourceStream;
use symphonia::core::meta::MetadataOptions;
use tokio::task::spawn_blocking;

use super::cache::Samples;
use super::http::{Ask, Http, text};
use super::{folder, limits};
use crate::recordings::read_whole;

/// Until when it is played without a question, and what then tells whether it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    /// The time until which nothing is asked.
    pub(super) until: Instant,
    /// The server's tags for the version of the file.
    etag: Option<HeaderValue>,
    modified: Option<HeaderValue>,
}

/// A file that has to be decoded, or that is as it was.
pub(super) enum FetchedAudio {
    /// The file; without a check it is not kept.
    File(Vec<u8>, Option<Check>),
    /// The server says that it has not changed.
    Same(Check),
}

/// `old` is what is known of the file as it is kept.
pub(super) async fn get(
    http: &Http,
    now: Instant,
    url: &str,
    old: Option<Check>,
) -> Result<FetchedAudio, String> {
    let mut headers = HeaderMap::new();
    if let Some(etag) = old.as_ref().and_then(|old| old.etag.clone()) {
        headers.insert(header::IF_NONE_MATCH, etag);
    }
    if let Some(modified) = old.as_ref().and_then(|old| old.modified.clone()) {
        headers.insert(header::IF_MODIFIED_SINCE, modified);
    }
    let ask = Ask { url: url.to_owned(), body: None, headers, most: limits::AUDIO_FILE, wants_sound: true };
    let reply = http.ask(ask).await.map_err(|failure| failure.text)?;
    let control = text(&reply.headers, &header::CACHE_CONTROL).unwrap_or_default().to_ascii_lowercase();
    let until = now + fresh(&control);
    match reply.status {
        // RFC 9110 §15.4.5: what it does not repeat is as before.
        StatusCode::NOT_MODIFIED if old.is_some() => {
            let (etag, modified) = old.map(|old| (old.etag, old.modified)).unwrap_or_default();
            Ok(FetchedAudio::Same(Check { until, etag, modified }))
        }
        StatusCode::OK => {
            let check = Check {
                until,
                etag: reply.headers.get(header::ETAG).cloned(),
                modified: reply.headers.get(header::LAST_MODIFIED).cloned(),
            };
            Ok(FetchedAudio::File(reply.body, (!control.contains("no-store")).then_some(check)))
        }
        status => Err(format!("{url}: status {}", status.as_u16())),
    }
}

/// RFC 9111 §5.2.2.
fn fresh(control: &str) -> std::time::Duration {
    if control.contains("no-cache") || control.contains("no-store") {
        return std::time::Duration::ZERO;
    }
    let age = control.split(',').find_map(|part| part.trim().strip_prefix("max-age=")?.parse().ok());
    age.map_or(limits::AUDIO_FRESH, std::time::Duration::from_secs).min(limits::AUDIO_FRESH_MOST)
}

/// `file:NAME` in the operator's folder; nothing leads out of it.
pub(super) fn read(
    folder: Option<&Path>,
    url: &Url,
    now: Instant,
) -> Result<(Vec<u8>, Option<Check>), String> {
    let Some(folder) = folder else { return Err(format!("{url}: no folder of prompts is set")) };
    if url.has_host() {
        return Err(format!("{url} is no file of the folder of prompts"));
    }
    let name = url.path().trim_start_matches('/');
    let file = folder::read(folder, name, limits::AUDIO_FILE).map_err(|text| format!("{url}: {text}"))?;
    let file = file.ok_or_else(|| format!("{url}: no such file in the folder of prompts"))?;
    let check = Check { until: now + limits::AUDIO_FRESH, etag: None, modified: None };
    Ok((file, Some(check)))
}

/// A recording of at most so many bytes: its file, or the object that was made of it.
pub(super) async fn read_recording(
    file: PathBuf,
    most: usize,
    storage: Option<&ObjectStorage>,
) -> Result<Vec<u8>, String> {
    let sid = file.file_stem().and_then(OsStr::to_str).unwrap_or_default().to_owned();
    let read = spawn_blocking(move || {
        let named = file.parent().zip(file.file_name().and_then(OsStr::to_str));
        let (folder, name) = named.ok_or("it has no name")?;
        folder::read(folder, name, most)
    });
    match (read.await.map_err(|error| error.to_string()).flatten()?, storage) {
        (Some(file), _) => Ok(file),
        (None, Some(storage)) => read_whole(storage, &sid, most).await,
        (None, None) => Err("its file is gone".to_owned()),
    }
}

/// Decodes a file by the format of its first bytes: names and content types are unreliable.
pub(super) fn decode(file: Vec<u8>) -> Result<Samples, String> {
    let wav = if file.starts_with(b"RIFF") {
        Wav::parse(&file).map_err(|error| error.to_string())?
    } else {
        decode_packed(file).map_err(|error| format!("neither WAV, MP3, FLAC nor OGG Vorbis: {error}"))?
    };
    let mut samples = wav.to_mono_at(8_000);
    samples.truncate(limits::SAMPLES);
    Ok(samples.into())
}

/// MP3, FLAC and OGG Vorbis, as one channel.
fn decode_packed(file: Vec<u8>) -> Result<Wav, Error> {
    let stream = MediaSourceStream::new(Box::new(Cursor::new(file)), Default::default());
    let (hint, options) = (Hint::new(), FormatOptions::default());
    let mut format =
        symphonia::default::get_probe().probe(&hint, stream, options, MetadataOptions::default())?;
    let track = format.default_track(TrackType::Audio).ok_or(Error::Unsupported("no sound in it"))?;
    let (id, params) = (track.id, track.codec_params.as_ref().and_then(|params| params.audio()));
    let params = params.ok_or(Error::Unsupported("no sound in it"))?;
    let mut decoder =
        symphonia::default::get_codecs().make_audio_decoder(params, &AudioDecoderOptions::default())?;
    let (mut wav, mut part) = (Wav { channels: 1, ..Wav::default() }, Vec::<i16>::new());
    while let Some(packet) = format.next_packet()? {
        if packet.track_id != id {
            continue;
        }
        let buffer = match decoder.decode(&packet) {
            Ok(buffer) => buffer,
            // One frame that is damaged is left out, as players do.
            Err(Error::DecodeError(_)) => continue,
            Err(error) => return Err(error),
        };
        wav.rate = buffer.spec().rate();
        let channels = u16::try_from(buffer.num_planes()).unwrap_or(u16::MAX);
        buffer.copy_to_vec_interleaved(&mut part);
        let packet = Wav { rate: wav.rate, channels, samples: std::mem::take(&mut part) };
        wav.samples.extend(packet.to_mono());
        if wav.samples.len() > limits::DECODED {
            break;
        }
    }
    if wav.samples.is_empty() {
        return Err(Error::Unsupported("no sound in it"));
    }
    Ok(wav)
}
