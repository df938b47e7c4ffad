//! Dials without legs, scripts or a wire: inputs, and their effects in order.

use super::*;

/// The longest `timeout` of a Dial.
const RINGS: Duration = Duration::from_secs(600);

struct DialWorld {
    dials: Dials,
    /// Legs and actors.
    keys: Slab<()>,
    now: Instant,
}

impl DialWorld {
    fn new() -> DialWorld {
        let origin = CallOrigin::new("example.test", Box::new(|_| true));
        let dials = Dials::new(origin, Rng::from_seed([7; 32]), false, false);
        DialWorld { dials, keys: Slab::new(), now: Instant::from_unix_seconds(1_700_000_000) }
    }

    fn key(&mut self) -> Key {
        self.keys.insert(())
    }

    fn caller(&mut self) -> DialCaller {
        DialCaller {
            leg: self.key(),
            actor: self.key(),
            sid: "CA1".to_owned(),
            owner: Arc::new(Owner { account: "AC1".into(), signing_key: "".into() }),
            from: "+15550100".into(),
            name: None,
            aor: None,
            codec: None,
            hops: 70,
        }
    }

    /// A Dial with the ringing tone of Germany.
    fn dial_to(&mut self, caller: &DialCaller, parties: Vec<Dialled>) -> DialOutbox {
        let ring_tone = Some("de".to_owned());
        let options = DialOptions { caller_id: None, ring_tone, record: None, refer: None, timeout: RINGS };
        let leg = |(id, address)| Leg { id: Id(id), address };
        let legs = (1..).zip(parties).map(leg).collect();
        let mut out = DialOutbox::new();
        self.dials.dial(self.now, caller, (legs, options), &Numbers::default(), &mut out);
        out
    }

    /// A Dial of one client: the caller's leg and the attempt.
    fn dial(&mut self) -> (Key, Key) {
        let caller = self.caller();
        let out = self.dial_to(&caller, vec![Dialled::Client { name: "bob".to_owned() }]);
        assert_eq!(names(&out), ["plan recording", "resolve", "start ringing"]);
        let DialEffect::Resolve { attempt, .. } = &out[1] else { panic!("the client is looked up") };
        (caller.leg, *attempt)
    }

    fn resolve(&mut self, attempt: Key, groups: &[usize]) -> DialOutbox {
        let phone = Destination {
            uri: "sip:bob@127.0.0.1:5072".into(),
            path: "".into(),
            received: None,
            public_only: false,
            is_binding: true,
        };
        let groups = groups.iter().map(|&phones| vec![phone.clone(); phones]).collect();
        let mut out = DialOutbox::new();
        self.dials.handle_resolved(self.now, attempt, Ok(groups), &mut out);
        out
    }

    /// The INVITEs of so many phones were sent: their legs.
    fn invited(&mut self, attempt: Key, phones: usize) -> (Vec<Key>, DialOutbox) {
        let legs: Vec<Key> = (0..phones).map(|_| self.key()).collect();
        let phone = |&leg| InvitedPhone { leg, call_id: Some("a".into()), result: Ok(()) };
        let mut out = DialOutbox::new();
        self.dials.handle_invited(self.now, attempt, legs.iter().map(phone).collect(), &mut out);
        (legs, out)
    }

    fn refuses(&mut self, attempt: Key, leg: Key, status: u16) -> DialOutbox {
        let cause = Cause::Failed { status, response: None };
        let mut out = DialOutbox::new();
        self.dials.handle_phone_ended(self.now, attempt, leg, &cause, &mut out);
        out
    }

    /// The caller's leg is removed: nothing stays behind.
    fn end(&mut self, caller: Key) {
        let mut out = DialOutbox::new();
        self.dials.handle_caller_gone(self.now, caller, &mut out);
        assert!(out.is_empty(), "{:?}", names(&out));
        assert_eq!(self.dials.len(), 0);
    }
}

fn names(effects: &DialOutbox) -> Vec<String> {
    let name = |effect: &DialEffect| match effect {
        DialEffect::PlanRecording { .. } => "plan recording".to_owned(),
        DialEffect::EndRecording { .. } => "end recording".to_owned(),
        DialEffect::Resolve { .. } => "resolve".to_owned(),
        DialEffect::StopResolving { .. } => "stop resolving".to_owned(),
        DialEffect::Invite { phones, .. } => format!("invite {}", phones.len()),
        DialEffect::HangUp { .. } => "hang up".to_owned(),
        DialEffect::AnsweredElsewhere { .. } => "answered elsewhere".to_owned(),
        DialEffect::StartRinging { .. } => "start ringing".to_owned(),
        DialEffect::StopRinging { .. } => "stop ringing".to_owned(),
        DialEffect::NoteFailure { .. } => "note failure".to_owned(),
        DialEffect::Tell { event: LegEvent::Started { .. }, .. } => "started".to_owned(),
        DialEffect::Tell { event: LegEvent::Failed(failure), .. } => {
            format!("failed {}", failure.code.unwrap_or_default())
        }
        _ => "another".to_owned(),
    };
    effects.iter().map(name).collect()
}

const FAILED: [&str; 4] = ["hang up", "stop ringing", "end recording", "note failure"];

#[test]
fn the_next_group_rings_once_no_phone_of_the_first_was_reached() {
    let mut world = DialWorld::new();
    let (caller, attempt) = world.dial();
    assert_eq!(names(&world.resolve(attempt, &[2, 1])), ["invite 2"]);
    let (legs, out) = world.invited(attempt, 2);
    assert_eq!(names(&out), ["started"]);
    assert_eq!(names(&world.refuses(attempt, legs[0], 503)), ["hang up"], "the other still rings");
    let out = world.refuses(attempt, legs[1], 408);
    assert_eq!(names(&out), ["hang up", "invite 1", "start ringing"]);
    let (legs, out) = world.invited(attempt, 1);
    assert!(out.is_empty(), "the script is told once that its leg has begun");
    let out = world.refuses(attempt, legs[0], 486);
    assert_eq!(names(&out), [&FAILED[..], &["failed 486"]].concat());
    world.end(caller);
}

/// The script ends the ringing, in each group of phones: the SIP session's own limit is later.
#[test]
fn phones_ring_as_long_as_the_document_says() {
    let mut world = DialWorld::new();
    let (caller, attempt) = world.dial();
    let out = world.resolve(attempt, &[2]);
    let [DialEffect::Invite { phones, .. }] = &out[..] else { panic!("{:?}", names(&out)) };
    assert!(phones.iter().all(|phone| phone.invite.timeout > RINGS));
    let mut out = DialOutbox::new();
    world.dials.handle_caller_gone(world.now, caller, &mut out);
}

/// RFC 3261 §16.7 item 5.
#[test]
fn a_6xx_of_one_phone_ends_the_others_and_tries_no_further_group() {
    let mut world = DialWorld::new();
    let (caller, attempt) = world.dial();
    world.resolve(attempt, &[3, 1]);
    let (legs, _) = world.invited(attempt, 3);
    let out = world.refuses(attempt, legs[1], 603);
    assert_eq!(names(&out), [&["hang up", "hang up"], &FAILED[..], &["failed 603"]].concat());
    world.end(caller);
}

#[test]
fn an_attempt_without_its_caller_ends_its_look_up_or_its_phones_and_tells_no_script() {
    let mut world = DialWorld::new();
    let (caller, attempt) = world.dial();
    assert!(world.dials.handle_resolving(attempt, 5));
    let mut out = DialOutbox::new();
    world.dials.handle_caller_gone(world.now, caller, &mut out);
    assert_eq!(names(&out), ["stop resolving"]);
    assert_eq!(world.dials.len(), 0);
    assert!(!world.dials.handle_resolving(attempt, 6), "no look-up is kept for it");
    assert!(world.resolve(attempt, &[1]).is_empty(), "the answer came too late");
    let (_, out) = world.invited(attempt, 2);
    assert_eq!(names(&out), ["hang up", "hang up"], "phones that were called meanwhile");
}

#[test]
fn a_party_that_cannot_be_called_leaves_the_dial_of_the_others_as_it_is() {
    let mut world = DialWorld::new();
    let caller = world.caller();
    let parties = vec![Dialled::Uri("sip:".to_owned()), Dialled::Client { name: "bob".to_owned() }];
    let out = names(&world.dial_to(&caller, parties));
    let failed = [&["plan recording"], &FAILED[1..], &["failed 416", "resolve", "start ringing"]].concat();
    assert_eq!(out, failed);
    assert_eq!(world.dials.ringing_country(caller.leg), Some("de"));
}

/// RFC 3326 §3.1: the phones of the other parties learn that one has answered; without an answer they learn nothing.
#[test]
fn the_other_parties_learn_that_one_has_answered() {
    for is_answered in [true, false] {
        let mut world = DialWorld::new();
        let caller = world.caller();
        let client = |name: &str| Dialled::Client { name: name.to_owned() };
        let out = world.dial_to(&caller, vec![client("bob"), client("carol")]);
        let attempts: Vec<Key> = out
            .iter()
            .filter_map(|effect| match effect {
                DialEffect::Resolve { attempt, .. } => Some(*attempt),
                _ => None,
            })
            .collect();
        let legs: Vec<Key> = attempts
            .iter()
            .map(|&attempt| {
                world.resolve(attempt, &[1]);
                world.invited(attempt, 1).0[0]
            })
            .collect();
        let mut out = DialOutbox::new();
        if is_answered {
            let phone =
                PhoneResponse { leg: legs[0], attempt: attempts[0], has_description: true, has_media: true };
            let ok = Message::parse("SIP/2.0 200 OK\r\nCall-ID: a\r\n\r\n".into()).unwrap();
            world.dials.handle_answered(world.now, &phone, &ok, &mut out);
            out.clear();
        }
        world.dials.hang_up(world.now, caller.leg, Id(2), &mut out);
        assert_eq!(names(&out)[0], if is_answered { "answered elsewhere" } else { "hang up" });
    }
}
