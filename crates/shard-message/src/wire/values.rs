//! The values of questions, answers and pushes as numbered fields, one type after the other as in `router::interface`.
//!
//! A field that occurs several times is a list. A text that is empty and a flag that is false are not written. A number of an
//! enumeration that is not known here comes from a later version: each function says what it becomes.

use std::net::SocketAddr;
use std::sync::Arc;

use cluster::fields::{Corrupt, Field, Fields, put_bytes, put_number};
use cluster::limits::MESSAGE_BYTES;
use router::{
    Admission, AdmitRefused, Binding, CallInfo, CallPhase, Change, Chat, Contact, FlowId, KeepRefused, Life,
    Offer, Offered, Presence, Publish, PublishRefused, Published, Received, Register, RegisterRefused,
    ShardAddress, Show, State, Topic, Transport,
};
use stdx::Instant;

use super::address::{address_of, put_address};
pub(super) use super::waiting::{put_waiting, read_waiting};

/// The name of all values in faults.
pub(super) const THING: &str = "message of a node";

pub(super) const TRANSPORTS: [Transport; 5] =
    [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Ws, Transport::Wss];
pub(super) const TOPICS: [Topic; 4] =
    [Topic::Presence, Topic::Dialog, Topic::MessageSummary, Topic::Registration];
pub(super) const PHASES: [CallPhase; 4] =
    [CallPhase::Trying, CallPhase::Early, CallPhase::Confirmed, CallPhase::Terminated];
pub(super) const SHOWS: [Show; 4] = [Show::Available, Show::Away, Show::Dnd, Show::Xa];
pub(super) const OFFERED: [Offered; 6] = [
    Offered::Delivered,
    Offered::Kept,
    Offered::NoClient,
    Offered::Unsupported,
    Offered::Refused,
    Offered::Busy,
];
pub(super) const REGISTER_REFUSED: [RegisterRefused; 3] =
    [RegisterRefused::OutOfOrder, RegisterRefused::TooManyContacts, RegisterRefused::StoreFailed];
pub(super) const PUBLISH_REFUSED: [PublishRefused; 2] =
    [PublishRefused::ConditionalRequestFailed, PublishRefused::TooMany];
pub(super) const KEEP_REFUSED: [KeepRefused; 3] =
    [KeepRefused::TooMany, KeepRefused::TooLarge, KeepRefused::StoreFailed];
pub(super) const ADMIT_REFUSED: [AdmitRefused; 2] = [AdmitRefused::TooManyCalls, AdmitRefused::TooFast];

/// The number of a value: its place in the list, which only grows at its end.
pub(super) fn place_of<T: PartialEq>(all: &[T], value: &T) -> u64 {
    let place = all.iter().position(|known| known == value);
    place.expect("a list has every value; the tests send each") as u64
}

/// The value of a number; none for one of a later version.
pub(super) fn at_place<T: Copy>(all: &[T], place: u64) -> Option<T> {
    usize::try_from(place).ok().and_then(|place| all.get(place).copied())
}

pub(super) fn absent(fault: &'static str) -> Corrupt {
    Corrupt { thing: THING, fault }
}

/// A text that may not be empty.
pub(super) fn required(text: Option<Box<str>>, fault: &'static str) -> Result<Box<str>, Corrupt> {
    text.filter(|text| !text.is_empty()).ok_or(absent(fault))
}

pub(super) fn fields(bytes: &[u8]) -> Result<Fields<'_>, Corrupt> {
    Fields::new(THING, bytes, MESSAGE_BYTES)
}

pub(super) fn text(field: &Field<'_>) -> Result<Box<str>, Corrupt> {
    field.text(MESSAGE_BYTES)
}

pub(super) fn instant(field: &Field<'_>) -> Result<Instant, Corrupt> {
    field.value().map(Instant::from_micros)
}

pub(super) fn flag(field: &Field<'_>) -> Result<bool, Corrupt> {
    field.value::<u64>().map(|value| value != 0)
}

pub(super) fn put_text(out: &mut Vec<u8>, number: u64, text: &str) {
    if !text.is_empty() {
        put_bytes(out, number, text.as_bytes());
    }
}

pub(super) fn put_flag(out: &mut Vec<u8>, number: u64, flag: bool) {
    if flag {
        put_number(out, number, 1);
    }
}

pub(super) fn put_instant(out: &mut Vec<u8>, number: u64, instant: Instant) {
    put_number(out, number, instant.as_micros());
}

/// A field that has fields of its own.
pub(super) fn put_value(out: &mut Vec<u8>, number: u64, put: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    put(&mut bytes);
    put_bytes(out, number, &bytes);
}

pub(super) fn put_contact(out: &mut Vec<u8>, contact: &Contact) {
    let Contact { uri, q, expires, instance, reg_id, path, user_agent, received } = contact;
    put_text(out, 1, uri);
    put_number(out, 2, u64::from(*q));
    put_number(out, 3, u64::from(*expires));
    put_text(out, 4, instance);
    put_number(out, 5, u64::from(*reg_id));
    put_text(out, 6, path);
    put_text(out, 7, user_agent);
    if let Some(received) = received {
        put_value(out, 8, |out| put_received(out, received));
    }
}

pub(super) fn read_contact(bytes: &[u8]) -> Result<Contact, Corrupt> {
    let mut contact = Contact {
        uri: "".into(),
        q: 1_000,
        expires: 0,
        instance: "".into(),
        reg_id: 0,
        path: "".into(),
        user_agent: "".into(),
        received: None,
    };
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => contact.uri = text(&field)?,
            2 => contact.q = field.value()?,
            3 => contact.expires = field.value()?,
            4 => contact.instance = text(&field)?,
            5 => contact.reg_id = field.value()?,
            6 => contact.path = text(&field)?,
            7 => contact.user_agent = text(&field)?,
            8 => contact.received = Some(read_received(field.bytes)?),
            _ => {}
        }
    }
    if contact.uri.is_empty() { Err(absent("a contact has no URI")) } else { Ok(contact) }
}

fn put_received(out: &mut Vec<u8>, received: &Received) {
    let Received { transport, local, remote, flow } = received;
    put_number(out, 1, place_of(&TRANSPORTS, transport));
    put_address(out, 2, *local);
    put_address(out, 3, *remote);
    if let Some(FlowId { edge, number }) = flow {
        put_number(out, 4, u64::from(edge.life.0));
        put_number(out, 5, u64::from(edge.shard));
        put_number(out, 6, *number);
    }
}

fn read_received(bytes: &[u8]) -> Result<Received, Corrupt> {
    let (mut transport, mut local, mut remote) = (None, None, None);
    let (mut life, mut shard, mut number) = (None, 0, 0);
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => transport = at_place(&TRANSPORTS, field.value()?),
            2 => local = Some(address_of(&field)?),
            3 => remote = Some(address_of(&field)?),
            4 => life = Some(Life(field.value()?)),
            5 => shard = field.value()?,
            6 => number = field.value()?,
            _ => {}
        }
    }
    let present =
        |address: Option<SocketAddr>| address.ok_or(absent("the source of a contact has no address"));
    Ok(Received {
        transport: transport.ok_or(absent("the source of a contact has no transport"))?,
        local: present(local)?,
        remote: present(remote)?,
        flow: life.map(|life| FlowId { edge: ShardAddress::new(life, shard), number }),
    })
}

pub(super) fn put_binding(out: &mut Vec<u8>, binding: &Binding) {
    let Binding { contact, expires_at, call_id, cseq } = binding;
    put_value(out, 1, |out| put_contact(out, contact));
    put_instant(out, 2, *expires_at);
    put_text(out, 3, call_id);
    put_number(out, 4, u64::from(*cseq));
}

pub(super) fn read_binding(bytes: &[u8]) -> Result<Binding, Corrupt> {
    let (mut contact, mut expires_at, mut call_id, mut cseq) = (None, None, Box::default(), 0);
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => contact = Some(read_contact(field.bytes)?),
            2 => expires_at = Some(instant(&field)?),
            3 => call_id = text(&field)?,
            4 => cseq = field.value()?,
            _ => {}
        }
    }
    let contact = contact.ok_or(absent("a binding has no contact"))?;
    let expires_at = expires_at.ok_or(absent("a binding has no end"))?;
    Ok(Binding { contact, expires_at, call_id, cseq })
}

/// The change is a field of its own, so that a REGISTER without contacts differs from one that removes all.
pub(super) fn put_register(out: &mut Vec<u8>, register: &Register) {
    let Register { aor, call_id, cseq, change, max_contacts } = register;
    put_text(out, 1, aor);
    put_text(out, 2, call_id);
    put_number(out, 3, u64::from(*cseq));
    match change {
        Change::None => put_number(out, 4, 0),
        Change::RemoveAll => put_number(out, 4, 1),
        Change::Update(contacts) => {
            put_number(out, 4, 2);
            contacts.iter().for_each(|contact| put_value(out, 5, |out| put_contact(out, contact)));
        }
    }
    put_number(out, 6, *max_contacts as u64);
}

/// None: the change is of a kind that a later version has added.
pub(super) fn read_register(bytes: &[u8]) -> Result<Option<Register>, Corrupt> {
    let (mut aor, mut call_id, mut cseq) = (None, Box::default(), 0);
    let (mut kind, mut contacts, mut max_contacts) = (None, Vec::new(), 0);
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => aor = Some(text(&field)?),
            2 => call_id = text(&field)?,
            3 => cseq = field.value()?,
            4 => kind = Some(field.value::<u64>()?),
            5 => contacts.push(read_contact(field.bytes)?),
            6 => max_contacts = field.value()?,
            _ => {}
        }
    }
    let change = match kind.ok_or(absent("a REGISTER has no change"))? {
        0 => Change::None,
        1 => Change::RemoveAll,
        2 => Change::Update(contacts),
        _ => return Ok(None),
    };
    let aor = required(aor, "a REGISTER has no address")?;
    Ok(Some(Register { aor, call_id, cseq, change, max_contacts }))
}

pub(super) fn put_publish(out: &mut Vec<u8>, publish: &Publish) {
    let Publish { aor, etag, document, expires } = publish;
    put_text(out, 1, aor);
    if let Some(etag) = etag {
        put_bytes(out, 2, etag.as_bytes());
    }
    if let Some(document) = document {
        put_bytes(out, 3, document);
    }
    put_number(out, 4, u64::from(*expires));
}

pub(super) fn read_publish(bytes: &[u8]) -> Result<Publish, Corrupt> {
    let (mut aor, mut etag, mut document, mut expires) = (None, None, None, 0);
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => aor = Some(text(&field)?),
            2 => etag = Some(text(&field)?),
            3 => document = Some(Arc::from(field.bytes)),
            4 => expires = field.value()?,
            _ => {}
        }
    }
    let aor = required(aor, "a PUBLISH has no address")?;
    Ok(Publish { aor, etag, document, expires })
}

pub(super) fn put_published(out: &mut Vec<u8>, published: &Result<Published, PublishRefused>) {
    match published {
        Ok(Published { etag, expires }) => {
            put_bytes(out, 1, etag.as_bytes());
            put_number(out, 2, u64::from(*expires));
        }
        Err(refused) => put_number(out, 3, place_of(&PUBLISH_REFUSED, refused)),
    }
}

/// A reason of a later version is the last one known here.
pub(super) fn read_published(bytes: &[u8]) -> Result<Result<Published, PublishRefused>, Corrupt> {
    let (mut etag, mut expires, mut refused) = (None, 0, None);
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => etag = Some(text(&field)?),
            2 => expires = field.value()?,
            3 => {
                refused = Some(at_place(&PUBLISH_REFUSED, field.value()?).unwrap_or(PublishRefused::TooMany));
            }
            _ => {}
        }
    }
    match refused {
        Some(refused) => Ok(Err(refused)),
        None => Ok(Ok(Published { etag: etag.ok_or(absent("a publication has no entity tag"))?, expires })),
    }
}

pub(super) fn put_registered(out: &mut Vec<u8>, registered: &Result<Vec<Binding>, RegisterRefused>) {
    match registered {
        Ok(bindings) => put_bindings(out, bindings),
        Err(refused) => put_number(out, 2, place_of(&REGISTER_REFUSED, refused)),
    }
}

/// A reason of a later version becomes `StoreFailed`, for which phones try again.
pub(super) fn read_registered(bytes: &[u8]) -> Result<Result<Vec<Binding>, RegisterRefused>, Corrupt> {
    let (mut bindings, mut refused) = (Vec::new(), None);
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => bindings.push(read_binding(field.bytes)?),
            2 => {
                let known = at_place(&REGISTER_REFUSED, field.value()?);
                refused = Some(known.unwrap_or(RegisterRefused::StoreFailed));
            }
            _ => {}
        }
    }
    Ok(refused.map_or(Ok(bindings), Err))
}

/// Each in a field 1.
pub(super) fn put_bindings(out: &mut Vec<u8>, bindings: &[Binding]) {
    bindings.iter().for_each(|binding| put_value(out, 1, |out| put_binding(out, binding)));
}

pub(super) fn read_bindings(bytes: &[u8]) -> Result<Vec<Binding>, Corrupt> {
    read_list(bytes, read_binding)
}

/// The values of all fields 1.
fn read_list<T>(bytes: &[u8], read: impl Fn(&[u8]) -> Result<T, Corrupt>) -> Result<Vec<T>, Corrupt> {
    let mut list = Vec::new();
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        if field.number == 1 {
            list.push(read(field.bytes)?);
        }
    }
    Ok(list)
}

pub(super) fn put_admission(out: &mut Vec<u8>, admission: &Admission) {
    let Admission { aor, call_id, caller_tag, initiator, max_calls, max_rate } = admission;
    put_text(out, 1, aor);
    put_text(out, 2, call_id);
    put_text(out, 3, caller_tag);
    put_flag(out, 4, *initiator);
    for (number, most) in [(5, max_calls), (6, max_rate)] {
        if let Some(most) = most {
            put_number(out, number, u64::from(*most));
        }
    }
}

pub(super) fn read_admission(bytes: &[u8]) -> Result<Admission, Corrupt> {
    let mut admission = Admission {
        aor: "".into(),
        call_id: "".into(),
        caller_tag: "".into(),
        initiator: false,
        max_calls: None,
        max_rate: None,
    };
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => admission.aor = text(&field)?,
            2 => admission.call_id = text(&field)?,
            3 => admission.caller_tag = text(&field)?,
            4 => admission.initiator = flag(&field)?,
            5 => admission.max_calls = Some(field.value()?),
            6 => admission.max_rate = Some(field.value()?),
            _ => {}
        }
    }
    if admission.aor.is_empty() { Err(absent("a call has no address")) } else { Ok(admission) }
}

/// Nothing for an admission, a number for a refusal.
pub(super) fn put_admitted(out: &mut Vec<u8>, admitted: &Result<(), AdmitRefused>) {
    if let Err(refused) = admitted {
        put_number(out, 1, place_of(&ADMIT_REFUSED, refused));
    }
}

/// A reason of a later version becomes `TooManyCalls`.
pub(super) fn read_admitted(bytes: &[u8]) -> Result<Result<(), AdmitRefused>, Corrupt> {
    let place = read_number(bytes)?;
    Ok(place
        .map_or(Ok(()), |place| Err(at_place(&ADMIT_REFUSED, place).unwrap_or(AdmitRefused::TooManyCalls))))
}

pub(super) fn put_kept(out: &mut Vec<u8>, kept: &Result<(), KeepRefused>) {
    if let Err(refused) = kept {
        put_number(out, 1, place_of(&KEEP_REFUSED, refused));
    }
}

/// A reason of a later version becomes `StoreFailed`.
pub(super) fn read_kept(bytes: &[u8]) -> Result<Result<(), KeepRefused>, Corrupt> {
    let place = read_number(bytes)?;
    Ok(place.map_or(Ok(()), |place| Err(at_place(&KEEP_REFUSED, place).unwrap_or(KeepRefused::StoreFailed))))
}

pub(super) fn put_offered(out: &mut Vec<u8>, offered: Offered) {
    put_number(out, 1, place_of(&OFFERED, &offered));
}

/// A result of a later version becomes `Busy`: the sender may try again.
pub(super) fn read_offered(bytes: &[u8]) -> Result<Offered, Corrupt> {
    let place = read_number(bytes)?.ok_or(absent("an offer has no result"))?;
    Ok(at_place(&OFFERED, place).unwrap_or(Offered::Busy))
}

/// The number in the last field 1.
fn read_number(bytes: &[u8]) -> Result<Option<u64>, Corrupt> {
    let mut number = None;
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        if field.number == 1 {
            number = Some(field.value()?);
        }
    }
    Ok(number)
}

pub(super) fn put_offer(out: &mut Vec<u8>, offer: &Offer) {
    let Offer { message, sender, has_phones } = offer;
    put_value(out, 1, |out| put_waiting(out, message));
    if let Some(sender) = sender {
        put_bytes(out, 2, sender.as_bytes());
    }
    put_flag(out, 3, *has_phones);
}

pub(super) fn read_offer(bytes: &[u8]) -> Result<Offer, Corrupt> {
    let (mut message, mut sender, mut has_phones) = (None, None, false);
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => message = Some(read_waiting(field.bytes)?),
            2 => sender = Some(text(&field)?),
            3 => has_phones = flag(&field)?,
            _ => {}
        }
    }
    Ok(Offer { message: message.ok_or(absent("an offer has no message"))?, sender, has_phones })
}

pub(super) fn put_call(out: &mut Vec<u8>, call: &CallInfo) {
    let CallInfo { call_id, local_tag, remote_tag, initiator, remote, phase } = call;
    put_text(out, 1, call_id);
    put_text(out, 2, local_tag);
    put_text(out, 3, remote_tag);
    put_flag(out, 4, *initiator);
    put_text(out, 5, remote);
    put_number(out, 6, place_of(&PHASES, phase));
}

/// A phase of a later version is early: the call is neither up nor over.
pub(super) fn read_call(bytes: &[u8]) -> Result<CallInfo, Corrupt> {
    let mut call = CallInfo {
        call_id: "".into(),
        local_tag: "".into(),
        remote_tag: "".into(),
        initiator: false,
        remote: "".into(),
        phase: CallPhase::Trying,
    };
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => call.call_id = text(&field)?,
            2 => call.local_tag = text(&field)?,
            3 => call.remote_tag = text(&field)?,
            4 => call.initiator = flag(&field)?,
            5 => call.remote = text(&field)?,
            6 => call.phase = at_place(&PHASES, field.value()?).unwrap_or(CallPhase::Early),
            _ => {}
        }
    }
    if call.call_id.is_empty() { Err(absent("a call has no Call-ID")) } else { Ok(call) }
}

pub(super) fn put_chat(out: &mut Vec<u8>, chat: &Chat) {
    let Chat { show, note } = chat;
    put_number(out, 1, place_of(&SHOWS, show));
    put_text(out, 2, note);
}

/// An availability of a later version is `Available`: the client is there.
pub(super) fn read_chat(bytes: &[u8]) -> Result<Chat, Corrupt> {
    let mut chat = Chat { show: Show::Available, note: "".into() };
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => chat.show = at_place(&SHOWS, field.value()?).unwrap_or(Show::Available),
            2 => chat.note = text(&field)?,
            _ => {}
        }
    }
    Ok(chat)
}

fn put_presence(out: &mut Vec<u8>, presence: &Presence) {
    let Presence { open, on_the_phone, chat, documents } = presence;
    put_flag(out, 1, *open);
    put_flag(out, 2, *on_the_phone);
    if let Some(chat) = chat {
        put_value(out, 3, |out| put_chat(out, chat));
    }
    documents.iter().for_each(|document| put_bytes(out, 4, document));
}

fn read_presence(bytes: &[u8]) -> Result<Presence, Corrupt> {
    let mut presence = Presence { open: false, on_the_phone: false, chat: None, documents: Vec::new() };
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => presence.open = flag(&field)?,
            2 => presence.on_the_phone = flag(&field)?,
            3 => presence.chat = Some(read_chat(field.bytes)?),
            4 => presence.documents.push(Arc::from(field.bytes)),
            _ => {}
        }
    }
    Ok(presence)
}

/// One field, whose number is the topic's place and one.
pub(super) fn put_state(out: &mut Vec<u8>, state: &State) {
    match state {
        State::Presence(presence) => put_value(out, 1, |out| put_presence(out, presence)),
        State::Dialog(calls) => put_value(out, 2, |out| {
            calls.iter().for_each(|call| put_value(out, 1, |out| put_call(out, call)));
        }),
        State::MessageSummary { waiting } => put_number(out, 3, u64::from(*waiting)),
        State::Registration(bindings) => {
            put_value(out, 4, |out| put_bindings(out, bindings));
        }
    }
}

pub(super) fn read_state(bytes: &[u8]) -> Result<State, Corrupt> {
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => return read_presence(field.bytes).map(State::Presence),
            2 => return read_list(field.bytes, read_call).map(State::Dialog),
            3 => return Ok(State::MessageSummary { waiting: field.value()? }),
            4 => return read_bindings(field.bytes).map(State::Registration),
            _ => {}
        }
    }
    Err(absent("a state has no topic that is known"))
}
