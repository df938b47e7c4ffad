//! Keys and datagrams, against a list instead of a run.

use std::cell::RefCell;
use std::net::UdpSocket;
use std::time::Duration;

use lab_sip::call::Which;
use lab_sip::options::Options;
use lab_sip::trace::Trace;
use ratatui::crossterm::event::KeyCode;

use super::keys::Keys;
use super::udp::Socket;
use super::{Command, Target, command, key, obey};
use crate::engine::Change;
use crate::screen::tests::{options, setup, uac};
use crate::screen::{Page, Remote};

#[derive(Default)]
struct List(RefCell<Vec<Change>>);

impl Target for List {
    fn change(&self, change: Change) {
        self.0.borrow_mut().push(change);
    }
}

impl List {
    fn taken(&self) -> Vec<Change> {
        self.0.take()
    }
}

fn remote() -> Remote {
    Remote::new(&setup(options(), uac()))
}

#[test]
fn keys_step_the_rate_from_where_it_is() {
    let (list, remote) = (List::default(), remote());
    for pressed in ['+', '*', '-', '/', '/'] {
        obey(&list, &remote, &key(pressed).expect("a key"));
    }
    let rates = [11.0, 21.0, 20.0, 10.0, 0.0];
    assert_eq!(list.taken(), rates.map(Change::Rate));
}

#[test]
fn the_second_quit_is_hard() {
    let (list, remote) = (List::default(), remote());
    for _ in 0..2 {
        obey(&list, &remote, &Command::Quit);
    }
    assert_eq!(list.taken(), [Change::SoftQuit, Change::HardQuit]);
    obey(&list, &remote, &key('Q').expect("a key"));
    assert_eq!(list.taken(), [Change::HardQuit]);
}

#[test]
fn pause_toggles_and_screens_are_asked_for() {
    let (list, remote) = (List::default(), remote());
    for pressed in ['p', 'p', 's', '6'] {
        obey(&list, &remote, &key(pressed).expect("a key"));
    }
    assert_eq!(list.taken(), [Change::Pause(true), Change::Pause(false)]);
    remote.with(|state| {
        assert!(state.dump);
    });
    assert_eq!(remote.shown().get(), Page::Repartition(1).key());
    obey(&list, &remote, &key('0').expect("a key"));
    assert_eq!(remote.shown().get(), 0, "the live view");
}

#[test]
fn commands_are_read_and_mistakes_explained() {
    assert_eq!(command("set rate 100"), Ok(Command::Rate(100.0)));
    assert_eq!(command("set rate-scale 5"), Ok(Command::RateScale(5.0)));
    assert_eq!(command("set users 12"), Ok(Command::Users(12)));
    assert_eq!(command("set limit 7"), Ok(Command::Limit(7)));
    assert_eq!(command("reset stats"), Ok(Command::ResetStats));
    assert_eq!(command("set hide false"), Ok(Command::Hide(false)));
    assert_eq!(command("set display ooc"), Ok(Command::Display(Which::OutOfCall)));
    assert_eq!(command("trace error on"), Ok(Command::Trace(Trace::Errors, true)));
    assert_eq!(command("trace shortmessages off"), Ok(Command::Trace(Trace::ShortMessages, false)));
    assert_eq!(command("dump tasks"), Ok(Command::DumpTasks));
    assert_eq!(command("dump variables"), Ok(Command::DumpVariables));
    for wrong in
        ["trace", "trace error", "trace moon on", "trace logs yes", "dump", "dump it", "reset", "set hide it"]
    {
        assert!(command(wrong).is_err(), "{wrong}");
    }
    for wrong in ["", "set", "set rate", "set rate -1", "set rate nan", "set limit x", "set moon 1", "jump"] {
        assert!(command(wrong).is_err(), "{wrong}");
    }
    assert_eq!(key('x'), None);
}

#[test]
fn a_typed_line_is_a_command_and_escape_forgets_it() {
    let (list, remote) = (List::default(), remote());
    let mut keys = Keys::new(remote.clone());
    let mut kind = |text: &str, end: KeyCode| {
        for typed in text.chars() {
            keys.press(&list, KeyCode::Char(typed), false);
        }
        keys.press(&list, end, false);
    };
    kind("cset rate 1000", KeyCode::Esc);
    kind("cset rate 42x", KeyCode::Backspace);
    kind("", KeyCode::Enter);
    assert_eq!(list.taken(), [Change::Rate(42.0)]);
    keys.press(&list, KeyCode::Char('c'), true);
    assert_eq!(list.taken(), [Change::Terminate], "Ctrl-C");
}

#[test]
fn datagrams_change_the_run() {
    let mut network = Options::default().network;
    network.control_port = Some(0);
    let remote = remote();
    let mut socket = Socket::bind(&network, remote.clone()).expect("a free port");
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    peer.connect(socket.address().expect("bound")).expect("connected");
    peer.set_read_timeout(Some(Duration::from_secs(1))).expect("set");
    for datagram in ["cset rate 33\n", "p", "cset nonsense", "q"] {
        peer.send(datagram.as_bytes()).expect("sent");
    }
    // Loopback delivers before send returns.
    let list = List::default();
    socket.turn(&list);
    assert_eq!(list.taken(), [Change::Rate(33.0), Change::Pause(true), Change::SoftQuit]);
    assert!(remote.with(|state| state.said.clone()).is_some_and(|said| said.contains("set")));
}

#[test]
fn a_taken_control_port_is_named() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let mut network = Options::default().network;
    network.control_port = taken.local_addr().ok().map(|address| address.port());
    let why = Socket::bind(&network, remote()).expect_err("taken");
    assert!(why.contains("control socket") && why.contains("-cp"), "{why}");
}
