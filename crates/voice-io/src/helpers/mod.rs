//! The slow work of programmable voice, away from the shards: requests to applications, speech synthesis, fetching and
//! decoding of files. One thread with a runtime of its own; every queue has a bound, and every request an answer.
//!
//! The way of a request: a method of [`HelperService`] takes one of the places of its kind, or answers at once that there is none; the job goes
//! through a queue to the thread (`work`); a task does it; the place is given back; and the result goes to [`Deliver`] with the ticket of the
//! request. Bounds by kind are semaphores, so a flood of one kind leaves room for the others.

mod address;
mod audio;
mod cache;
mod documents;
mod encode;
mod folder;
mod http;
pub(super) mod limits;
mod mail;
mod places;
mod recognise;
mod recording_access;
mod request_trace;
mod settings;
mod speech;
#[cfg(test)]
mod tests;
mod webhooks;
mod websocket;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use ::voice::{
    Done, HelperService, MediaStreamEvent, Opening, PlayedRecording, SpeechListener, StreamOrder,
    StreamSender, Ticket,
};
use anyhow::Context;
use ivr::document::{Email, Voice, code};
use ivr::request::Wire;
use ivr::script::{EffectFailure, FetchResponse};
use media::codec::Codec;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{LocalSet, spawn_blocking, spawn_local};
use tokio::time::timeout;

use audio::{Check, FetchedAudio};
use cache::{Cache, Samples};
use http::Http;
use mail::Mailer;
use net::clock::Clock;
use places::{DroppedLog, Place, Places};
use recognise::{Recogniser, Utterance};
use speech::Words;

pub use recording_access::{AccessAnswer, RecordingAccess};
pub use request_trace::{RequestTrace, TracedRequest};
pub use settings::Settings;
pub use speech::is_installed;
pub use webhooks::{WebhookFigures, Webhooks};

/// The receiver of results. Called by the helpers' thread, and by the asking one when there is no room for the request:
/// it must not wait.
pub trait Deliver: Send + Sync {
    /// Takes the result of the request with this ticket.
    fn deliver(&self, ticket: Ticket, done: Done);
}

/// The shards' end of the thread of helpers. Ends, with all that it does, when it is dropped.
pub struct Helpers {
    /// `None` while it ends.
    jobs: Option<mpsc::Sender<Job>>,
    /// Places of each kind of request.
    documents: Places,
    callbacks: Places,
    prompts: Places,
    mails: Places,
    streams: Places,
    recognisers: Places,
    transcriptions: Places,
    dropped_log: DroppedLog,
    /// A recogniser is configured.
    can_recognise: bool,
    deliver: Arc<dyn Deliver>,
    thread: Option<JoinHandle<()>>,
}

/// A question, and its place among those that are open.
struct Job {
    ticket: Ticket,
    place: Place,
    what: JobKind,
}

/// The work of a job.
enum JobKind {
    /// A document.
    Fetch(Wire),
    /// A callback, whose answer is ignored.
    Tell(Wire),
    /// A document for a test of it, and the way of the answer.
    Test(Wire, oneshot::Sender<Result<FetchResponse, EffectFailure>>),
    /// A text to speak.
    Speech(Words),
    /// The URL of a sound.
    Audio(String),
    /// A recording to be played.
    Recording(PlayedRecording),
    /// Samples of a sound, to be encoded.
    Encode(Codec, Samples),
    /// A mail of a document.
    Mail(Box<Email>),
    /// A media stream, and the messages for it.
    Stream(Box<Opening>, mpsc::Receiver<StreamOrder>),
    /// Words of a caller to recognise.
    Speak(Utterance),
    /// The file of a recording, to be written down.
    Transcribe(PathBuf),
}

impl Helpers {
    /// Starts the thread of helpers; results go to `deliver`.
    ///
    /// # Errors
    /// A relay, a recogniser or a client of HTTP that cannot be set up, or no thread.
    pub fn start(settings: &Settings, deliver: Arc<dyn Deliver>) -> anyhow::Result<Helpers> {
        Helpers::traced(settings, deliver, None)
    }

    /// As [`start`](Self::start); `trace` notes requests to applications.
    ///
    /// # Errors
    /// As `start`.
    pub fn traced(
        settings: &Settings,
        deliver: Arc<dyn Deliver>,
        trace: Option<Arc<dyn RequestTrace>>,
    ) -> anyhow::Result<Helpers> {
        for (program, package) in [(&settings.flite, "flite"), (&settings.espeak, "espeak-ng")] {
            if settings.command.is_none() && !speech::is_installed(program) {
                tracing::warn!(program = %program.display(), "not there to speak: install Debian's package {package}");
            }
        }
        // All clients here use this provider for TLS. Another part of the process may have set the same one already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        // Each job has a place already: the queue is never full.
        let places =
            limits::DOCUMENTS + limits::CALLBACKS + limits::PROMPTS + limits::MAILS + limits::STREAMS;
        let (jobs, todo) = mpsc::channel(places + limits::RECOGNISERS + limits::TRANSCRIPTIONS);
        let recogniser = Recogniser::new(settings)?;
        let can_recognise = recogniser.is_some();
        let http = Http::new(settings, trace)?;
        let mailer = settings.mail.as_ref().map(Mailer::new).transpose()?;
        let (settings, answers) = (settings.clone(), Arc::clone(&deliver));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(limits::BLOCKING)
            .build()
            .context("no runtime for requests and speech")?;
        let run = move || {
            let worker = Rc::new(Worker::new(settings, http, mailer, recogniser, answers));
            LocalSet::new().block_on(&runtime, work(worker, todo));
            // A name server that does not answer is not waited for.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("voice-helpers".into()).spawn(run)?;
        Ok(Helpers {
            jobs: Some(jobs),
            documents: Places::new(limits::DOCUMENTS, limits::FETCHES_OF_SERVER),
            callbacks: Places::new(limits::CALLBACKS, limits::FETCHES_OF_SERVER),
            prompts: Places::new(limits::PROMPTS, limits::PROMPTS_OF_SERVER),
            mails: Places::new(limits::MAILS, limits::MAILS),
            streams: Places::new(limits::STREAMS, limits::STREAMS),
            recognisers: Places::new(limits::RECOGNISERS, limits::RECOGNISERS),
            transcriptions: Places::new(limits::TRANSCRIPTIONS, limits::TRANSCRIPTIONS),
            dropped_log: DroppedLog::new(),
            can_recognise,
            deliver,
            thread: Some(thread),
        })
    }

    /// A document as a call would get it, for a test without a call: by the same client, from the same places, and among the same number of
    /// open requests.
    pub fn fetch_document(
        &self,
        wire: Wire,
    ) -> impl Future<Output = Result<FetchResponse, EffectFailure>> + Send + use<> {
        let (answer, answered) = oneshot::channel();
        let place = self.documents.take_for(&wire.url);
        let is_asked = self.ask(place, NO_TICKET, JobKind::Test(wire, answer));
        async move {
            let failure = |text: &str| Err(EffectFailure { code: code::UNREACHABLE, text: text.to_owned() });
            match answered.await {
                Ok(result) => result,
                Err(_) if is_asked => failure("the node ends"),
                Err(_) => failure(NO_PLACE),
            }
        }
    }

    /// A job whose answer are samples.
    fn prompt(&self, place: Option<Place>, ticket: Ticket, what: JobKind) {
        if !self.ask(place, ticket, what) {
            self.deliver.deliver(ticket, Done::Samples(Err("too many prompts are being made".to_owned())));
        }
    }

    /// False: there is no place for it.
    fn ask(&self, place: Option<Place>, ticket: Ticket, what: JobKind) -> bool {
        let Some(place) = place else { return false };
        let jobs = self.jobs.as_ref();
        jobs.is_some_and(|jobs| jobs.try_send(Job { ticket, place, what }).is_ok())
    }
}

impl HelperService for Helpers {
    fn fetch(&self, ticket: Ticket, wire: Wire) {
        let place = self.documents.take_for(&wire.url);
        if !self.ask(place, ticket, JobKind::Fetch(wire)) {
            let failure = EffectFailure { code: code::UNREACHABLE, text: NO_PLACE.to_owned() };
            self.deliver.deliver(ticket, Done::Fetched(Err(failure)));
        }
    }

    fn tell(&self, wire: Wire) -> bool {
        let Some(place) = self.callbacks.take_for(&wire.url) else {
            self.dropped_log.handle_dropped(&wire.url);
            return false;
        };
        self.ask(Some(place), NO_TICKET, JobKind::Tell(wire))
    }

    fn speech(&self, ticket: Ticket, text: &str, voice: Voice, language: &str) {
        self.prompt(self.prompts.take(), ticket, JobKind::Speech(Words::new(text, voice, language)));
    }

    fn audio(&self, ticket: Ticket, url: &str) {
        self.prompt(self.prompts.take_for(url), ticket, JobKind::Audio(url.to_owned()));
    }

    fn recording(&self, ticket: Ticket, recording: PlayedRecording) {
        self.prompt(self.prompts.take(), ticket, JobKind::Recording(recording));
    }

    fn encode(&self, ticket: Ticket, codec: Codec, samples: Samples) {
        if !self.ask(self.prompts.take(), ticket, JobKind::Encode(codec, samples)) {
            self.deliver.deliver(ticket, Done::Encoded(Err("too many prompts are being made".to_owned())));
        }
    }

    fn mail(&self, ticket: Ticket, mail: Email) {
        if !self.ask(self.mails.take(), ticket, JobKind::Mail(Box::new(mail))) {
            self.deliver.deliver(ticket, Done::Mailed(Err("too many mails are on their way".to_owned())));
        }
    }

    fn stream(&self, ticket: Ticket, opening: Opening) -> Box<dyn StreamSender> {
        let (orders, taken) = mpsc::channel(limits::STREAM_FRAMES);
        if !self.ask(self.streams.take(), ticket, JobKind::Stream(Box::new(opening), taken)) {
            let over = MediaStreamEvent::Over(Err("too many media streams are open".to_owned()));
            self.deliver.deliver(ticket, Done::Stream(over));
        }
        Box::new(StreamQueue(orders))
    }

    fn recognise(
        &self,
        ticket: Ticket,
        language: &str,
        hints: &[String],
        rate: u32,
    ) -> Result<Box<dyn SpeechListener>, String> {
        if !self.can_recognise {
            return Err(NO_RECOGNISER.to_owned());
        }
        let (listener, utterance) = recognise::utterance(language, hints, rate);
        if !self.ask(self.recognisers.take(), ticket, JobKind::Speak(utterance)) {
            return Err("too many callers speak at once".to_owned());
        }
        Ok(Box::new(listener))
    }

    fn transcribe(&self, ticket: Ticket, recording: PathBuf) {
        let asked = self
            .can_recognise
            .then(|| self.ask(self.transcriptions.take(), ticket, JobKind::Transcribe(recording)));
        let failed = match asked {
            Some(true) => return,
            Some(false) => "too many recordings are to be transcribed".to_owned(),
            None => NO_RECOGNISER.to_owned(),
        };
        self.deliver.deliver(ticket, Done::Transcribed(Err(failed)));
    }
}

/// The bounded queue of a media stream's task.
struct StreamQueue(mpsc::Sender<StreamOrder>);

impl StreamSender for StreamQueue {
    fn try_send(&self, message: StreamOrder) -> bool {
        self.0.try_send(message).is_ok()
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The error of a request that needs `[voice] recogniser`.
const NO_RECOGNISER: &str = "there is no recogniser for speech: set `recogniser` in [voice]";

/// The error of a request for a document that finds no place.
const NO_PLACE: &str = "too many requests are open";

/// The ticket of requests whose answer no shard waits for.
const NO_TICKET: Ticket = Ticket { shard: 0, id: 0 };

/// The ticket of a request, and its place among those that are open.
type Waiter = (Ticket, Place);

/// The state of the thread. All tasks run on it, so nothing is locked.
struct Worker {
    settings: Settings,
    http: Http,
    /// `None`: no relay is configured.
    mailer: Option<Mailer>,
    recogniser: Option<Recogniser>,
    deliver: Arc<dyn Deliver>,
    clock: Clock,
    /// Spoken texts.
    spoken: RefCell<Cache<Words, (), Waiter>>,
    /// Decoded files, by URL.
    sounds: RefCell<Cache<String, Check, Waiter>>,
    /// Speech engines that run.
    processes: Semaphore,
    /// Files that are being decoded.
    decoders: Semaphore,
    /// Sounds that are being encoded.
    encoders: Semaphore,
    /// Recordings that are being transcribed.
    transcribers: Semaphore,
}

/// Starts a task for each job, until the helpers end.
async fn work(worker: Rc<Worker>, mut todo: mpsc::Receiver<Job>) {
    while let Some(Job { ticket, place, what }) = todo.recv().await {
        match what {
            // The place is given back before the answer: what follows from the answer may ask again at once.
            JobKind::Fetch(wire) => {
                let worker = Rc::clone(&worker);
                spawn_local(async move {
                    let answer = worker.document(wire).await;
                    drop(place);
                    worker.deliver.deliver(ticket, Done::Fetched(answer));
                });
            }
            JobKind::Tell(wire) => worker.callback(place, wire),
            JobKind::Test(wire, answer) => worker.test(place, wire, answer),
            JobKind::Speech(words) => worker.speech((ticket, place), words),
            JobKind::Audio(url) => worker.audio((ticket, place), url),
            JobKind::Recording(recording) => worker.recording((ticket, place), recording),
            JobKind::Encode(codec, samples) => worker.encode((ticket, place), codec, samples),
            JobKind::Mail(mail) => {
                let worker = Rc::clone(&worker);
                spawn_local(async move {
                    let result = match &worker.mailer {
                        Some(mailer) => mailer.send(&mail).await,
                        None => Err("no mail relay is configured: set `voice.mail_relay`".to_owned()),
                    };
                    drop(place);
                    worker.deliver.deliver(ticket, Done::Mailed(result));
                });
            }
            JobKind::Stream(opening, orders) => {
                let worker = Rc::clone(&worker);
                spawn_local(async move {
                    let tell = |news| worker.deliver.deliver(ticket, Done::Stream(news));
                    websocket::run(*opening, orders, worker.settings.allow_private, tell).await;
                    drop(place);
                });
            }
            JobKind::Speak(utterance) => {
                let worker = Rc::clone(&worker);
                spawn_local(async move {
                    let told = |heard| worker.deliver.deliver(ticket, Done::Heard(heard));
                    if let Some(recogniser) = &worker.recogniser {
                        recogniser.hear(utterance, told).await;
                    }
                    drop(place);
                });
            }
            JobKind::Transcribe(recording) => {
                let worker = Rc::clone(&worker);
                spawn_local(async move {
                    let _turn = worker.transcribers.acquire().await;
                    let text = worker.transcription(recording).await;
                    drop(place);
                    worker.deliver.deliver(ticket, Done::Transcribed(text));
                });
            }
        }
    }
}

impl Worker {
    fn new(
        settings: Settings,
        http: Http,
        mailer: Option<Mailer>,
        recogniser: Option<Recogniser>,
        deliver: Arc<dyn Deliver>,
    ) -> Worker {
        Worker {
            http,
            mailer,
            recogniser,
            deliver,
            clock: Clock::new(),
            spoken: RefCell::new(Cache::new(settings.cache)),
            sounds: RefCell::new(Cache::new(settings.cache)),
            processes: Semaphore::new(settings.processes.max(1)),
            decoders: Semaphore::new(limits::DECODERS),
            encoders: Semaphore::new(limits::ENCODERS),
            transcribers: Semaphore::new(limits::TRANSCRIBERS),
            settings,
        }
    }

    /// A document: an application's, or one of the operator's folder.
    async fn document(&self, wire: Wire) -> Result<FetchResponse, EffectFailure> {
        if !documents::is_one(&wire.url) {
            return self.http.fetch(wire).await;
        }
        let folder = self.settings.documents.clone();
        let read = spawn_blocking(move || documents::read(folder.as_deref(), &wire)).await;
        read.unwrap_or_else(|error| Err(EffectFailure { code: code::UNREACHABLE, text: error.to_string() }))
    }

    /// A callback. A failure is the application's: no call waits for it.
    fn callback(self: &Rc<Self>, place: Place, wire: Wire) {
        let worker = Rc::clone(self);
        spawn_local(async move {
            let _ = worker.document(wire).await;
            drop(place);
        });
    }

    /// A document for a test of it.
    fn test(
        self: &Rc<Self>,
        place: Place,
        wire: Wire,
        answer: oneshot::Sender<Result<FetchResponse, EffectFailure>>,
    ) {
        let worker = Rc::clone(self);
        spawn_local(async move {
            let result = worker.document(wire).await;
            drop(place);
            // A client that has gone does not want its answer any more.
            let _ = answer.send(result);
        });
    }

    /// A text that is kept is answered at once, one that is being spoken is waited for, and any other is spoken now.
    fn speech(self: &Rc<Self>, waiter: Waiter, words: Words) {
        let mut spoken = self.spoken.borrow_mut();
        if let Some((samples, ())) = spoken.get(&words) {
            self.tell(vec![waiter], &Ok(samples));
        } else if spoken.wait(&words, waiter) {
            let worker = Rc::clone(self);
            spawn_local(async move {
                let _turn = worker.processes.acquire().await;
                let result = speech::speak(&worker.settings, &words).await;
                let waited = worker.spoken.borrow_mut().done(&words);
                worker.tell(waited, &result);
                if let Ok(samples) = result {
                    worker.spoken.borrow_mut().keep(words, samples, ());
                }
            });
        }
    }

    /// The same for a file. One that is kept and no longer fresh is asked for again, once for all that wait.
    fn audio(self: &Rc<Self>, waiter: Waiter, url: String) {
        let mut sounds = self.sounds.borrow_mut();
        let old = sounds.get(&url);
        match &old {
            Some((samples, check)) if check.until > self.clock.now() => {
                self.tell(vec![waiter], &Ok(Arc::clone(samples)));
            }
            _ if sounds.wait(&url, waiter) => {
                let worker = Rc::clone(self);
                spawn_local(async move {
                    let result = worker.sound(&url, old).await;
                    let waited = worker.sounds.borrow_mut().done(&url);
                    worker.tell(
                        waited,
                        &result.as_ref().map(|(samples, _)| Arc::clone(samples)).map_err(String::clone),
                    );
                    if let Ok((samples, Some(check))) = result {
                        worker.sounds.borrow_mut().keep(url, samples, check);
                    }
                });
            }
            _ => {}
        }
    }

    /// Fetches or reads a file and decodes it; one that has not changed is taken from `old`.
    async fn sound(
        &self,
        url: &str,
        old: Option<(Samples, Check)>,
    ) -> Result<(Samples, Option<Check>), String> {
        let now = self.clock.now();
        let (file, check) = match reqwest::Url::parse(url) {
            Ok(parsed) if parsed.scheme() == "file" => {
                let folder = self.settings.prompts.clone();
                let read = spawn_blocking(move || audio::read(folder.as_deref(), &parsed, now));
                read.await.map_err(|error| error.to_string())??
            }
            _ => {
                match audio::get(&self.http, now, url, old.as_ref().map(|(_, check)| check.clone())).await? {
                    FetchedAudio::File(file, check) => (file, check),
                    FetchedAudio::Same(check) => {
                        let (samples, _) =
                            old.ok_or_else(|| format!("{url}: status 304 without a question"))?;
                        return Ok((samples, Some(check)));
                    }
                }
            }
        };
        let _turn = self.decoders.acquire().await;
        let decoded = spawn_blocking(move || audio::decode(file)).await.map_err(|error| error.to_string())?;
        let samples = decoded.map_err(|error| format!("{url}: {error}"))?;
        Ok((samples, check))
    }

    /// The sound of a recording. It is not kept: it may be deleted, and is seldom played twice.
    fn recording(self: &Rc<Self>, waiter: Waiter, recording: PlayedRecording) {
        let worker = Rc::clone(self);
        spawn_local(async move {
            let result = match worker.may_play(&recording).await {
                Ok(true) => worker.recorded_sound(recording.file).await,
                // A recording of another account is answered as one that is not there: sids are not to be tried out.
                Ok(false) => Err("no such recording".to_owned()),
                Err(problem) => Err(problem),
            };
            worker.tell(vec![waiter], &result.map_err(|error| format!("the recording: {error}")));
        });
    }

    /// True if the document may play the recording, wherever its sound is.
    async fn may_play(&self, recording: &PlayedRecording) -> Result<bool, String> {
        let Some(access) = &self.settings.access else { return Ok(false) };
        let answered = timeout(self.settings.fetch_timeout, access.may_play(recording)).await;
        answered.unwrap_or_else(|_| Err("the database does not answer".to_owned()))
    }

    async fn recorded_sound(&self, file: PathBuf) -> Result<Samples, String> {
        let _turn = self.decoders.acquire().await;
        let storage = self.settings.recordings.as_deref();
        let file = audio::read_recording(file, limits::AUDIO_FILE, storage).await?;
        spawn_blocking(move || audio::decode(file)).await.map_err(|error| error.to_string())?
    }

    /// The text of a recording.
    async fn transcription(&self, file: PathBuf) -> Result<String, String> {
        let recogniser = self.recogniser.as_ref().ok_or(NO_RECOGNISER)?;
        let (name, storage) = (file.display().to_string(), self.settings.recordings.as_deref());
        let told = |problem| format!("{name}: {problem}");
        let file = audio::read_recording(file, limits::TRANSCRIBED_FILE, storage).await.map_err(told)?;
        recogniser.transcribe(&name, file).await
    }

    /// Gives the places back first: a waiter may ask again at once.
    fn tell(&self, waited: Vec<Waiter>, result: &Result<Samples, String>) {
        for (ticket, place) in waited {
            drop(place);
            self.deliver.deliver(ticket, Done::Samples(result.clone()));
        }
    }
}
