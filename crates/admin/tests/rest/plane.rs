//! A node that remembers what it was asked, with a clock that stands and bytes that count up.

use std::collections::HashMap;
use std::io::Cursor;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use admin::chat::{Affiliated, Answer as Told, Ask, Contact, Room, RoomDetails, Session, Text, User};
use admin::control::{
    Audio, CallChange, ConferenceChange, ControlError, ControlPlane, Document, EncodeError, Encoding,
    IdentityVerdict, Participant, ParticipantChange, QueueMember, RecordingChange, Source, StartCall,
    StartRecording,
};
use stdx::Instant;
use stdx::attempts::Cause;
use store::Address;
use store::rest::types::TextMessage;

#[derive(Default)]
pub(crate) struct Plane {
    /// Seconds after `START`.
    pub(crate) clock: AtomicU64,
    drawn: AtomicU64,
    pub(crate) started: Mutex<Vec<StartCall>>,
    /// The requests so far, in words.
    pub(crate) asked: Mutex<Vec<String>>,
    pub(crate) participants: Mutex<Vec<Participant>>,
    pub(crate) members: Mutex<Vec<QueueMember>>,
    /// The answer to the next request.
    pub(crate) refuses: Mutex<Option<ControlError>>,
    /// Account and cause of each failed sign-in.
    pub(crate) failed_sign_ins: Mutex<Vec<(String, &'static str)>>,
    /// Tokens of an identity provider, and the verdicts on them.
    pub(crate) tokens: Mutex<HashMap<String, IdentityVerdict>>,
    /// Accounts with a role at the console.
    pub(crate) privileged: Mutex<Vec<Address>>,
}

/// Sat, 21 Nov 2026 12:37:01 +0000
pub(crate) const START: u64 = 1_795_264_621;

impl Plane {
    fn note(&self, asked: String) -> Result<(), ControlError> {
        self.asked.lock().unwrap().push(asked);
        self.refuses.lock().unwrap().take().map_or(Ok(()), Err)
    }
}

impl Source for Plane {
    fn now(&self) -> Instant {
        Instant::from_unix_seconds(START + self.clock.load(Ordering::Relaxed))
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed) + 1;
        bytes.fill(0);
        let at = bytes.len() - 8;
        bytes[at..].copy_from_slice(&number.to_be_bytes());
    }
}

impl ControlPlane for Plane {
    fn start_call(&self, call: StartCall) -> Result<(), ControlError> {
        let asked = format!("start {}", call.call.to);
        self.started.lock().unwrap().push(call);
        self.note(asked)
    }

    fn modify_call(&self, _: &str, change: CallChange) -> Result<(), ControlError> {
        self.note(format!("{change:?}"))
    }

    fn modify_conference(&self, _: &str, change: ConferenceChange) -> Result<(), ControlError> {
        self.note(format!("{change:?}"))
    }

    fn participants(&self, _: &str) -> Result<Vec<Participant>, ControlError> {
        Ok(self.participants.lock().unwrap().clone())
    }

    fn modify_participant(&self, _: &str, call: &str, change: ParticipantChange) -> Result<(), ControlError> {
        let mut all = self.participants.lock().unwrap();
        if let (Some(mute), Some(one)) = (change.mute, all.iter_mut().find(|one| one.call_sid == call)) {
            one.muted = mute;
        }
        if change.kick {
            all.retain(|one| one.call_sid != call);
        }
        drop(all);
        self.note(format!("{change:?}"))
    }

    fn queue_members(&self, _: &str) -> Result<Vec<QueueMember>, ControlError> {
        self.note("queue members".into())?;
        Ok(self.members.lock().unwrap().clone())
    }

    fn all_queue_members(&self, _: &str) -> Result<Vec<QueueMember>, ControlError> {
        self.note("all queue members".into())?;
        Ok(self.members.lock().unwrap().clone())
    }

    fn dequeue(&self, _: &str, call: Option<&str>, to: Document) -> Result<QueueMember, ControlError> {
        self.note(format!("dequeue to {to:?}"))?;
        let mut members = self.members.lock().unwrap();
        let index = match call {
            None => Some(0).filter(|_| !members.is_empty()),
            Some(call) => members.iter().position(|one| one.call_sid == call),
        };
        index.map(|index| members.remove(index)).ok_or(ControlError::NotFound)
    }

    fn start_recording(&self, call: &str, _: &str, how: &StartRecording) -> Result<(), ControlError> {
        self.note(format!("record {call} {how:?}"))
    }

    fn modify_recording(&self, sid: &str, change: RecordingChange) -> Result<(), ControlError> {
        self.note(format!("recording {sid} {change:?}"))
    }

    fn recording(&self, sid: &str, node: &str) -> Result<Audio, EncodeError> {
        // Longer than a piece.
        let sound = vec![b'~'; 100_000];
        let audio =
            || Audio { media_type: "audio/x-wav", length: 100_000, read: Box::new(Cursor::new(sound)) };
        match node {
            "away" => Err(EncodeError::Away),
            _ => sid.starts_with("RE").then(audio).ok_or(EncodeError::NotFound),
        }
    }

    fn recording_as_mp3(&self, sid: &str, _: &str) -> Encoding {
        let result = match sid {
            "RE1" => Err(EncodeError::NoEncoder),
            "RE3" => Err(EncodeError::Busy),
            "RE4" => Err(EncodeError::Failed),
            "RE5" => Err(EncodeError::NotFound),
            _ => Ok(Audio { media_type: "audio/mpeg", length: 3, read: Box::new(Cursor::new(b"ID3")) }),
        };
        Box::pin(std::future::ready(result))
    }

    fn remove_recording(&self, sid: &str, node: &str) -> Result<(), EncodeError> {
        if node == "away" {
            return Err(EncodeError::Away);
        }
        self.note(format!("remove {sid}")).map_err(|_| EncodeError::Busy)
    }

    fn sign_in_failed(&self, _: IpAddr, account: &str, cause: Cause) {
        self.failed_sign_ins.lock().unwrap().push((account.to_owned(), cause.name()));
    }

    fn check_identity_token(&self, token: &str) -> IdentityVerdict {
        self.tokens.lock().unwrap().get(token).cloned().unwrap_or(IdentityVerdict::NoSource)
    }

    fn identity_signed_in(&self, _: IpAddr, account: &str, user: &Address) {
        self.asked.lock().unwrap().push(format!("{account} signed in by {user}"));
    }

    fn is_privileged(&self, account: &Address) -> bool {
        self.privileged.lock().unwrap().contains(account)
    }

    fn key_changed(&self, account: &str, action: &'static str, key: &str) {
        self.asked.lock().unwrap().push(format!("{account} {action} {key}"));
    }

    fn chat(&self, ask: Ask) -> Result<Told, ControlError> {
        self.note(format!("{ask:?}"))?;
        Ok(match ask {
            Ask::Sessions { .. } => {
                let session =
                    Session { address: "alice@a.org/desk".into(), priority: Some(5), ..Session::default() };
                Told::Sessions { sessions: vec![session], total: 1, connections: Vec::new() }
            }
            Ask::End { .. } | Ask::Announce { .. } => Told::Count(2),
            Ask::Motd { .. } => Told::Motd(Some(Text { subject: String::new(), body: "Hello".into() })),
            Ask::Rooms { .. } => {
                let tea = Room { address: "tea@conference.a.org".into(), occupants: 3, ..Room::default() };
                Told::Rooms(vec![tea])
            }
            Ask::Room { room } => {
                let one = Affiliated {
                    user: "alice@a.org".into(),
                    affiliation: "owner".into(),
                    ..Affiliated::default()
                };
                let config = vec![("roomname".into(), "Tea".into()), ("persistentroom".into(), "1".into())];
                let room =
                    RoomDetails { address: room, config, affiliations: vec![one], ..RoomDetails::default() };
                Told::Room(Box::new(room))
            }
            Ask::User { user } => Told::User(User { address: user, contacts: 7, ..User::default() }),
            Ask::Roster { .. } => {
                let groups = vec!["a".into(), "b".into()];
                Told::Roster(vec![Contact { address: "bob@a.org".into(), groups, ..Contact::default() }])
            }
            _ => Told::Done,
        })
    }

    fn send_message(&self, message: &TextMessage, _: &str) -> Result<(), ControlError> {
        self.note(format!("send {} to {}", message.body, message.to))
    }
}
