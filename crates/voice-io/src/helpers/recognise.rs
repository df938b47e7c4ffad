//! Speech to text by the operator's program, one process per utterance, or web service, one request per utterance.
//!
//! [`utterance`] makes both ends: the call puts samples into the [`Listener`], and [`Recogniser::hear`] takes them from the [`Utterance`] and tells
//! of results as they come. A whole recording goes through [`Recogniser::transcribe`].
//!
//! The program reads 16-bit samples of 8 kHz, little-endian, as they come, and writes a line whenever it knows more:
//! JSON (`{"text": "…", "final": true, "confidence": 0.9}`), or the text itself, which is then final. The service gets
//! a WAV file when the speech is over, and answers with one such line.

use std::process::Stdio;
use std::time::Duration;

use ::voice::{RecognitionResult, SpeechListener};
use anyhow::Context;
use ivr::script::Speech;
use media::wav::{Wav, resample};
use reqwest::{Client, Url};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::limits;
use super::settings::Settings;

/// Samples per second that a recogniser is given.
const RATE: u32 = 8_000;

/// The sending end of an utterance. Once it is dropped, no results follow.
pub(super) struct Listener {
    /// `None`: the speech is over, and results are awaited.
    samples: Option<mpsc::Sender<Vec<i16>>>,
    /// Tells by being dropped.
    _wanted: oneshot::Sender<()>,
}

impl SpeechListener for Listener {
    // A slow recogniser loses sound: the tick of the call does not wait.
    fn put(&self, samples: &[i16]) {
        if let Some(sender) = &self.samples {
            let _ = sender.try_send(samples.to_vec());
        }
    }

    fn end(&mut self) {
        self.samples = None;
    }
}

/// The hearing end: language, hints, and the samples while the caller speaks.
pub(super) struct Utterance {
    language: String,
    hints: String,
    /// Samples per second of the call.
    rate: u32,
    /// Pieces of 200 ms.
    samples: mpsc::Receiver<Vec<i16>>,
    /// Ends when the listener is dropped.
    unwanted: oneshot::Receiver<()>,
}

/// The two ends of an utterance.
pub(super) fn utterance(language: &str, hints: &[String], rate: u32) -> (Listener, Utterance) {
    let (sender, samples) = mpsc::channel(limits::RECOGNISED_PIECES);
    let (wanted, unwanted) = oneshot::channel();
    // They may stand in an argument: a NUL is none.
    let clean = |text: &str| text.replace(char::is_control, " ");
    let (language, hints) = (clean(language), clean(&hints.join(",")));
    let utterance = Utterance { language, hints, rate, samples, unwanted };
    (Listener { samples: Some(sender), _wanted: wanted }, utterance)
}

/// The operator's recogniser, of `[voice] recogniser`.
pub(super) enum Recogniser {
    /// A program, one process an utterance.
    Command { program: String, arguments: Vec<String> },
    /// A web service, one request an utterance.
    Service { client: Client, url: Url },
}

impl Recogniser {
    /// The recogniser of the configuration; `None`: there is none.
    pub(super) fn new(settings: &Settings) -> anyhow::Result<Option<Recogniser>> {
        let Some([program, arguments @ ..]) = settings.recogniser.as_deref() else { return Ok(None) };
        if !program.starts_with("http://") && !program.starts_with("https://") {
            let (program, arguments) = (program.clone(), arguments.to_vec());
            return Ok(Some(Recogniser::Command { program, arguments }));
        }
        let url = Url::parse(program).context("`recogniser` is no URL")?;
        // The operator's own: wherever it is, and never through a proxy of the environment.
        let client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(limits::CONNECT_TIMEOUT)
            .build()
            .context("no HTTP client for the recogniser")?;
        Ok(Some(Recogniser::Service { client, url }))
    }

    /// Recognises one utterance. Its results end with one `Over`, unless the listener was dropped.
    pub(super) async fn hear(&self, utterance: Utterance, mut told: impl FnMut(RecognitionResult)) {
        let Utterance { language, hints, rate, mut samples, unwanted } = utterance;
        let how = (&*language, &*hints);
        let result = match self {
            Recogniser::Command { program, arguments } => {
                let source = Source { samples: &mut samples, rate, wait: limits::RECOGNISED_WAIT };
                let words = |speech| told(RecognitionResult::Words(speech));
                run((program, arguments), how, source, unwanted, words).await
            }
            Recogniser::Service { client, url } => {
                let ask = async {
                    let mut all = Vec::new();
                    while let Some(piece) = samples.recv().await {
                        all.extend(resample(&piece, rate, RATE));
                    }
                    post(client, url, how, all, limits::RECOGNISED_WAIT).await
                };
                tokio::select! {
                    _ = unwanted => return,
                    answer = ask => answer.map(|speech| {
                        told(RecognitionResult::Words(Speech { is_final: true, ..speech }));
                        true
                    }),
                }
            }
        };
        match result {
            Ok(false) => {}
            Ok(true) => told(RecognitionResult::Over(Ok(()))),
            Err(problem) => told(RecognitionResult::Over(Err(problem))),
        }
    }

    /// The whole text of a WAV file of that name.
    pub(super) async fn transcribe(&self, name: &str, file: Vec<u8>) -> Result<String, String> {
        let read =
            move || Wav::parse(&file).map(|wav| wav.to_mono_at(RATE)).map_err(|error| error.to_string());
        let read = tokio::task::spawn_blocking(read).await.map_err(|error| error.to_string())?;
        let all = read.map_err(|error| format!("{name}: {error}"))?;
        let (program, arguments) = match self {
            Recogniser::Service { client, url } => {
                return Ok(post(client, url, ("", ""), all, limits::TRANSCRIPTION_WAIT).await?.text);
            }
            Recogniser::Command { program, arguments } => (program, arguments),
        };
        let (sender, mut samples) = mpsc::channel(1);
        let (_wanted, unwanted) = oneshot::channel();
        let feed = async move {
            for piece in all.chunks(RATE as usize) {
                if sender.send(piece.to_vec()).await.is_err() {
                    break;
                }
            }
        };
        let (mut text, mut last) = (String::new(), String::new());
        let words = |speech: Speech| {
            // The last line may be no final one: it counts when nothing follows.
            last = speech.text;
            if speech.is_final {
                let gap = if text.is_empty() { "" } else { " " };
                text.extend([gap, last.trim()]);
                last.clear();
            }
        };
        let source = Source { samples: &mut samples, rate: RATE, wait: limits::TRANSCRIPTION_WAIT };
        let ((), result) = tokio::join!(feed, run((program, arguments), ("", ""), source, unwanted, words));
        result?;
        if !last.trim().is_empty() {
            text.extend([" ", last.trim()]);
        }
        Ok(text.trim().to_owned())
    }
}

/// The sound for a program, and its patience.
struct Source<'a> {
    samples: &'a mut mpsc::Receiver<Vec<i16>>,
    rate: u32,
    /// For its last word, once all was said.
    wait: Duration,
}

/// Runs one process. `false`: the listener was dropped. In every case the process has ended and been waited for.
async fn run(
    (program, arguments): (&str, &[String]),
    (language, hints): (&str, &str),
    source: Source<'_>,
    unwanted: oneshot::Receiver<()>,
    told: impl FnMut(Speech),
) -> Result<bool, String> {
    let fill = |text: &String| text.replace("{language}", language).replace("{hints}", hints);
    let mut child = Command::new(program)
        .args(arguments.iter().map(fill))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("the recogniser {program} cannot be started: {error}"))?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(format!("the recogniser {program} has no input or output"));
    };
    let wait = source.wait;
    let (ended, end) = oneshot::channel();
    let talk = async {
        let feed = async {
            feed(input, source).await;
            let _ = ended.send(());
        };
        tokio::join!(feed, listen(output, told)).1
    };
    let late = async {
        // The time begins when the program has read all the sound; a program that does not read is not waited for.
        let _ = timeout(limits::TRANSCRIPTION_WAIT, end).await;
        tokio::time::sleep(wait).await;
    };
    let result = tokio::select! {
        _ = unwanted => Ok(false),
        read = talk => read.map(|()| true).map_err(|error| format!("the recogniser {program}: {error}")),
        () = late => Err(format!("the recogniser {program} had no last word after {} s, and was killed", wait.as_secs())),
    };
    if matches!(result, Ok(true)) && timeout(LAST, child.wait()).await.is_ok() {
        return result;
    }
    // By its process, and waited for: none stays behind.
    let _ = child.kill().await;
    result
}

/// For a program to end that has said all it had to say.
const LAST: Duration = Duration::from_secs(1);

/// Writes the samples to the program's input, and closes it at their end.
async fn feed(mut input: ChildStdin, source: Source<'_>) {
    while let Some(piece) = source.samples.recv().await {
        let samples = resample(&piece, source.rate, RATE);
        let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        // A program may stop reading on purpose; the rest is discarded.
        let _ = input.write_all(&bytes).await;
    }
}

/// Reads the program's lines until the end of its output.
async fn listen(output: ChildStdout, mut told: impl FnMut(Speech)) -> std::io::Result<()> {
    let mut lines = BufReader::new(output.take(limits::RECOGNISED_BYTES)).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some(speech) = parse(&line) {
            told(speech);
        }
    }
    Ok(())
}

/// Sends a WAV file, and waits for the answer at most so long. An answer without words is one of silence.
async fn post(
    client: &Client,
    url: &Url,
    (language, hints): (&str, &str),
    samples: Vec<i16>,
    wait: Duration,
) -> Result<Speech, String> {
    let mut url = url.clone();
    for (name, value) in [("language", language), ("hints", hints)] {
        if !value.is_empty() {
            url.query_pairs_mut().append_pair(name, value);
        }
    }
    let body = Wav { rate: RATE, channels: 1, samples }.to_bytes();
    let ask = async {
        let request = client.post(url).header(reqwest::header::CONTENT_TYPE, "audio/wav").body(body);
        let mut response = request.send().await?.error_for_status()?;
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if (answer.len() + chunk.len()) as u64 > limits::RECOGNISED_BYTES {
                break;
            }
            answer.extend_from_slice(&chunk);
        }
        Ok::<_, reqwest::Error>(answer)
    };
    let answer = timeout(wait, ask)
        .await
        .map_err(|_| format!("the recogniser did not answer in {} s", wait.as_secs()))?
        .map_err(|error| format!("the recogniser: {error}"))?;
    let text = String::from_utf8_lossy(&answer);
    Ok(parse(&text).unwrap_or(Speech { text: String::new(), is_final: true, confidence: None }))
}

/// A line in JSON.
#[derive(Deserialize)]
struct Line {
    text: String,
    #[serde(default, rename = "final")]
    is_final: bool,
    confidence: Option<f64>,
}

/// A line as the program wrote it; an empty one says nothing.
fn parse(line: &str) -> Option<Speech> {
    let line = line.trim();
    if line.starts_with('{')
        && let Ok(Line { text, is_final, confidence }) = serde_json::from_str(line)
    {
        // Clamped: it fits.
        let thousandths = |share: f64| (share.clamp(0.0, 1.0) * 1_000.0).round() as u16;
        return Some(Speech { text, is_final, confidence: confidence.map(thousandths) });
    }
    (!line.is_empty()).then(|| Speech { text: line.to_owned(), is_final: true, confidence: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_json_or_the_text_itself() {
        let speech =
            |text: &str, is_final, confidence| Some(Speech { text: text.to_owned(), is_final, confidence });
        assert_eq!(
            parse("{\"text\": \"one two\", \"confidence\": 0.8}"),
            speech("one two", false, Some(800))
        );
        assert_eq!(parse(r#"{"text":"one","final":true,"confidence":7}"#), speech("one", true, Some(1_000)));
        assert_eq!(parse(" three four\r"), speech("three four", true, None));
        assert_eq!(parse("{broken"), speech("{broken", true, None));
        assert_eq!(parse(" "), None);
    }
}
