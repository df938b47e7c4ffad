//! The values of messages between a conference or queue and its members as numbered fields.
//!
//! A number of an enumeration that is not known here comes from a later version: each function says what it becomes.

use std::sync::Arc;

use ::voice::Owner;
use ::voice::record::Pause;
use ::voice::room_message::{
    ConferenceRecording, Join, LeaveReason, MemberAudio, MemberStatus, QueuePosition, RoomTarget,
};
use cluster::fields::{Corrupt, put_bytes, put_number};
use ivr::document::{Beep, Callback, Conference};
use ivr::request::{Method, Target};
use ivr::script::Start;
use stdx::Instant;

use super::values::{
    absent, at_place, fields, flag, instant, place_of, put_flag, put_instant, put_text, put_value, required,
    text,
};

/// The events of a conference's status callback, by their number on the wire; a new one goes to the end. One that is not known is left out.
pub(super) const ROOM_CALLBACKS: [&str; 9] =
    ["start", "end", "join", "leave", "mute", "hold", "modify", "speaker", "announcement"];
/// The events of a recording's status callback, as those of a conference.
pub(super) const RECORDING_CALLBACKS: [&str; 3] = ["in-progress", "completed", "absent"];
/// By their number on the wire; a new one goes to the end, and is read as `Silence`.
pub(super) const PAUSES: [Pause; 2] = [Pause::Silence, Pause::Skip];
/// By their number on the wire; a new one goes to the end, and is read as `Never`.
pub(super) const BEEPS: [Beep; 4] = [Beep::Never, Beep::Both, Beep::OnEnter, Beep::OnExit];
/// By their number on the wire; another one is read as `Post`.
pub(super) const METHODS: [Method; 2] = [Method::Post, Method::Get];

// Kinds of rooms that a member joins; 0 is none.
const CONFERENCE: u64 = 1;
const QUEUE: u64 = 2;
const FIRST: u64 = 3;

// Reasons to be in no room; 0 is none.
const REFUSED: u64 = 1;
const FULL: u64 = 2;
const OVER: u64 = 3;
const REDIRECTED: u64 = 4;

// The sound of a member; 0 is none.
const WAIT: u64 = 1;
const ROOM: u64 = 2;
const HOLD: u64 = 3;

pub(super) fn put_target(out: &mut Vec<u8>, target: &Target) {
    put_text(out, 1, &target.url);
    put_number(out, 2, place_of(&METHODS, &target.method));
}

pub(super) fn read_target(bytes: &[u8]) -> Result<Target, Corrupt> {
    let (mut url, mut method) = (Box::default(), Method::Post);
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => url = text(&field)?,
            2 => method = at_place(&METHODS, field.value()?).unwrap_or_default(),
            _ => {}
        }
    }
    Ok(Target { url: url.into(), method })
}

/// `known`: the events of such a callback, by their number on the wire.
fn put_callback(out: &mut Vec<u8>, callback: &Callback, known: &[&'static str]) {
    put_value(out, 1, |out| put_target(out, &callback.target));
    for event in &callback.events {
        put_number(out, 2, place_of(known, event));
    }
}

fn read_callback(bytes: &[u8], known: &[&'static str]) -> Result<Callback, Corrupt> {
    let (mut target, mut events) = (None, Vec::new());
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => target = Some(read_target(field.bytes)?),
            2 => events.extend(at_place(known, field.value()?)),
            _ => {}
        }
    }
    Ok(Callback { target: target.ok_or(absent("a callback has no URL"))?, events })
}

pub(super) fn put_recording(out: &mut Vec<u8>, recording: &ConferenceRecording) {
    put_flag(out, 1, recording.trim);
    if let Some(status) = &recording.status {
        put_value(out, 2, |out| put_callback(out, status, &RECORDING_CALLBACKS));
    }
    if let Some(pause) = &recording.pause {
        put_number(out, 3, 1 + place_of(&PAUSES, pause));
    }
    put_flag(out, 4, recording.is_stopped);
}

/// A pause of a kind that a later version has added is silence.
pub(super) fn read_recording(bytes: &[u8]) -> Result<ConferenceRecording, Corrupt> {
    let mut recording = ConferenceRecording { trim: false, status: None, pause: None, is_stopped: false };
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => recording.trim = flag(&field)?,
            2 => recording.status = Some(read_callback(field.bytes, &RECORDING_CALLBACKS)?),
            3 => {
                let number: u64 = field.value()?;
                let pause = number.checked_sub(1).map(|place| at_place(&PAUSES, place));
                recording.pause = pause.map(|pause| pause.unwrap_or(Pause::Silence));
            }
            4 => recording.is_stopped = flag(&field)?,
            _ => {}
        }
    }
    Ok(recording)
}

pub(super) fn put_join(out: &mut Vec<u8>, join: &Join) {
    let Join { number, call_sid, owner, place, again } = join;
    put_number(out, 1, *number);
    put_text(out, 2, call_sid);
    put_text(out, 3, &owner.account);
    put_text(out, 4, &owner.signing_key);
    match place {
        RoomTarget::Conference(conference) => {
            put_number(out, 5, CONFERENCE);
            put_conference(out, conference);
        }
        RoomTarget::Queue { name, max_size } => {
            put_number(out, 5, QUEUE);
            put_text(out, 6, name);
            put_number(out, 7, u64::from(*max_size));
        }
        RoomTarget::First { queue, document } => {
            put_number(out, 5, FIRST);
            put_text(out, 6, queue);
            if let Some(document) = document {
                put_value(out, 18, |out| put_target(out, document));
            }
        }
    }
    if let Some(again) = again {
        put_value(out, 17, |out| put_status(out, *number, again));
    }
}

/// The fields of a conference that its home needs, among those of the Join.
fn put_conference(out: &mut Vec<u8>, conference: &Conference) {
    put_text(out, 6, &conference.name);
    put_number(out, 7, u64::from(conference.max_participants));
    put_flag(out, 8, conference.muted);
    put_number(out, 9, place_of(&BEEPS, &conference.beep));
    put_flag(out, 10, conference.start_on_enter);
    put_flag(out, 11, conference.end_on_exit);
    put_flag(out, 12, conference.record);
    if let Some(coach) = &conference.coach {
        put_bytes(out, 13, coach.as_bytes());
    }
    if let Some(label) = &conference.label {
        put_bytes(out, 14, label.as_bytes());
    }
    if let Some(status) = &conference.status {
        put_value(out, 15, |out| put_callback(out, status, &ROOM_CALLBACKS));
    }
}

/// A conference before its fields are read.
fn no_conference() -> Conference {
    Conference {
        name: String::new(),
        muted: false,
        beep: Beep::Never,
        start_on_enter: false,
        end_on_exit: false,
        wait: None,
        max_participants: 0,
        record: false,
        trim: false,
        coach: None,
        label: None,
        status: None,
        recording_status: None,
    }
}

/// None: the room is of a kind that a later version has added.
pub(super) fn read_join(bytes: &[u8]) -> Result<Option<Join>, Corrupt> {
    let (mut number, mut call_sid, mut account, mut signing_key) = (None, None, None, Box::default());
    let (mut kind, mut name, mut most, mut again) = (0, Box::default(), 0, None);
    let (mut conference, mut document) = (no_conference(), None);
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => number = Some(field.value()?),
            2 => call_sid = Some(text(&field)?),
            3 => account = Some(text(&field)?),
            4 => signing_key = text(&field)?,
            5 => kind = field.value()?,
            6 => name = text(&field)?,
            7 => most = field.value()?,
            8 => conference.muted = flag(&field)?,
            9 => conference.beep = at_place(&BEEPS, field.value()?).unwrap_or(Beep::Never),
            10 => conference.start_on_enter = flag(&field)?,
            11 => conference.end_on_exit = flag(&field)?,
            12 => conference.record = flag(&field)?,
            13 => conference.coach = Some(text(&field)?.into()),
            14 => conference.label = Some(text(&field)?.into()),
            15 => conference.status = Some(read_callback(field.bytes, &ROOM_CALLBACKS)?),
            18 => document = Some(read_target(field.bytes)?),
            17 => again = Some(Box::new(read_status(field.bytes)?.1)),
            _ => {}
        }
    }
    let place = match kind {
        CONFERENCE => {
            (conference.name, conference.max_participants) = (name.into(), most);
            RoomTarget::Conference(Box::new(conference))
        }
        QUEUE => RoomTarget::Queue { name, max_size: most },
        FIRST => RoomTarget::First { queue: name, document },
        _ => return Ok(None),
    };
    let account = required(account, "a member of a room has no account")?;
    Ok(Some(Join {
        number: number.ok_or(absent("a member of a room has no number"))?,
        call_sid: Arc::from(required(call_sid, "a member of a room has no call")?),
        owner: Arc::new(Owner { account, signing_key }),
        place,
        again,
    }))
}

pub(super) fn put_status(out: &mut Vec<u8>, number: u64, status: &MemberStatus) {
    put_number(out, 1, number);
    put_text(out, 2, &status.sid);
    match &status.hears {
        MemberAudio::Wait => put_number(out, 3, WAIT),
        MemberAudio::Room => put_number(out, 3, ROOM),
        MemberAudio::Hold(target) => {
            put_number(out, 3, HOLD);
            if let Some(target) = target {
                put_value(out, 4, |out| put_target(out, target));
            }
        }
    }
    if let Some(QueuePosition { position, size, average_seconds, since }) = status.line {
        put_value(out, 5, |out| {
            put_number(out, 1, position as u64);
            put_number(out, 2, size as u64);
            put_number(out, 3, average_seconds);
            put_instant(out, 4, since);
        });
    }
    if let Some(with) = &status.with {
        put_text(out, 6, with);
    }
    put_flag(out, 7, status.records);
    if let Some(recording) = &status.recording {
        put_value(out, 15, |out| put_recording(out, recording));
    }
    put_flag(out, 8, status.is_muted);
    put_flag(out, 9, status.end_on_exit);
    put_instant(out, 10, status.joined_at);
    put_instant(out, 11, status.created_at);
    put_number(out, 12, u64::from(status.sequence));
    if let Some(target) = &status.held {
        put_flag(out, 13, true);
        if let Some(target) = target {
            put_value(out, 14, |out| put_target(out, target));
        }
    }
}

/// Sound of a kind that a later version has added is that of the room.
pub(super) fn read_status(bytes: &[u8]) -> Result<(u64, MemberStatus), Corrupt> {
    let (mut number, mut sid, mut hears, mut hold) = (None, None, 0, None);
    let (mut line, mut with) = (None, None);
    let (mut records, mut is_muted, mut end_on_exit) = (false, false, false);
    let (mut joined_at, mut created_at, mut sequence) = (Instant::default(), Instant::default(), 0);
    let (mut is_held, mut held, mut recording) = (false, None, None);
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => number = Some(field.value()?),
            2 => sid = Some(text(&field)?),
            3 => hears = field.value()?,
            4 => hold = Some(read_target(field.bytes)?),
            5 => line = Some(read_line(field.bytes)?),
            6 => with = Some(text(&field)?).filter(|with| !with.is_empty()),
            7 => records = flag(&field)?,
            8 => is_muted = flag(&field)?,
            9 => end_on_exit = flag(&field)?,
            10 => joined_at = instant(&field)?,
            11 => created_at = instant(&field)?,
            12 => sequence = field.value()?,
            13 => is_held = flag(&field)?,
            14 => held = Some(read_target(field.bytes)?),
            15 => recording = Some(Box::new(read_recording(field.bytes)?)),
            _ => {}
        }
    }
    let hears = match hears {
        WAIT => MemberAudio::Wait,
        HOLD => MemberAudio::Hold(hold),
        _ => MemberAudio::Room,
    };
    let status = MemberStatus {
        sid: Arc::from(required(sid, "the status of a member has no sid")?),
        hears,
        line,
        with: with.map(Arc::from),
        records,
        recording,
        is_muted,
        held: is_held.then_some(held),
        end_on_exit,
        joined_at,
        created_at,
        sequence,
    };
    Ok((number.ok_or(absent("the status of a member has no number"))?, status))
}

fn read_line(bytes: &[u8]) -> Result<QueuePosition, Corrupt> {
    let mut line = QueuePosition { position: 0, size: 0, average_seconds: 0, since: Instant::default() };
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => line.position = field.value()?,
            2 => line.size = field.value()?,
            3 => line.average_seconds = field.value()?,
            4 => line.since = instant(&field)?,
            _ => {}
        }
    }
    Ok(line)
}

pub(super) fn put_reason(out: &mut Vec<u8>, reason: &LeaveReason) {
    match reason {
        LeaveReason::Refused(reason) => {
            put_number(out, 1, REFUSED);
            put_text(out, 2, reason);
        }
        LeaveReason::Full => put_number(out, 1, FULL),
        LeaveReason::Over => put_number(out, 1, OVER),
        LeaveReason::Redirected(to) => {
            put_number(out, 1, REDIRECTED);
            match to {
                Start::Url(target) => put_value(out, 3, |out| put_target(out, target)),
                Start::Document(document) => put_bytes(out, 4, document),
            }
        }
    }
}

/// None: it is one that a later version has added.
pub(super) fn read_reason(bytes: &[u8]) -> Result<Option<LeaveReason>, Corrupt> {
    let (mut kind, mut reason, mut to) = (0, Box::default(), None);
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => kind = field.value()?,
            2 => reason = text(&field)?,
            3 => to = Some(Start::Url(read_target(field.bytes)?)),
            4 => to = Some(Start::Document(field.bytes.to_vec())),
            _ => {}
        }
    }
    Ok(match kind {
        REFUSED => Some(LeaveReason::Refused(reason.into())),
        FULL => Some(LeaveReason::Full),
        OVER => Some(LeaveReason::Over),
        REDIRECTED => Some(LeaveReason::Redirected(to.ok_or(absent("a member is led to no document"))?)),
        _ => None,
    })
}
