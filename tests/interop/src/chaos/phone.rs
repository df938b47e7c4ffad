//! Phones that register, refresh, unregister and ask for their bindings, and the history of what each was answered.
//!
//! Each address has two phones at once. A phone has one contact, whose `q` is another one in each REGISTER, so that every answer tells
//! which REGISTER it is about. Every answer lists all bindings of the address (RFC 3261 §10.3), so it is a read of both contacts.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use md5::{Digest as _, Md5};

use super::clock::Clock;
use super::linear::{Action, Operation, Value, Violation, check};
use super::random::Random;
use crate::DOMAIN;

/// Phones of one address.
const PHONES: u16 = 2;

/// The ports in their contacts; nothing listens there.
const CONTACT: u16 = 5_100;

/// The time between two operations of a phone, milliseconds.
const PAUSE: (u64, u64) = (50, 600);

/// A request without an answer is given up after this long. The server gives up on its database earlier.
const PATIENCE: Duration = Duration::from_secs(12);

/// The time between two REGISTERs of an account that is only called; bindings last an hour.
const REFRESH: Duration = Duration::from_secs(600);

/// T1 of RFC 3261 §17.1.2.
const T1: Duration = Duration::from_millis(500);

/// The longest time between two repetitions: a phone on loopback need not spare the network.
const LONGEST: Duration = Duration::from_secs(2);

/// `q` in thousandths is below this: 1 is left out of answers.
const MOST: u16 = 1_000;

/// Challenges in a row that a phone answers: a node that has just started may ask once more.
const CHALLENGES: u32 = 4;

/// One contact of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Register {
    user: usize,
    phone: u16,
}

/// The history of all phones.
#[derive(Debug, Default)]
pub(super) struct PhoneHistory {
    registers: BTreeMap<Register, Vec<Operation>>,
    /// Answers other than 200, by status; 0: no answer in time.
    pub(super) refusals: BTreeMap<u16, u64>,
    /// Answers with 200.
    pub(super) answered: u64,
}

/// The findings of the check of a history.
#[derive(Debug, Default)]
pub(super) struct PhoneFindings {
    /// Contacts with a history.
    pub(super) registers: usize,
    /// Operations whose outcome is not known.
    pub(super) unknown: usize,
    /// One line for each contact that no order of its operations explains.
    pub(super) violations: Vec<String>,
}

impl PhoneHistory {
    fn merge(&mut self, other: PhoneHistory) {
        for (register, operations) in other.registers {
            self.registers.entry(register).or_default().extend(operations);
        }
        for (status, count) in other.refusals {
            *self.refusals.entry(status).or_default() += count;
        }
        self.answered += other.answered;
    }

    fn insert(&mut self, user: usize, phone: u16, operation: Operation) {
        self.registers.entry(Register { user, phone }).or_default().push(operation);
    }

    /// Checks each contact on its own.
    pub(super) fn check(&self) -> PhoneFindings {
        let mut findings = PhoneFindings { registers: self.registers.len(), ..PhoneFindings::default() };
        for (register, history) in &self.registers {
            findings.unknown += history.iter().filter(|operation| operation.ended.is_none()).count();
            if let Err(violation) = check(history) {
                findings.violations.push(explain(*register, history, &violation));
            }
        }
        findings
    }
}

/// The operation that nothing explains, and the ten before it.
fn explain(register: Register, history: &[Operation], violation: &Violation) -> String {
    let wrong = &history[violation.operation];
    let mut before: Vec<&Operation> =
        history.iter().filter(|operation| Some(operation.began) <= wrong.ended).collect();
    before.sort_unstable_by_key(|operation| operation.began);
    let lines = before[before.len().saturating_sub(10)..].iter().map(|operation| line(operation));
    format!(
        "user{}, contact {}: {} but the value can only be {:?}; before it: {}",
        register.user,
        register.phone,
        line(wrong),
        violation.possible,
        lines.collect::<Vec<_>>().join("; "),
    )
}

fn line(operation: &Operation) -> String {
    let seconds = |time: u64| format!("{:.3}", Duration::from_micros(time).as_secs_f64());
    let ended = operation.ended.map_or_else(|| "?".to_owned(), seconds);
    format!("{:?} {} to {ended} s", operation.action, seconds(operation.began))
}

/// Runs the phones of these users at this port until `is_over`, and then asks once for the bindings of each address.
pub(super) fn register(
    port: u16,
    users: usize,
    seed: u64,
    clock: Clock,
    is_over: &AtomicBool,
) -> PhoneHistory {
    std::thread::scope(|scope| {
        let phones = (0..users).flat_map(|user| (0..PHONES).map(move |number| (user, number)));
        let start = |(user, number): (usize, u16)| {
            let place = user as u64 * u64::from(PHONES) + u64::from(number);
            let phone = Phone::new(port, user, number, seed.wrapping_add(place), clock);
            let builder = std::thread::Builder::new().name(format!("phone {user}"));
            builder.spawn_scoped(scope, move || phone.run(is_over)).expect("a thread")
        };
        let threads: Vec<_> = phones.map(start).collect();
        let mut history = PhoneHistory::default();
        threads.into_iter().for_each(|thread| history.merge(thread.join().expect("a phone does not panic")));
        history
    })
}

/// Binds each of these users to one contact, 127.0.0.1:`contact`.
///
/// # Errors
/// The outcome of a REGISTER that was not answered with 200.
pub(super) fn bind(port: u16, users: Range<usize>, contact: u16, clock: Clock) -> Result<(), String> {
    users.into_iter().try_for_each(|user| {
        let mut phone = Phone { contact, ..Phone::new(port, user, 0, 0, clock) };
        // RFC 3261 §10.2: CSeq counts up with each REGISTER of a Call-ID.
        phone.cseq = u32::try_from(clock.elapsed().as_millis()).unwrap_or(u32::MAX / 2);
        match phone.request(&Change::Bind(MOST - 1)) {
            Outcome::Bindings(_) => Ok(()),
            outcome => Err(format!("user{user}: {outcome:?}")),
        }
    })
}

/// Binds these users again and again until `is_over`, so that no binding expires.
pub(super) fn keep_bound(port: u16, users: Range<usize>, contact: u16, clock: Clock, is_over: &AtomicBool) {
    while ::wait::within(REFRESH, || is_over.load(Ordering::Acquire).then_some(())).is_none() {
        // While the farm cannot answer, the binding of the last time is there.
        let _ = bind(port, users.clone(), contact, clock);
    }
}

/// The outcome of one REGISTER.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// 200, with the `q` of each phone's binding.
    Bindings(BTreeMap<u16, u16>),
    /// The request was refused and has had no effect.
    Refused(u16),
    /// It may have had its effect: no answer, or a failure of the server.
    Unknown(u16),
}

struct Phone {
    port: u16,
    user: usize,
    number: u16,
    /// The port in its contact.
    contact: u16,
    cseq: u32,
    q: u16,
    random: Random,
    clock: Clock,
    history: PhoneHistory,
}

/// The header fields of a REGISTER.
enum Change {
    /// The REGISTER asks for the bindings.
    None,
    Bind(u16),
    Unbind,
}

impl Phone {
    fn new(port: u16, user: usize, number: u16, seed: u64, clock: Clock) -> Phone {
        let history = PhoneHistory::default();
        let contact = CONTACT + number;
        Phone { port, user, number, contact, cseq: 0, q: 0, random: Random::new(seed), clock, history }
    }

    fn run(mut self, is_over: &AtomicBool) -> PhoneHistory {
        while !is_over.load(Ordering::Acquire) {
            let change = match self.random.index(8) {
                0..3 => Change::Bind(self.next_q()),
                3 => Change::Unbind,
                _ => Change::None,
            };
            self.perform(&change);
            let pause = Duration::from_millis(self.random.between(PAUSE.0, PAUSE.1));
            ::wait::within(pause, || is_over.load(Ordering::Acquire).then_some(()));
        }
        self.history
    }

    fn next_q(&mut self) -> u16 {
        self.q = self.q % (MOST - 1) + 1;
        self.q
    }

    fn perform(&mut self, change: &Change) {
        let began = self.clock.microseconds();
        let outcome = self.request(change);
        let ended = self.clock.microseconds();
        let written: Option<Value> = match change {
            Change::None => None,
            Change::Bind(q) => Some(Some(*q)),
            Change::Unbind => Some(None),
        };
        let (user, number) = (self.user, self.number);
        let history = &mut self.history;
        match outcome {
            Outcome::Bindings(bindings) => {
                history.answered += 1;
                for phone in 0..PHONES {
                    let seen = bindings.get(&phone).copied();
                    let action = match written {
                        // The answer to a write is the moment after it; a wrong list there is a wrong read.
                        Some(value) if phone == number && value == seen => Action::Write(value),
                        Some(value) if phone == number => {
                            let write = Operation { action: Action::Write(value), began, ended: None };
                            history.insert(user, phone, write);
                            Action::Read(seen)
                        }
                        _ => Action::Read(seen),
                    };
                    history.insert(user, phone, Operation { action, began, ended: Some(ended) });
                }
            }
            Outcome::Refused(status) => *history.refusals.entry(status).or_default() += 1,
            Outcome::Unknown(status) => {
                *history.refusals.entry(status).or_default() += 1;
                if let Some(value) = written {
                    let write = Operation { action: Action::Write(value), began, ended: None };
                    history.insert(user, number, write);
                }
            }
        }
    }

    /// Sends a REGISTER, answers challenges, and waits for the outcome.
    fn request(&mut self, change: &Change) -> Outcome {
        // Another socket for each: the kernel may give it to another node.
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let mut challenge = None;
        for _ in 0..CHALLENGES {
            self.cseq += 1;
            let request = self.build(&socket, change, challenge.as_ref());
            let Some(answer) = self.transact(&socket, &request) else { return Outcome::Unknown(0) };
            match answer.status {
                200 => return Outcome::Bindings(answer.bindings()),
                401 => challenge = answer.challenge(),
                // RFC 3261 §21.4: the request failed, and not the server.
                status @ 400..500 => return Outcome::Refused(status),
                status => return Outcome::Unknown(status),
            }
        }
        Outcome::Refused(401)
    }

    /// Repeats the request until there is a final answer (RFC 3261 §17.1.2).
    fn transact(&self, socket: &UdpSocket, request: &str) -> Option<Answer> {
        let deadline = ::wait::Deadline::after(PATIENCE);
        let own = format!("CSeq: {} REGISTER", self.cseq);
        let (mut interval, mut buffer) = (T1, [0; 65_535]);
        while deadline.left().is_some() {
            // A node that is away makes the kernel refuse it; the next repetition may reach another one.
            let _ = socket.send_to(request.as_bytes(), ("127.0.0.1", self.port));
            let repetition = ::wait::Deadline::after(interval);
            while let Some(left) = repetition.left() {
                socket.set_read_timeout(Some(left)).expect("it is not zero");
                let Ok(count) = socket.recv(&mut buffer) else { continue };
                let answer = Answer::read(&buffer[..count]);
                if let Some(answer) = answer.filter(|it| it.status >= 200 && it.text.contains(&own)) {
                    return Some(answer);
                }
            }
            interval = (2 * interval).min(LONGEST);
        }
        None
    }

    fn build(&self, socket: &UdpSocket, change: &Change, challenge: Option<&Challenge>) -> String {
        let Phone { user, number, contact, cseq, .. } = self;
        let own = socket.local_addr().expect("a bound socket");
        let contact = format!("<sip:user{user}@127.0.0.1:{contact}>");
        let contact = match change {
            Change::None => String::new(),
            Change::Bind(q) => format!("Contact: {contact};q=0.{q:03};expires=3600\r\n"),
            Change::Unbind => format!("Contact: {contact};expires=0\r\n"),
        };
        let authorization = challenge.map(|challenge| challenge.answer(&format!("user{user}"), "secret"));
        format!(
            "REGISTER sip:{DOMAIN} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {own};branch=z9hG4bK{user}.{number}.{cseq};rport\r\n\
             From: <sip:user{user}@{DOMAIN}>;tag=phone{number}\r\n\
             To: <sip:user{user}@{DOMAIN}>\r\n\
             Call-ID: user{user}-phone{number}\r\n\
             CSeq: {cseq} REGISTER\r\n\
             Max-Forwards: 70\r\n\
             {contact}{}Content-Length: 0\r\n\r\n",
            authorization.unwrap_or_default()
        )
    }
}

struct Answer {
    status: u16,
    text: String,
}

impl Answer {
    fn read(bytes: &[u8]) -> Option<Answer> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let status = text.strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()?;
        Some(Answer { status, text })
    }

    /// The `q` of each phone's binding.
    fn bindings(&self) -> BTreeMap<u16, u16> {
        let lines = self.text.lines().filter_map(|line| line.strip_prefix("Contact: "));
        let contacts = lines.flat_map(|line| line.split(','));
        let read = |contact: &str| {
            let port: u16 = parameter(contact, "@127.0.0.1:", &['>', ';'])?.parse().ok()?;
            let q = parameter(contact, ";q=0.", &[';', '>']).unwrap_or_default();
            Some((port.checked_sub(CONTACT)?, q.parse().ok()?))
        };
        contacts.filter_map(read).collect()
    }

    fn challenge(&self) -> Option<Challenge> {
        let line = self.text.lines().find(|line| line.starts_with("WWW-Authenticate: "))?;
        let quoted = |name: &str| parameter(line, &format!("{name}=\""), &['"']).map(str::to_owned);
        Some(Challenge { realm: quoted("realm")?, nonce: quoted("nonce")? })
    }
}

/// The text between `before` and one of `ends`.
fn parameter<'a>(text: &'a str, before: &str, ends: &[char]) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split(ends).next().unwrap_or(rest).trim())
}

struct Challenge {
    realm: String,
    nonce: String,
}

impl Challenge {
    /// The header field with the response of RFC 7616 §3.4.1, for MD5 and `qop=auth`.
    fn answer(&self, user: &str, password: &str) -> String {
        let Challenge { realm, nonce } = self;
        let uri = format!("sip:{DOMAIN}");
        let secret = hash(&format!("{user}:{realm}:{password}"));
        let request = hash(&format!("REGISTER:{uri}"));
        let response = hash(&format!("{secret}:{nonce}:00000001:c:auth:{request}"));
        format!(
            "Authorization: Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", \
             response=\"{response}\", algorithm=MD5, qop=auth, nc=00000001, cnonce=\"c\"\r\n"
        )
    }
}

fn hash(text: &str) -> String {
    Md5::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let text = "SIP/2.0 200 OK\r\nCSeq: 3 REGISTER\r\n\
                    Contact: <sip:user1@127.0.0.1:5100>;expires=59;q=0.250, <sip:user1@127.0.0.1:5101>;expires=9;q=0.001\r\n\
                    Contact: <sip:other@127.0.0.1:9>;expires=9\r\n\r\n";
        let answer = Answer::read(text.as_bytes()).unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.bindings(), BTreeMap::from([(0, 250), (1, 1)]));
        let text =
            "SIP/2.0 401 No\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n,n\", qop=\"auth\"\r\n\r\n";
        let challenge = Answer::read(text.as_bytes()).unwrap().challenge().unwrap();
        assert_eq!((challenge.realm.as_str(), challenge.nonce.as_str()), ("r", "n,n"));
    }

    #[test]
    fn the_hash_is_that_of_the_rfc() {
        // RFC 1321 §A.5.
        assert_eq!(hash("abc"), "900150983cd24fb0d6963f7d28e17f72");
    }

    #[test]
    fn a_binding_that_is_lost_is_a_finding_with_its_address() {
        let mut history = PhoneHistory::default();
        let write = Operation { action: Action::Write(Some(5)), began: 0, ended: Some(1) };
        history.insert(3, 1, write);
        history.insert(3, 0, Operation { action: Action::Read(None), began: 2, ended: Some(3) });
        assert!(history.check().violations.is_empty());
        history.insert(
            3,
            1,
            Operation { action: Action::Read(None), began: 2_000_000, ended: Some(2_000_100) },
        );
        let findings = history.check();
        assert_eq!((findings.registers, findings.violations.len()), (2, 1));
        let expected = "user3, contact 1: Read(None) 2.000 to 2.000 s but the value can only be [Some(5)]";
        assert!(findings.violations[0].starts_with(expected), "{}", findings.violations[0]);
    }
}
