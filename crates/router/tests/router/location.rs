//! RFC 3261 §10.3 and RFC 5626 §6 as transcripts.

use router::{Answer, Change, Effect, Life, Query, RegisterRefused, ShardAddress, WriteFailed, limits};

use crate::support::{World, alice, contact, register, update};

const A: &str = "alice@example.com";

#[test]
fn a_contact_is_bound_once_it_is_written_and_not_before() {
    let mut world = World::new();
    let effects = world.ask(Query::Register(Box::new(update(A, "c1", 1, "sip:a@192.0.2.7", 60))));
    let [Effect::WriteBinding { ticket, .. }] = effects[..] else { panic!("{effects:?}") };
    assert!(world.lookup(A).is_empty());
    let effects = world.written(ticket, Ok(1));
    assert!(
        matches!(&effects[..], [Effect::Answer { answer: Answer::Registered(Ok(b)), .. }] if b.len() == 1)
    );
    assert_eq!(world.uris(A), ["sip:a@192.0.2.7"]);
}

#[test]
fn a_binding_ends_after_the_granted_time_and_not_before() {
    let mut world = World::new();
    world.register(update(A, "c1", 1, "sip:a@192.0.2.7", 60)).unwrap();
    world.pass(59);
    assert_eq!(world.lookup(A).len(), 1);
    world.pass(1);
    assert!(world.lookup(A).is_empty());
    assert_eq!(world.router.counts().bindings, 0);
}

#[test]
fn the_same_call_id_needs_a_higher_cseq() {
    // RFC 3261 §10.3 step 7: "If [the CSeq is] not [higher], the update MUST be aborted and the request fails."
    let mut world = World::new();
    world.register(update(A, "c1", 2, "sip:a@192.0.2.7", 60)).unwrap();
    for cseq in [1, 2] {
        let refused = world.register(update(A, "c1", cseq, "sip:a@192.0.2.7", 0));
        assert_eq!(refused, Err(RegisterRefused::OutOfOrder));
        let refused = world.register(register(A, "c1", cseq, Change::RemoveAll));
        assert_eq!(refused, Err(RegisterRefused::OutOfOrder));
    }
    assert_eq!(world.register(update(A, "other", 1, "sip:a@192.0.2.7", 0)).unwrap(), []);
}

/// RFC 3261 §17.2.2: a retransmission gets the answer of the first copy; another node may have given that.
#[test]
fn a_repeated_register_is_answered_with_the_bindings() {
    let mut world = World::new();
    let first = update(A, "c1", 2, "sip:a@192.0.2.7", 60);
    let bound = world.register(first.clone()).unwrap();
    world.pass(10);
    assert_eq!(world.register(first).unwrap(), bound, "nothing is renewed by it");
    let refused = Err(RegisterRefused::OutOfOrder);
    let both = Change::Update(vec![contact("sip:a@192.0.2.7", 60), contact("sip:b@192.0.2.8", 60)]);
    assert_eq!(
        world.register(register(A, "c1", 2, both.clone())),
        refused,
        "other contacts are another request"
    );
    assert_eq!(world.register(update(A, "c1", 2, "sip:a@192.0.2.7", 0)), refused, "and so is a removal");
    assert_eq!(
        world.register(update(A, "c1", 1, "sip:a@192.0.2.7", 60)),
        refused,
        "an older one is too late"
    );
    let two = world.register(register(A, "c1", 3, both)).unwrap();
    assert_eq!(two.len(), 2);
    assert_eq!(world.register(update(A, "c1", 3, "sip:a@192.0.2.7", 60)), refused);
}

#[test]
fn one_contact_out_of_order_spoils_the_whole_request() {
    let mut world = World::new();
    world.register(update(A, "c1", 5, "sip:a@192.0.2.7", 60)).unwrap();
    let both = Change::Update(vec![contact("sip:b@192.0.2.8", 60), contact("sip:a@192.0.2.7", 60)]);
    assert_eq!(world.register(register(A, "c1", 5, both)), Err(RegisterRefused::OutOfOrder));
    assert_eq!(world.uris(A), ["sip:a@192.0.2.7"]);
}

#[test]
fn remove_all_removes_all() {
    let mut world = World::new();
    world.register(update(A, "c1", 1, "sip:a@192.0.2.7", 60)).unwrap();
    world.register(update(A, "c2", 1, "sip:b@192.0.2.8", 60)).unwrap();
    assert_eq!(world.register(register(A, "c3", 1, Change::RemoveAll)).unwrap(), []);
    assert!(world.lookup(A).is_empty());
    world.restart();
    assert!(world.lookup(A).is_empty());
}

#[test]
fn nothing_is_written_when_nothing_changes() {
    let mut world = World::new();
    world.register(register(A, "c1", 1, Change::None)).unwrap();
    world.register(register(A, "c1", 2, Change::RemoveAll)).unwrap();
    world.register(update(A, "c1", 3, "sip:a@192.0.2.7", 0)).unwrap();
    assert!(world.log.is_empty());
}

#[test]
fn contacts_beyond_the_limit_are_refused_and_refreshes_are_not() {
    let mut world = World::new();
    for n in 0..5 {
        world.register(update(A, "c1", n, &format!("sip:a@192.0.2.{n}"), 60)).unwrap();
    }
    let refused = world.register(update(A, "c1", 9, "sip:a@192.0.2.9", 60));
    assert_eq!(refused, Err(RegisterRefused::TooManyContacts));
    assert_eq!(world.register(update(A, "c1", 10, "sip:a@192.0.2.3", 60)).unwrap().len(), 5);
}

#[test]
fn contacts_are_sorted_by_descending_q() {
    let mut world = World::new();
    for (n, q) in [(1, 300), (2, 1000), (3, 300), (4, 700)] {
        let mut contact = contact(&format!("sip:a@192.0.2.{n}"), 60);
        contact.q = q;
        world.register(register(A, "c1", n, Change::Update(vec![contact]))).unwrap();
    }
    assert_eq!(world.uris(A), ["sip:a@192.0.2.2", "sip:a@192.0.2.4", "sip:a@192.0.2.1", "sip:a@192.0.2.3"]);
}

#[test]
fn a_flow_replaces_the_one_with_its_instance_and_reg_id() {
    // RFC 5626 §6: "the registrar MUST [...] replace [...] if the AOR, instance and reg-id match".
    let mut world = World::new();
    let flow = |uri: &str, reg_id| {
        let mut contact = contact(uri, 60);
        contact.instance = "urn:uuid:0001".into();
        contact.reg_id = reg_id;
        Change::Update(vec![contact])
    };
    world.register(register(A, "c1", 1, flow("sip:a@192.0.2.1:1", 1))).unwrap();
    world.register(register(A, "c1", 2, flow("sip:a@192.0.2.1:2", 2))).unwrap();
    world.register(register(A, "c2", 1, flow("sip:a@192.0.2.1:3", 1))).unwrap();
    assert_eq!(world.uris(A), ["sip:a@192.0.2.1:3", "sip:a@192.0.2.1:2"]);
}

#[test]
fn concurrent_registers_see_each_other() {
    let mut world = World::new();
    let first = world.ask(Query::Register(Box::new(update(A, "c1", 1, "sip:a@192.0.2.1", 60))));
    assert!(world.ask(Query::Register(Box::new(update(A, "c2", 1, "sip:a@192.0.2.2", 60)))).is_empty());
    assert!(world.ask(Query::Register(Box::new(update(A, "c1", 1, "sip:a@192.0.2.1", 60)))).is_empty());
    let answers = world.settle(first);
    let lens: Vec<_> = answers
        .iter()
        .map(|effect| match effect {
            Effect::Answer { answer: Answer::Registered(result), .. } => {
                result.as_ref().map(Vec::len).map_err(|e| *e)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lens, [Ok(1), Ok(2), Ok(2)], "the third is the first, repeated");
    assert_eq!(world.router.counts().writes, 0);
}

#[test]
fn a_failed_write_changes_nothing_and_nothing_builds_on_it() {
    let mut world = World::new();
    let first = world.ask(Query::Register(Box::new(update(A, "c1", 1, "sip:a@192.0.2.1", 60))));
    world.ask(Query::Register(Box::new(update(A, "c2", 1, "sip:a@192.0.2.2", 60))));
    let [Effect::WriteBinding { ticket, .. }] = first[..] else { panic!("{first:?}") };
    let effects = world.written(ticket, Err(WriteFailed));
    assert!(matches!(
        effects[0],
        Effect::Answer { answer: Answer::Registered(Err(RegisterRefused::StoreFailed)), .. }
    ));
    world.settle(effects);
    assert_eq!(world.uris(A), ["sip:a@192.0.2.2"]);
    world.restart();
    assert_eq!(world.uris(A), ["sip:a@192.0.2.2"]);
}

#[test]
fn registers_that_wait_for_a_write_have_a_limit() {
    let mut world = World::new();
    for n in 0..=limits::REGISTERS_IN_LINE {
        let effects = world.ask(Query::Register(Box::new(update(A, "c1", n as u32, "sip:a@192.0.2.1", 60))));
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Answer { .. })));
    }
    let effects = world.ask(Query::Register(Box::new(update(A, "c1", 99, "sip:a@192.0.2.1", 60))));
    assert!(matches!(
        effects[..],
        [Effect::Answer { answer: Answer::Registered(Err(RegisterRefused::StoreFailed)), .. }]
    ));
}

#[test]
fn granted_expiry_is_cut_to_the_longest_binding() {
    let mut world = World::new();
    let bindings = world.register(update(A, "c1", 1, "sip:a@192.0.2.1", u32::MAX)).unwrap();
    assert_eq!(u64::from(bindings[0].contact.expires), limits::LONGEST_BINDING.as_secs());
}

#[test]
fn refreshes_leave_one_timer() {
    let mut world = World::new();
    world.register(update(A, "c1", 1, "sip:a@192.0.2.1", 60)).unwrap();
    for cseq in 2..100 {
        world.register(update(A, "c1", cseq, "sip:a@192.0.2.1", if cseq % 2 == 0 { 0 } else { 60 })).unwrap();
        assert!(world.router.deadline().is_some());
    }
    world.register(update(A, "c1", 101, "sip:a@192.0.2.1", 0)).unwrap();
    // The one timer fires, finds a tombstone and clears it away.
    world.pass(61);
    assert_eq!(world.router.deadline(), None);
    assert_eq!(world.router.counts().addresses, 0);
}

#[test]
fn a_flow_does_not_outlive_its_process() {
    let mut world = World::new();
    let mut contact = contact("sip:a@192.0.2.1", 60);
    let edge = crate::support::EDGE;
    contact.received.as_mut().unwrap().flow = Some(router::FlowId { edge, number: 1 });
    world.register(register(A, "c1", 1, Change::Update(vec![contact]))).unwrap();
    assert!(world.lookup(A)[0].contact.received.unwrap().flow.is_some());
    world.restart();
    assert!(world.lookup(&alice())[0].contact.received.unwrap().flow.is_none());
}

/// A new owner reads what the old one wrote: the connections of phones to other nodes go on.
#[test]
fn a_flow_that_another_live_node_holds_survives_a_restart() {
    let mut world = World::new();
    let flows = [(2, 1), (3, 2)].map(|(life, number)| {
        let mut contact = contact(&format!("sip:a@192.0.2.{number}"), 60);
        let edge = ShardAddress::new(Life(life), 0);
        contact.received.as_mut().unwrap().flow = Some(router::FlowId { edge, number });
        contact
    });
    world.register(register(A, "c1", 1, Change::Update(flows.to_vec()))).unwrap();
    world.restart_beside(&[Life(3)]);
    let flow = |binding: &router::Binding| binding.contact.received.unwrap().flow.map(|flow| flow.edge.life);
    let mut kept: Vec<_> = world.lookup(A).iter().map(flow).collect();
    kept.sort();
    assert_eq!(kept, [None, Some(Life(3))]);
}

#[test]
fn a_write_names_the_row_that_it_replaces_and_an_end_its_last_row() {
    let mut world = World::new();
    let write = |world: &mut World, cseq, expires, row| {
        let effects = world.ask(Query::Register(Box::new(update(A, "c1", cseq, "sip:a@192.0.2.1", expires))));
        let [Effect::WriteBinding { ticket, row: written }] = &effects[..] else { panic!("{effects:?}") };
        world.written(*ticket, Ok(row));
        (written.replaces, written.empties)
    };
    assert_eq!(write(&mut world, 1, 60, 11), (None, false));
    assert_eq!(write(&mut world, 2, 60, 12), (Some(11), false));
    assert_eq!(write(&mut world, 3, 0, 13), (Some(12), true));
    // The row of an empty set is dead from the beginning: nothing is replaced.
    assert_eq!(write(&mut world, 4, 60, 14), (None, false));
    world.now = world.now + std::time::Duration::from_secs(60);
    let mut out = Vec::new();
    world.router.expire(world.now, &mut out);
    assert_eq!(out, [Effect::ForgetBinding { row: 14 }]);
}

#[test]
fn registered_addresses_are_listed_page_by_page_in_their_order() {
    let mut world = World::new();
    for (at, user) in ["dave", "bob", "alice", "carol", "bert"].into_iter().enumerate() {
        let aor = format!("{user}@example.com");
        let seconds = if user == "carol" { 30 } else { 60 + u32::try_from(at).unwrap() };
        world.register(update(&aor, user, 1, "sip:a@192.0.2.7", seconds)).unwrap();
    }
    // Renewed: its entry for the end of the first time is still there.
    world.register(update("alice@example.com", "alice", 2, "sip:a@192.0.2.7", 600)).unwrap();
    world.register(update("bob@example.com", "bob", 2, "sip:b@192.0.2.8", 600)).unwrap();
    let page = |world: &World, prefix: &str, after: &str, most: usize| {
        let (page, total) = world.router.registrations(world.now, (prefix, after), most);
        let names: Vec<_> =
            page.iter().map(|(aor, bindings)| format!("{} {}", &aor[..4], bindings.len())).collect();
        (names.join(","), total)
    };
    assert_eq!(page(&world, "", "", 2), ("alic 1,bert 1".to_owned(), 5));
    assert_eq!(page(&world, "", "bert@example.com", 2), ("bob@ 2,caro 1".to_owned(), 5));
    assert_eq!(page(&world, "", "carol@example.com", 9), ("dave 1".to_owned(), 5));
    assert_eq!(page(&world, "b", "", 9), ("bert 1,bob@ 2".to_owned(), 2));
    assert_eq!(page(&world, "", "", 0), (String::new(), 5));
    // Ended, though no timer has fired yet.
    world.now = world.now + std::time::Duration::from_secs(62);
    assert_eq!(page(&world, "", "", 9), ("alic 1,bert 1,bob@ 1".to_owned(), 3));
}
