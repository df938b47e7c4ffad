//! `kill -9` at any moment loses no binding whose 200 was sent, and what was removed stays removed.

use std::time::Duration;

use sip::wire::Header;
use stdx::rng::Rng;

use crate::Deadline;
use crate::phone::{Phone, text};
use crate::place::Place;

const ROUNDS: u64 = 4;
const ACCOUNTS: usize = 48;

/// Accounts that wait for an answer at the same time.
const WINDOW: usize = 12;

#[test]
fn no_binding_with_a_sent_200_is_lost_to_kill_9() {
    let names: Vec<String> = (0..ACCOUNTS).map(|n| format!("user{n}")).collect();
    let users: Vec<&str> = names.iter().map(String::as_str).collect();
    let place = Place::new("").with_accounts(&users);
    let mut acknowledged = vec![None; ACCOUNTS];
    for round in 0..ROUNDS {
        let mut rng = Rng::seeded(round);
        let process = place.spawn();
        let mut phones: Vec<Phone> = users.iter().map(|user| place.udp(user)).collect();
        // All phones move to a new socket; after so many 200s, with others on their way, the node is killed.
        let stop_after = 5 + rng.below(ACCOUNTS as u64 - 10) as usize;
        let moved = register_until(&mut phones, stop_after, process);
        for (index, contact) in moved {
            acknowledged[index] = Some(contact);
        }
        let process = place.spawn();
        for (index, phone) in phones.iter_mut().enumerate() {
            let Some(contact) = &acknowledged[index] else { continue };
            let bound = phone.bindings();
            let is_there = bound.iter().any(|value| value.contains(contact.as_str()));
            assert!(is_there, "seed {round}: {} lost {contact}, has {bound:?}", phone.user);
        }
        ring_one(&place, &mut phones, &acknowledged);
        process.kill();
    }
}

/// Registers with `WINDOW` requests in flight and kills the server after `stop_after` were answered. What
/// was acknowledged, those included whose 200 was on its way.
fn register_until(
    phones: &mut [Phone],
    stop_after: usize,
    process: crate::place::Process,
) -> Vec<(usize, String)> {
    let mut flying = Vec::new();
    let mut waiting: Vec<usize> = (0..phones.len()).rev().collect();
    let (mut done, mut answered) = (Vec::new(), 0);
    let mut process = Some(process);
    while process.is_some() {
        while flying.len() < WINDOW
            && let Some(index) = waiting.pop()
        {
            let phone = &mut phones[index];
            let ask = phone.registration(&contact_line(phone));
            // The challenge is stateless: only the second request is worth racing.
            let message = phone.write(&ask);
            phone.send(message.as_bytes());
            let challenge = phone.final_of(&ask);
            let mut ask = ask;
            ask.more.push_str(&phone.prove(&challenge, &ask).expect("a challenge"));
            ask.cseq = phone.next_cseq();
            let message = phone.write(&ask);
            phone.send(message.as_bytes());
            flying.push(index);
        }
        flying.retain(|&index| match heard_200(&mut phones[index], Duration::from_millis(1)) {
            Some(contact) => {
                done.push((index, contact));
                answered += 1;
                false
            }
            None => true,
        });
        if answered >= stop_after {
            process.take().expect("it runs").kill();
        }
    }
    // Datagrams that were already in our buffers were sent before the kill.
    for index in flying {
        if let Some(contact) = heard_200(&mut phones[index], Duration::from_millis(1)) {
            done.push((index, contact));
        }
    }
    done
}

fn contact_line(phone: &Phone) -> String {
    format!("Contact: <{}>\r\nExpires: 600\r\n", phone.contact())
}

fn heard_200(phone: &mut Phone, patience: Duration) -> Option<String> {
    let ok = phone.wait(Deadline::after(patience), |message| message.status() == 200)?;
    assert_eq!(text(ok.header(Header::CSeq)).split(' ').nth(1), Some("REGISTER"));
    Some(phone.contact())
}

/// A binding read back is one that rings.
fn ring_one(place: &Place, phones: &mut [Phone], acknowledged: &[Option<String>]) {
    let callee = phones
        .iter()
        .position(|phone| {
            let index = phone.user["user".len()..].parse::<usize>().expect("a number");
            acknowledged[index].as_ref() == Some(&phone.contact())
        })
        .expect("a phone registered in this round");
    let mut caller = place.udp("user0");
    let to = format!("{}@example.test", phones[callee].user);
    crate::call::talk(&mut caller, &mut phones[callee], &to);
}
