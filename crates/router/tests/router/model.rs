//! The location service against a naive one: thousands of seeded steps, with failing writes, expiry, and
//! restarts at any point, some of which find writes on the disk that were never reported.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use router::{
    Answer, AskId, BindingRow, Change, Contact, Effect, Query, Register, RegisterRefused, Router,
    RouterSettings, WriteFailed, limits,
};
use stdx::Instant;
use stdx::rng::SplitMix64;

use crate::support::{EDGE, START, contact};

const AORS: [&str; 3] = ["alice@example.com", "bob@example.com", "carol@example.org"];
/// Pairs of spellings of one URI.
const URIS: [[&str; 2]; 4] = [
    ["sip:u@192.0.2.1:5060", "SIP:u@192.0.2.1:5060"],
    ["sip:u@phone.example.com;transport=tcp", "sip:%75@PHONE.example.com;Transport=TCP"],
    ["sip:u@192.0.2.3;line=1;x=2", "sip:u@192.0.2.3;x=2;line=1"],
    ["sip:u@192.0.2.4", "sip:u@192.0.2.4"],
];
const EXPIRES: [u32; 6] = [0, 0, 60, 600, 3600, 200_000];

/// The model's entry for a binding.
#[derive(Clone, Debug, PartialEq)]
struct Bound {
    class: usize,
    call_id: String,
    cseq: u32,
    until: Instant,
}

type Outcome = Result<Vec<Bound>, RegisterRefused>;

#[derive(Default)]
struct Account {
    bound: Vec<Bound>,
    /// Registers in line; the first, when worked out, is being written.
    line: VecDeque<(u64, Register)>,
    writing: Option<Vec<Bound>>,
}

#[derive(Default)]
struct Model {
    accounts: BTreeMap<&'static str, Account>,
    answers: Vec<(u64, Outcome)>,
}

impl Model {
    fn register(&mut self, now: Instant, aor: &'static str, id: u64, register: Register) {
        let account = self.accounts.entry(aor).or_default();
        if account.line.len() > limits::REGISTERS_IN_LINE {
            self.answers.push((id, Err(RegisterRefused::StoreFailed)));
            return;
        }
        account.line.push_back((id, register));
        self.pump(now, aor);
    }

    fn pump(&mut self, now: Instant, aor: &'static str) {
        let account = self.accounts.entry(aor).or_default();
        account.bound.retain(|bound| bound.until > now);
        while account.writing.is_none() {
            let Some((id, register)) = account.line.front() else { return };
            match work_out(now, &account.bound, register) {
                Ok(Some(set)) => account.writing = Some(set),
                Ok(None) => {
                    self.answers.push((*id, Ok(account.bound.clone())));
                    account.line.pop_front();
                }
                Err(refused) => {
                    self.answers.push((*id, Err(refused)));
                    account.line.pop_front();
                }
            }
        }
    }

    fn written(&mut self, now: Instant, aor: &'static str, ok: bool) {
        let account = self.accounts.get_mut(aor).unwrap();
        let set = account.writing.take().unwrap();
        let (id, _) = account.line.pop_front().unwrap();
        if ok {
            account.bound = set.clone();
        }
        self.answers.push((id, if ok { Ok(set) } else { Err(RegisterRefused::StoreFailed) }));
        self.pump(now, aor);
    }
}

fn work_out(now: Instant, old: &[Bound], register: &Register) -> Result<Option<Vec<Bound>>, RegisterRefused> {
    let late = |bound: &Bound| *bound.call_id == *register.call_id && bound.cseq >= register.cseq;
    let contacts = match &register.change {
        Change::None => return Ok(None),
        Change::RemoveAll if old.iter().any(late) => return Err(RegisterRefused::OutOfOrder),
        Change::RemoveAll => return Ok((!old.is_empty()).then(Vec::new)),
        Change::Update(contacts) => contacts,
    };
    let of_it = |bound: &&Bound| *bound.call_id == *register.call_id && bound.cseq == register.cseq;
    let made: Vec<usize> = old.iter().filter(of_it).map(|bound| bound.class).collect();
    let asks = |wanted: usize, adds: bool| {
        contacts.iter().any(|contact| class(&contact.uri) == wanted && (contact.expires > 0) == adds)
    };
    let is_repeated = !made.is_empty()
        && made.iter().all(|class| asks(*class, true))
        && contacts.iter().all(|contact| contact.expires == 0 || made.contains(&class(&contact.uri)))
        && !old.iter().any(|bound| asks(bound.class, false));
    if is_repeated {
        return Ok(None);
    }
    let mut new = old.to_vec();
    for contact in contacts {
        let class = class(&contact.uri);
        if old.iter().any(|bound| bound.class == class && late(bound)) {
            return Err(RegisterRefused::OutOfOrder);
        }
        new.retain(|bound| bound.class != class);
        if contact.expires > 0 {
            let granted = contact.expires.min(limits::LONGEST_BINDING.as_secs() as u32);
            let until = now + Duration::from_secs(granted.into());
            let until = Instant::from_unix_seconds(until.as_micros().div_ceil(1_000_000));
            new.push(Bound { class, call_id: register.call_id.to_string(), cseq: register.cseq, until });
        }
    }
    if new.len() > old.len() && new.len() > register.max_contacts {
        return Err(RegisterRefused::TooManyContacts);
    }
    new.sort_by_key(|bound| bound.class);
    Ok((new != *old).then_some(new))
}

fn class(uri: &str) -> usize {
    URIS.iter().position(|spellings| spellings.contains(&uri)).unwrap()
}

/// Seeded choices.
pub(crate) struct Dice(SplitMix64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Dice(SplitMix64::new(seed))
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0.below(sides)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len() as u64) as usize]
    }

    fn register(&mut self, aor: &str) -> Register {
        let change = match self.roll(12) {
            0 => Change::None,
            1 => Change::RemoveAll,
            n => Change::Update((0..1 + n % 2).map(|_| self.contact()).collect()),
        };
        let (call_id, cseq) = (self.pick(&["c1", "c2", "c3"]), self.roll(40) as u32);
        Register { aor: aor.into(), call_id: call_id.into(), cseq, change, max_contacts: 3 }
    }

    fn contact(&mut self) -> Contact {
        let spellings = self.pick(&URIS);
        contact(self.pick(&spellings), self.pick(&EXPIRES))
    }
}

struct Run {
    dice: Dice,
    now: Instant,
    router: Router,
    model: Model,
    /// In the order they were asked for: ticket, address, row.
    writes: VecDeque<(u64, &'static str, BindingRow)>,
    log: BTreeMap<i64, (Instant, Box<[u8]>)>,
    last_row: i64,
    /// Rows that the router called dead and that are still there.
    dead: BTreeSet<i64>,
    answers: Vec<(u64, Outcome)>,
    next_id: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        Run {
            dice: Dice::new(seed),
            now: START,
            router: Router::new(RouterSettings::default(), [1; 16], START),
            model: Model::default(),
            writes: VecDeque::new(),
            log: BTreeMap::new(),
            last_row: 0,
            dead: BTreeSet::new(),
            answers: Vec::new(),
            next_id: 0,
        }
    }

    fn step(&mut self) {
        match self.dice.roll(20) {
            0..=8 => self.register(),
            9..=14 => self.write(),
            15..=17 => self.pass(),
            18 if self.dice.roll(2) == 0 => self.clean_head(),
            18 => self.sweep(),
            _ if self.dice.roll(5) == 0 => self.restart(),
            _ => {}
        }
        self.compare();
    }

    fn register(&mut self) {
        let aor = self.dice.pick(&AORS);
        let register = self.dice.register(aor);
        self.next_id += 1;
        let mut out = Vec::new();
        let query = Query::Register(Box::new(register.clone()));
        self.router.handle_query(self.now, EDGE, AskId(self.next_id), query, &mut out);
        self.perform(out);
        self.model.register(self.now, aor, self.next_id, register);
    }

    fn write(&mut self) {
        let Some((ticket, aor, row)) = self.writes.pop_front() else { return };
        let ok = self.dice.roll(8) > 0;
        let result = ok.then(|| self.append(row)).ok_or(WriteFailed);
        let mut out = Vec::new();
        self.router.handle_written(self.now, ticket, result, &mut out);
        self.perform(out);
        self.model.written(self.now, aor, ok);
    }

    fn append(&mut self, row: BindingRow) -> i64 {
        self.last_row += 1;
        self.log.insert(self.last_row, (self.now, row.record));
        self.dead.extend(row.replaces);
        self.dead.extend(row.empties.then_some(self.last_row));
        self.last_row
    }

    /// Deletes dead rows in the order of their numbers, up to somewhere.
    fn sweep(&mut self) {
        for _ in 0..self.dice.roll(self.dead.len() as u64 + 1) {
            let row = self.dead.pop_first().unwrap();
            self.log.remove(&row);
        }
    }

    fn pass(&mut self) {
        let longest = self.dice.pick(&[2, 120, 4_000, 90_000]) * 1_000_000;
        self.now = self.now + Duration::from_micros(self.dice.roll(longest));
        let mut out = Vec::new();
        // Late timers are harmless, so some steps skip the expiry.
        if self.dice.roll(3) > 0 {
            self.router.expire(self.now, &mut out);
        }
        self.perform(out);
    }

    fn clean_head(&mut self) {
        let horizon = self.now - limits::LOG_HORIZON;
        while self.log.first_key_value().is_some_and(|(_, (at, _))| *at < horizon) {
            self.log.pop_first();
        }
    }

    fn restart(&mut self) {
        // A prefix of the outstanding writes has reached the disk; their results were never reported.
        let reached = self.dice.roll(self.writes.len() as u64 + 1) as usize;
        // A crash forgets what is dead.
        for (_, aor, row) in std::mem::take(&mut self.writes).into_iter().take(reached) {
            self.append(row);
            let account = self.model.accounts.get_mut(aor).unwrap();
            account.bound = account.writing.take().unwrap();
        }
        for account in self.model.accounts.values_mut() {
            account.writing = None;
            account.line.clear();
        }
        self.router = Router::new(RouterSettings::default(), [2; 16], self.now);
        let mut dead = Vec::new();
        for (row, (_, record)) in &self.log {
            self.router.replay(self.now, *row, record, &[], &mut dead).unwrap();
        }
        self.dead = dead.into_iter().collect();
        let now = self.now;
        let bound = |account: &&Account| account.bound.iter().any(|bound| bound.until > now);
        let bound = self.model.accounts.values().filter(bound).count();
        assert_eq!(self.log.len() - self.dead.len(), bound, "a row that is not dead is an address's");
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::ForgetBinding { row } => {
                    self.dead.insert(row);
                }
                Effect::WriteBinding { ticket, row } => {
                    let (aor, _) = router::decode_record(&row.record).unwrap();
                    assert_eq!(aor, row.aor);
                    let aor = AORS.into_iter().find(|known| **known == *aor).unwrap();
                    self.writes.push_back((ticket, aor, row));
                }
                Effect::Answer { id, answer: Answer::Registered(result), .. } => {
                    self.answers.push((id.0, result.map(view)));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn compare(&mut self) {
        assert_eq!(std::mem::take(&mut self.answers), std::mem::take(&mut self.model.answers));
        let mut bound = 0;
        for aor in AORS {
            let mut out = Vec::new();
            self.router.handle_query(self.now, EDGE, AskId(0), Query::Lookup { aor: aor.into() }, &mut out);
            let Some(Effect::Answer { answer: Answer::Bindings(bindings), .. }) = out.pop() else { panic!() };
            let account = self.model.accounts.entry(aor).or_default();
            account.bound.retain(|bound| bound.until > self.now);
            bound += account.bound.len();
            assert_eq!(view(bindings), account.bound, "{aor}");
        }
        let mut out = Vec::new();
        self.router.expire(self.now, &mut out);
        self.perform(out);
        assert_eq!(self.router.counts().bindings, bound);
    }
}

fn view(bindings: Vec<router::Binding>) -> Vec<Bound> {
    let mut bound: Vec<_> = bindings
        .into_iter()
        .map(|binding| Bound {
            class: class(&binding.contact.uri),
            call_id: binding.call_id.into(),
            cseq: binding.cseq,
            until: binding.expires_at,
        })
        .collect();
    bound.sort_by_key(|bound| bound.class);
    bound
}

#[test]
fn the_location_service_matches_a_naive_model() {
    for seed in 0..60 {
        let mut run = Run::new(seed);
        for step in 0..600 {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.step()));
            assert!(caught.is_ok(), "seed {seed}, step {step}");
        }
    }
}
