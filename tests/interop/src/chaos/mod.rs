//! A farm under faults and load at once, and the account of everything afterwards (`make chaos`).
//!
//! [`run`] starts NATS, PostgreSQL and the nodes on loopback, lets phones register, chat clients write to each other and Ringer place calls, and
//! performs the faults that follow from a seed ([`schedule`]). Then it lets the farm become whole, and compares what each client
//! was promised with what is there: bindings by a model of a register ([`linear`]), messages by their acknowledgements
//! ([`messages`]), presence and the room by the views of all clients ([`views`]), calls by Ringer's report ([`calls`]).

use std::sync::atomic::{AtomicBool, Ordering};

mod calls;
mod chat;
mod clock;
pub mod linear;
pub mod messages;
mod phone;
mod random;
mod report;
pub mod schedule;
pub mod views;
mod world;

pub use report::Report;
pub use schedule::Form;

use calls::{Calls, ROUTED};
use chat::Chat;
use clock::Clock;
use world::World;

/// Accounts of phones, then those of chat clients, then those that are called.
const PHONES: usize = 8;
const CLIENTS: usize = 8;
const CALLED: usize = 8;

/// Calls a second of each kind.
const RATE: u32 = 5;

/// Performs a run and returns its report. `is_verbose`: each fault is printed on standard error as it begins.
///
/// # Panics
/// The servers or the farm do not start.
pub fn run(form: &Form, seed: u64, is_verbose: bool) -> Report {
    let clock = Clock::start();
    let mut calls = Calls::answer();
    let users = PHONES + CLIENTS + CALLED;
    let mut world = World::start(form.nodes, users, clock, is_verbose);
    world.add_route(ROUTED, calls.routed);
    let chat_users = PHONES..PHONES + CLIENTS;
    let mut chat = Chat::start(&world.certificate, seed, &world.chat_ports, chat_users, clock);
    let (port, answerer, called) = (world.farm.port, calls.bound, PHONES + CLIENTS..users);
    let mut findings = Vec::new();
    if let Err(outcome) = phone::bind(port, called.clone(), answerer, clock) {
        findings.push(format!("before the first fault: {outcome}"));
    }
    calls.place(port, called.clone(), RATE);
    if let Err(differences) = chat.agree() {
        findings.extend(differences.into_iter().map(|line| format!("before the first fault: {line}")));
    }
    let steps = schedule::schedule(form, seed);
    let is_over = AtomicBool::new(false);
    let (history, differences) = std::thread::scope(|scope| {
        let register = || phone::register(port, PHONES, seed, clock, &is_over);
        let phones = std::thread::Builder::new().name("phones".into()).spawn_scoped(scope, register);
        let keep = || phone::keep_bound(port, called.clone(), answerer, clock, &is_over);
        std::thread::Builder::new().name("bound".into()).spawn_scoped(scope, keep).expect("a thread");
        if let Err(fault) = world.perform(&steps, form.is_one_at_a_time) {
            findings.push(format!("the farm: {fault}"));
        }
        world.tell("the farm is whole".to_owned());
        // The load goes on while the clients come back.
        let differences = chat.agree().err().unwrap_or_default();
        world.tell(format!("the clients differ in {} things", differences.len()));
        chat.stop();
        is_over.store(true, Ordering::Release);
        (phones.expect("a thread").join().expect("phones do not panic"), differences)
    });
    let call_accounts = calls.finish();
    let chat = chat.finish();
    findings.extend(world.crashes.iter().map(|crash| format!("process: {crash}")));
    let mut report = Report {
        form: form.name,
        is_strict: form.is_strict,
        seed,
        nodes: form.nodes,
        time: clock.elapsed(),
        log: std::mem::take(&mut world.log),
        rows: Vec::new(),
        findings,
        limits: Vec::new(),
    };
    report.add_bindings(&history, history.check());
    report.add_chat(&chat, differences, world.owners_died);
    report.add_messages(messages::account(&chat.messages, &world.outages));
    call_accounts.iter().for_each(|account| report.add_calls(account));
    report
}
