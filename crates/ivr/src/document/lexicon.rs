//! The language as tables: the base of the reader and of the reference page.

/// An element with its attributes and children.
pub(super) struct ElementEntry {
    /// The name of the element; case counts (XML 1.0 §2.3).
    pub(super) name: &'static str,
    /// One sentence for the reference page.
    pub(super) about: &'static str,
    /// The content between the tags; empty for an element without content.
    pub(super) body: &'static str,
    /// The attributes that the element takes.
    pub(super) attributes: &'static [Attribute],
    /// Names of entries.
    pub(super) children: &'static [&'static str],
}

/// One attribute of an element, with the values that it takes.
pub(super) struct Attribute {
    /// The name as documents write it.
    pub(super) name: &'static str,
    /// The values that it takes.
    pub(super) kind: ValueKind,
    /// As it would be written; empty: none.
    pub(super) default: &'static str,
    /// Half a sentence for the reference page.
    pub(super) about: &'static str,
}

/// The values that an attribute takes; others are noted and replaced by the default.
#[derive(Clone, Copy)]
pub(super) enum ValueKind {
    /// Any text.
    Text,
    /// Without one the verb is passed over.
    Required,
    /// A URL, relative or absolute; it is resolved when it is used.
    Url,
    /// `GET` or `POST`.
    Method,
    /// `true` or `false`.
    Bool,
    /// A whole number in these bounds.
    Whole { min: u32, max: u32 },
    /// Or the word `auto`.
    WholeOrAuto { min: u32, max: u32 },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// `man`, `woman`, `alice`, or the name of a voice of other services ([`super::voices`]).
    Voice,
    /// Some of these, separated by blanks.
    Words(&'static [&'static str]),
    /// Keys of a telephone; `-1` and the empty text are none.
    Keys,
    /// Keys and `w`, a pause of half a second, and `W`, of a second.
    Tones,
    /// Understood and passed over: its function belongs to a third party, or is not configured by a document
    /// here.
    Passed,
}

const fn a(name: &'static str, kind: ValueKind, default: &'static str, about: &'static str) -> Attribute {
    Attribute { name, kind, default, about }
}

const fn whole(min: u32, max: u32) -> ValueKind {
    ValueKind::Whole { min, max }
}

/// `action` of Gather and Record, which repeat the current document without it.
const ACTION_HERE: Attribute =
    a("action", ValueKind::Url, "", "asked for the next document; the current document's URL without it");
/// `action` of all other verbs.
const ACTION: Attribute =
    a("action", ValueKind::Url, "", "asked for the next document; without it the next verb follows");
const METHOD: Attribute = a("method", ValueKind::Method, "POST", "of the request to `action`");
const METHOD_OF_URL: Attribute = a("method", ValueKind::Method, "POST", "of the request to the URL");
const LOOP: Attribute = a("loop", whole(0, 1_000), "1", "how often; 0 for ever");
const STATUS: Attribute = a("statusCallback", ValueKind::Url, "", "told of the events");
const STATUS_METHOD: Attribute = a("statusCallbackMethod", ValueKind::Method, "POST", "of that request");
/// `statusCallbackEvent` of Number, Client and Sip.
const LEG_EVENTS: Attribute = a(
    "statusCallbackEvent",
    ValueKind::Words(&["initiated", "ringing", "answered", "completed"]),
    "completed",
    "which events",
);
/// `url` of Number, Client and Sip.
const SCREEN: Attribute =
    a("url", ValueKind::Url, "", "a document performed on the callee's leg before it is connected");
const TRIM: Attribute = a(
    "trim",
    ValueKind::OneOf(&["do-not-trim", "trim-silence"]),
    "do-not-trim",
    "silence at both ends of the recording",
);
const RECORDING_STATUS: Attribute =
    a("recordingStatusCallback", ValueKind::Url, "", "told when the recording can be fetched");
const RECORDING_STATUS_METHOD: Attribute =
    a("recordingStatusCallbackMethod", ValueKind::Method, "POST", "of that request");
const RECORDING_EVENTS: Attribute = a(
    "recordingStatusCallbackEvent",
    ValueKind::Words(&["in-progress", "completed", "absent"]),
    "completed",
    "which events",
);
/// The description of attributes that are read for the sake of existing documents only.
const THIRD_PARTY: &str = "understood, without effect";
const NAME: Attribute = a("name", ValueKind::Passed, "", THIRD_PARTY);

/// An attribute that is understood and has no effect.
const fn passed(name: &'static str) -> Attribute {
    a(name, ValueKind::Passed, "", THIRD_PARTY)
}

const SSML: &[&str] = &["break", "emphasis", "lang", "p", "phoneme", "prosody", "s", "say-as", "sub", "w"];
/// Verbs that a Gather plays while it listens.
const PROMPT: &[&str] = &["Say", "Play", "Pause"];

const fn entry(
    name: &'static str,
    about: &'static str,
    body: &'static str,
    attributes: &'static [Attribute],
    children: &'static [&'static str],
) -> ElementEntry {
    ElementEntry { name, about, body, attributes, children }
}

/// The elements of `<Response>`.
pub(super) const VERBS: &[ElementEntry] = &[
    entry(
        "Say",
        "Speaks a text.",
        "the text, with SSML's elements",
        &[
            a("voice", ValueKind::Voice, "man", "`alice` is the woman; others: man or woman, and language"),
            a("language", ValueKind::Text, "en", "`en`, `en-GB`, `pt-BR`, RestComm's two and three letters"),
            LOOP,
        ],
        SSML,
    ),
    entry(
        "Play",
        "Plays an audio file, or sends digits.",
        "the file's URL: WAV, MP3, FLAC, OGG",
        &[
            LOOP,
            a(
                "digits",
                ValueKind::Tones,
                "",
                "keys to send instead; `w` is half a second, `W` a second of silence",
            ),
        ],
        &[],
    ),
    entry(
        "Pause",
        "Waits. As first verb it lets the caller hear ringing.",
        "",
        &[a("length", whole(0, 3_600), "1", "seconds")],
        &[],
    ),
    entry(
        "Gather",
        "Collects digits or speech, while its children play.",
        "",
        &[
            ACTION_HERE,
            METHOD,
            a(
                "timeout",
                ValueKind::WholeOrAuto { min: 0, max: 3_600 },
                "5",
                "seconds without input, after the prompt or the last key",
            ),
            a(
                "speechTimeout",
                ValueKind::WholeOrAuto { min: 1, max: 3_600 },
                "auto",
                "seconds of silence that end speech",
            ),
            a("maxSpeechTime", whole(1, 3_600), "60", "seconds of speech"),
            a(
                "finishOnKey",
                ValueKind::Keys,
                "#",
                "keys that end the input and are not part of it; empty or -1: none",
            ),
            a("numDigits", whole(1, 256), "", "ends the input at once when so many were entered"),
            a(
                "startInputKey",
                ValueKind::Keys,
                "",
                "keys with which input may begin; those before are ignored",
            ),
            a("input", ValueKind::Words(&["dtmf", "speech"]), "dtmf", "what is listened for"),
            a(
                "partialResultCallback",
                ValueKind::Url,
                "",
                "told what has been recognised so far; its answer is not performed",
            ),
            a("partialResultCallbackMethod", ValueKind::Method, "POST", "of that request"),
            a("language", ValueKind::Text, "en-US", "of the speech"),
            a("hints", ValueKind::Text, "", "phrases to expect, separated by commas"),
            a("bargeIn", ValueKind::Bool, "true", "input stops the prompt"),
            a("actionOnEmptyResult", ValueKind::Bool, "false", "`action` is asked even without input"),
            passed("profanityFilter"),
            passed("debug"),
            passed("speechModel"),
            passed("enhanced"),
        ],
        PROMPT,
    ),
    entry(
        "Record",
        "Records the caller.",
        "",
        &[
            ACTION_HERE,
            METHOD,
            a("timeout", whole(1, 3_600), "5", "seconds of silence that end it"),
            a("finishOnKey", ValueKind::Keys, "1234567890*#", "keys that end it; empty or -1: none"),
            a("maxLength", whole(1, 14_400), "3600", "seconds"),
            a("playBeep", ValueKind::Bool, "true", "a tone before it"),
            TRIM,
            a("transcribe", ValueKind::Bool, "false", "by the configured recogniser"),
            a("transcribeCallback", ValueKind::Url, "", "told the transcription; implies `transcribe`"),
            RECORDING_STATUS,
            RECORDING_STATUS_METHOD,
            RECORDING_EVENTS,
            a("mailbox", ValueKind::Text, "", "our own: the account whose voicemail it is"),
            a("media", ValueKind::OneOf(&["audio_only"]), "audio_only", "there is no video"),
        ],
        &[],
    ),
    entry(
        "Dial",
        "Connects the caller with others: a number, or its children. Several ring at once, and the first that answers is connected.",
        "a number, `sip:` or `client:` address",
        DIAL,
        &["Number", "Client", "Sip", "Uri", "Queue", "Conference"],
    ),
    entry(
        "Enqueue",
        "Lets the caller wait in a queue, until `<Dial><Queue>` takes the call or `<Leave>` in the wait document ends it.",
        "the queue's name",
        &[
            ACTION,
            METHOD,
            a("maxQueueSize", whole(1, 1_000), "", "callers, or the queue's MaxSize; when full: queue-full"),
            a(
                "waitUrl",
                ValueKind::Url,
                "",
                "a document performed, again and again, while waiting; music without it",
            ),
            a("waitUrlMethod", ValueKind::Method, "POST", "of that request"),
            passed("workflowSid"),
        ],
        &[],
    ),
    entry("Leave", "In a wait document: leaves the queue; the verb after `<Enqueue>` follows.", "", &[], &[]),
    entry(
        "Redirect",
        "Goes on with another document.",
        "its URL; the current document's without one",
        &[METHOD_OF_URL],
        &[],
    ),
    entry(
        "Reject",
        "Refuses the call without answering. Only before the first verb that answers.",
        "",
        &[a("reason", ValueKind::OneOf(&["rejected", "busy"]), "rejected", "what the caller is told")],
        &["Parameter"],
    ),
    entry("Hangup", "Ends the call, as the end of the document does.", "", &[], &["Parameter"]),
    entry("Sms", "Sends a message.", "its text", MESSAGE, &[]),
    entry("Message", "The same as `<Sms>`.", "its text", MESSAGE, &["Body"]),
    entry(
        "Email",
        "Sends a mail.",
        "its text",
        &[
            a("to", ValueKind::Required, "", "addresses, separated by commas"),
            a("from", ValueKind::Required, "", "an address"),
            a("cc", ValueKind::Text, "", "addresses, separated by commas"),
            a("bcc", ValueKind::Text, "", "addresses, separated by commas"),
            a("subject", ValueKind::Text, "", ""),
        ],
        &[],
    ),
    entry("Refer", "Hands the call to another address (SIP REFER).", "", &[ACTION, METHOD], &["Sip"]),
    entry("Echo", "Sends the caller's audio back until the caller hangs up.", "", &[], &[]),
    entry("Start", "Begins a stream and goes on.", "", &[passed("action"), passed("method")], &["Stream"]),
    entry("Stop", "Ends a stream.", "", &[], &["Stream"]),
    entry("Connect", "Streams both ways until the stream ends.", "", &[ACTION, METHOD], &["Stream"]),
];

const DIAL: &[Attribute] = &[
    ACTION,
    METHOD,
    a("timeout", whole(1, 600), "30", "seconds of ringing"),
    a("timeLimit", whole(1, 86_400), "14400", "seconds of the connection"),
    a("callerId", ValueKind::Text, "", "shown to the callee; the caller's own without it"),
    a(
        "record",
        ValueKind::OneOf(&[
            "false",
            "true",
            "do-not-record",
            "record-from-answer",
            "record-from-ringing",
            "record-from-answer-dual",
            "record-from-ringing-dual",
        ]),
        "false",
        "`true` is `record-from-answer`; `dual` keeps both sides apart",
    ),
    a("hangupOnStar", ValueKind::Bool, "false", "the caller's `*` ends the connection"),
    a(
        "answerOnBridge",
        ValueKind::Bool,
        "",
        "the call is answered when the callee answers; as configured without it",
    ),
    a("ringTone", ValueKind::Text, "", "two letters of the country whose ringing is heard"),
    TRIM,
    a("recordingTrack", ValueKind::OneOf(&["both", "inbound", "outbound"]), "both", "who is recorded"),
    RECORDING_STATUS,
    RECORDING_STATUS_METHOD,
    RECORDING_EVENTS,
    a("sequential", ValueKind::Bool, "false", "the children ring in turn"),
    a("referUrl", ValueKind::Url, "", "asked when the callee transfers the call"),
    a("referMethod", ValueKind::Method, "POST", "of that request"),
];

/// Attributes of Sms and of its other name, Message.
const MESSAGE: &[Attribute] = &[
    a("to", ValueKind::Text, "", "who called without it"),
    a("from", ValueKind::Text, "", "who was called without it"),
    ACTION,
    METHOD,
    STATUS,
];

/// The elements inside verbs, except those of `Say`.
pub(super) const NOUNS: &[ElementEntry] = &[
    entry(
        "Number",
        "In `<Dial>`.",
        "a number",
        &[
            a("sendDigits", ValueKind::Tones, "", "keys sent once it answers, as `digits` of `<Play>`"),
            SCREEN,
            METHOD_OF_URL,
            STATUS,
            STATUS_METHOD,
            LEG_EVENTS,
            passed("byoc"),
            passed("machineDetection"),
            passed("amdStatusCallback"),
            passed("amdStatusCallbackMethod"),
            passed("machineDetectionTimeout"),
            passed("machineDetectionSpeechThreshold"),
            passed("machineDetectionSpeechEndThreshold"),
            passed("machineDetectionSilenceTimeout"),
        ],
        &[],
    ),
    entry(
        "Client",
        "In `<Dial>`.",
        "an account's name, unless `<Identity>` says it",
        &[SCREEN, METHOD_OF_URL, STATUS, STATUS_METHOD, LEG_EVENTS, NAME],
        &["Identity", "Parameter", "Video"],
    ),
    entry(
        "Sip",
        "In `<Dial>` and `<Refer>`.",
        "a SIP URI; `X-` headers after `?`",
        &[
            a("username", ValueKind::Text, "", "answers a challenge"),
            a("password", ValueKind::Text, "", "answers a challenge"),
            SCREEN,
            METHOD_OF_URL,
            STATUS,
            STATUS_METHOD,
            LEG_EVENTS,
            NAME,
            passed("codecs"),
            passed("machineDetection"),
            passed("amdStatusCallback"),
            passed("amdStatusCallbackMethod"),
            passed("machineDetectionTimeout"),
            passed("machineDetectionSpeechThreshold"),
            passed("machineDetectionSpeechEndThreshold"),
            passed("machineDetectionSilenceTimeout"),
        ],
        &["Video"],
    ),
    entry(
        "Uri",
        "In `<Dial>`.",
        "a SIP URI",
        &[SCREEN, METHOD_OF_URL, STATUS, STATUS_METHOD, LEG_EVENTS],
        &[],
    ),
    entry(
        "Queue",
        "In `<Dial>`: the first caller that waits in it.",
        "the queue's name",
        &[
            a(
                "url",
                ValueKind::Url,
                "",
                "a document performed on the waiting caller's leg before it is connected",
            ),
            METHOD_OF_URL,
            passed("reservationSid"),
            passed("postWorkActivitySid"),
        ],
        &[],
    ),
    entry(
        "Conference",
        "In `<Dial>`.",
        "its name",
        &[
            a("muted", ValueKind::Bool, "false", "only hears"),
            a(
                "beep",
                ValueKind::OneOf(&["true", "false", "onEnter", "onExit"]),
                "true",
                "a tone when a member comes or goes",
            ),
            a("startConferenceOnEnter", ValueKind::Bool, "true", "a moderator: the conference begins"),
            a("endConferenceOnExit", ValueKind::Bool, "false", "the conference ends when this one leaves"),
            a(
                "waitUrl",
                ValueKind::Url,
                "",
                "document or audio until it begins; music without it, silence if empty",
            ),
            a("waitMethod", ValueKind::Method, "POST", "of that request"),
            a("maxParticipants", whole(2, 250), "40", ""),
            a(
                "record",
                ValueKind::OneOf(&["do-not-record", "record-from-start", "true", "false"]),
                "do-not-record",
                "`true` is `record-from-start`",
            ),
            TRIM,
            a("coach", ValueKind::Text, "", "the call that alone hears this one"),
            a("participantLabel", ValueKind::Text, "", "a name for the REST interface"),
            a(
                "statusCallbackEvent",
                ValueKind::Words(&[
                    "start",
                    "end",
                    "join",
                    "leave",
                    "mute",
                    "hold",
                    "modify",
                    "speaker",
                    "announcement",
                ]),
                "start end join leave mute hold",
                "which events",
            ),
            STATUS,
            STATUS_METHOD,
            RECORDING_STATUS,
            RECORDING_STATUS_METHOD,
            RECORDING_EVENTS,
            a("eventCallbackUrl", ValueKind::Url, "", "the older name of `statusCallback`"),
            NAME,
            passed("region"),
            passed("jitterBufferSize"),
        ],
        &["Video"],
    ),
    entry(
        "Stream",
        "In `<Start>`, `<Stop>` and `<Connect>`: audio over a WebSocket.",
        "",
        &[
            a("name", ValueKind::Text, "", "by which `<Stop>` finds it"),
            a("url", ValueKind::Text, "", "`ws:` or `wss:`; needed but in `<Stop>`"),
            a(
                "track",
                ValueKind::OneOf(&["inbound_track", "outbound_track", "both_tracks"]),
                "inbound_track",
                "who is heard",
            ),
            STATUS,
            STATUS_METHOD,
            passed("connectorName"),
        ],
        &["Parameter"],
    ),
    entry(
        "Parameter",
        "In `<Stream>`: told to the other side. Elsewhere without effect.",
        "",
        &[a("name", ValueKind::Text, "", ""), a("value", ValueKind::Text, "", "")],
        &[],
    ),
    entry("Identity", "In `<Client>`.", "an account's name", &[], &[]),
    entry("Body", "In `<Message>`.", "its text", &[], &[]),
    entry(
        "Video",
        "Understood, without effect: there is no video.",
        "",
        &[passed("enable"), passed("mode"), passed("resolution"), passed("layout"), passed("overlay")],
        &[],
    ),
];

/// In `<Say>` and in one another (SSML 1.1 §3), as text and pauses.
pub(super) const SPOKEN: &[ElementEntry] = &[
    entry(
        "break",
        "A pause.",
        "",
        &[
            a(
                "strength",
                ValueKind::OneOf(&["none", "x-weak", "weak", "medium", "strong", "x-strong"]),
                "medium",
                "0, 0, 200, 400, 700 or 1000 ms",
            ),
            a("time", ValueKind::Text, "", "`2s` or `500ms`, at most 10 s"),
        ],
        &[],
    ),
    entry("emphasis", "Its text.", "text", &[passed("level")], SSML),
    entry(
        "lang",
        "Its text in another language.",
        "text",
        &[a("xml:lang", ValueKind::Text, "", "`fr-FR`")],
        SSML,
    ),
    entry("p", "A paragraph: a pause of 700 ms after it.", "text", &[], SSML),
    entry("phoneme", "Its text.", "text", &[passed("alphabet"), passed("ph")], SSML),
    entry("prosody", "Its text.", "text", &[passed("volume"), passed("rate"), passed("pitch")], SSML),
    entry("s", "A sentence: a pause of 400 ms after it.", "text", &[], SSML),
    entry(
        "say-as",
        "Its text in the manner named.",
        "text",
        &[
            a(
                "interpret-as",
                ValueKind::Text,
                "",
                "`characters`, `spell-out`, `digits` and `telephone` are spoken one by one; others as text",
            ),
            passed("role"),
            passed("format"),
        ],
        &[],
    ),
    entry("sub", "Another text instead.", "text", &[a("alias", ValueKind::Text, "", "what is spoken")], &[]),
    entry("w", "Its text.", "text", &[passed("role")], SSML),
];

/// Verbs of RCML and TwiML that a document may hold and this server does not perform.
pub(super) const ELSEWHERE: &[(&str, &str)] = &[
    ("Fax", "needs a fax provider"),
    ("Geolocation", "needs a mobile network's location centre"),
    ("UssdCollect", "needs a mobile network"),
    ("UssdMessage", "needs a mobile network"),
    ("Language", "needs a mobile network"),
    ("Pay", "needs a payment provider"),
    ("Prompt", "belongs to Pay"),
    ("Siprec", "needs a SIPREC connector"),
    ("Recording", "is begun by <Record>, the `record` of <Dial>, or the REST interface"),
    ("Transcription", "needs a transcription provider"),
    ("Room", "needs a video provider"),
    ("VirtualAgent", "needs an agent's provider"),
    ("ConversationRelay", "needs an agent's provider"),
    ("AiSession", "needs an agent's provider"),
    ("Conversation", "needs a conversation's provider"),
    ("Autopilot", "needs an agent's provider"),
    ("Task", "needs a task router"),
];

/// The table of an element by its name, verbs before nouns.
pub(super) fn find(name: &str) -> Option<&'static ElementEntry> {
    [VERBS, NOUNS, SPOKEN].into_iter().flatten().find(|entry| entry.name == name)
}
