//! Every limit of the interpreter, with its reason and the effect beyond it.

use std::time::Duration;

/// Bytes of one document. Real ones have under 4 KB. Beyond it the document is refused with code 11750
/// and the fallback is asked.
pub const DOCUMENT_BYTES: usize = 256 * 1024;

/// Elements inside elements; `Response/Dial/Client/Video` is four deep and SSML adds a few. Beyond it: code 12100.
pub const DOCUMENT_DEPTH: usize = 16;

/// Elements, texts and comments of one document. Beyond it: code 12100.
pub const DOCUMENT_NODES: u32 = 8_192;

/// Attributes of one element, and `xmlns` declarations of a whole document: no element of the language has half as many. The parser
/// compares each attribute with all earlier ones of its element, and copies the namespaces around an element to each that declares
/// another, which made 250 KB cost half a minute. Beyond them: code 12100.
pub const DOCUMENT_ATTRIBUTES: usize = 64;
/// As [`DOCUMENT_ATTRIBUTES`].
pub const DOCUMENT_NAMESPACES: usize = 32;

/// Verbs of one document, children not counted. Those beyond it are passed over with a note.
pub const DOCUMENT_VERBS: usize = 512;

/// Notes kept of one document; more say nothing new.
pub const DOCUMENT_NOTES: usize = 64;

/// Characters of one Say. Twilio's own limit. The text beyond it is not spoken.
pub const SPEECH_CHARS: usize = 4_096;

/// The longest pause of one `<break>`: Twilio's own limit.
pub const SPEECH_BREAK: Duration = Duration::from_secs(10);

/// Children of one Dial that ring: Twilio's own limit of simultaneous calls. More are passed over with a note.
pub const DIAL_TARGETS: usize = 10;

/// Children of one Gather: all their sounds are requested at once. Those beyond it are passed over with a note.
pub const GATHER_CHILDREN: usize = 64;

/// Characters of `digits`, `sendDigits` and the parameter `SendDigits` of REST: the longest number that is dialled has 15, with its
/// extension and pauses some dozens. A longer value is noted, and nothing is sent; REST answers 400.
pub const TONES: usize = 256;

/// Digits kept by one Gather without `numDigits`. More are dropped.
pub const GATHERED_DIGITS: usize = 256;

/// Characters of recognised speech kept. The rest is cut off.
pub const GATHERED_SPEECH: usize = 8_192;

/// Documents of one call. A menu that asks every second for two hours stays below; a circle of redirects that
/// each speak a word does not. Beyond it the call ends with code 11215.
pub const DOCUMENTS_PER_CALL: u32 = 10_000;

/// Documents in a row in which nothing took time: a circle of redirects. Beyond it the call ends with code 11215.
pub const DOCUMENTS_WITHOUT_PAUSE: u32 = 30;

/// The pause of a waiting caller's music when its document took no time, so that an empty document causes no
/// storm of requests.
pub const WAIT_REST: Duration = Duration::from_secs(1);

/// For a document, beyond every time-out of the HTTP client: the call does not hang when that never answers.
pub const FETCH_WAIT: Duration = Duration::from_secs(60);

/// For a message to be taken, a transfer to be answered, a recording to be closed.
pub const ANSWER_WAIT: Duration = Duration::from_secs(40);

/// For the bridge to end once its leg was hung up, and for a recording's file after a hang-up.
pub const CLEANUP_WAIT: Duration = Duration::from_secs(5);

/// The wait for a recogniser's result. Then the Gather is over as if nothing had been.
pub const RECOGNITION_WAIT: Duration = Duration::from_secs(15);

/// The longest call, and the default of Dial's `timeLimit`: RestComm's and Twilio's four hours.
pub const CALL_DURATION: Duration = Duration::from_secs(14_400);

/// Bytes of one URL. Longer ones are refused with code 11100.
pub const URL_BYTES: usize = 4_096;

/// Steps of a dry run: more than a person reads. It ends at them.
pub const DRY_RUN_STEPS: usize = 400;

/// Verbs that a trace has from one input of a script. A document of many verbs that take no time has more; those are counted only.
pub const PERFORMED_VERBS: usize = 64;
