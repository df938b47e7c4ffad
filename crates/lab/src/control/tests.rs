//! Keys and datagrams, against a list instead of a run.

use std::cell::RefCell;
use std::net::UdpSocket;
use std::time::Duration;

use lab_sip::call::ScenarioRole;
use lab_sip::options::Options;
use lab_sip::trace::Trace;
use ratatui::crossterm::event::KeyCode;

use super::keys::Keys;
use super::udp::ControlSocket;
use super::{CommandTarget, OperatorCommand, command, key, obey};
use crate::engine::RunChange;
use crate::screen::tests::{options, setup, uac};
use crate::screen::{RunHandle, ScreenPage};

#[derive(Default)]
struct List(RefCell<Vec<RunChange>>);

impl CommandTarget for List {
    fn change(&self, change: RunChange) {
        self.0.borrow_mut().push(change);
    }
}

impl List {
    fn taken(&self) -> Vec<RunChange> {
        self.0.take()
    }
}

fn remote() -> RunHandle {
    RunHandle::new(&setup(options(), uac()))
}

#[test]
fn keys_step_the_rate_by_the_scale_and_the_scale_changes_no_rate() {
    let (list, remote) = (List::default(), remote());
    let press_all = || {
        for pressed in ['+', '*', '-', '/'] {
            obey(&list, &remote, &key(pressed).expect("a key"));
        }
        list.taken()
    };
    assert_eq!(press_all(), [1.0, 10.0, -1.0, -10.0].map(RunChange::Step));
    obey(&list, &remote, &command("set rate-scale 5").expect("a command"));
    assert_eq!(press_all(), [5.0, 50.0, -5.0, -50.0].map(RunChange::Step));
}

#[test]
fn a_run_of_users_takes_no_rate_and_no_limit_and_other_runs_no_users() {
    let texts = ["set rate 5", "set limit 10", "set users 7"];
    let mut with_users = options();
    with_users.rate.users = Some(50);
    for (options, taken, says) in [
        (options(), vec![RunChange::Rate(5.0), RunChange::Limit(10)], vec!["Users can not be changed"]),
        (with_users, vec![RunChange::Users(7)], vec!["Rates can not be set", "Can not set call limit"]),
    ] {
        let (list, remote) = (List::default(), RunHandle::new(&setup(options, uac())));
        let mut said = Vec::new();
        for text in texts {
            obey(&list, &remote, &command(text).expect("a command"));
            said.extend(remote.with(|state| state.said.take()));
        }
        assert_eq!(list.taken(), taken);
        assert!(
            said.len() == says.len() && said.iter().zip(says).all(|(is, it)| is.starts_with(it)),
            "{said:?}"
        );
    }
}

#[test]
fn the_second_quit_is_hard() {
    let (list, remote) = (List::default(), remote());
    for _ in 0..2 {
        obey(&list, &remote, &OperatorCommand::Quit);
    }
    assert_eq!(list.taken(), [RunChange::SoftQuit, RunChange::HardQuit]);
    obey(&list, &remote, &key('Q').expect("a key"));
    assert_eq!(list.taken(), [RunChange::HardQuit]);
}

#[test]
fn pause_toggles_and_screens_are_asked_for() {
    let (list, remote) = (List::default(), remote());
    for pressed in ['p', 'p', 's', '6'] {
        obey(&list, &remote, &key(pressed).expect("a key"));
    }
    assert_eq!(list.taken(), [RunChange::Pause(true), RunChange::Pause(false)]);
    remote.with(|state| {
        assert!(state.dump);
    });
    assert_eq!(remote.shown().get(), ScreenPage::Repartition(1).key());
    obey(&list, &remote, &key('0').expect("a key"));
    assert_eq!(remote.shown().get(), 0, "the live view");
}

#[test]
fn commands_are_read_and_mistakes_explained() {
    assert_eq!(command("set rate 100"), Ok(OperatorCommand::Rate(100.0)));
    assert_eq!(command("set rate-scale 5"), Ok(OperatorCommand::RateScale(5.0)));
    assert_eq!(command("set users 12"), Ok(OperatorCommand::Users(12)));
    assert_eq!(command("set limit 7"), Ok(OperatorCommand::Limit(7)));
    assert_eq!(command("reset stats"), Ok(OperatorCommand::ResetStats));
    assert_eq!(command("set hide false"), Ok(OperatorCommand::Hide(false)));
    assert_eq!(command("set display ooc"), Ok(OperatorCommand::Display(ScenarioRole::OutOfCall)));
    assert_eq!(command("trace error on"), Ok(OperatorCommand::Trace(Trace::Errors, true)));
    assert_eq!(command("trace messages true"), Ok(OperatorCommand::Trace(Trace::Messages, true)));
    assert_eq!(command("trace messages false"), Ok(OperatorCommand::Trace(Trace::Messages, false)));
    assert_eq!(command("trace shortmessages off"), Ok(OperatorCommand::Trace(Trace::ShortMessages, false)));
    assert_eq!(command("dump tasks"), Ok(OperatorCommand::DumpTasks));
    assert_eq!(command("dump variables"), Ok(OperatorCommand::DumpVariables));
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
    assert_eq!(list.taken(), [RunChange::Rate(42.0)]);
    keys.press(&list, KeyCode::Char('c'), true);
    assert_eq!(list.taken(), [RunChange::Terminate], "Ctrl-C");
}

#[test]
fn datagrams_change_the_run() {
    let mut network = Options::default().network;
    network.control_port = Some(0);
    let remote = remote();
    let mut socket = ControlSocket::bind(&network, remote.clone()).expect("a free port");
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    peer.connect(socket.address().expect("bound")).expect("connected");
    peer.set_read_timeout(Some(Duration::from_secs(1))).expect("set");
    for datagram in ["cset rate 33\n", "p", "cset nonsense", "q"] {
        peer.send(datagram.as_bytes()).expect("sent");
    }
    // Loopback delivers before send returns.
    let list = List::default();
    socket.turn(&list);
    assert_eq!(list.taken(), [RunChange::Rate(33.0), RunChange::Pause(true), RunChange::SoftQuit]);
    assert!(remote.with(|state| state.said.clone()).is_some_and(|said| said.contains("set")));
}

#[test]
fn a_taken_control_port_is_named() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let mut network = Options::default().network;
    network.control_port = taken.local_addr().ok().map(|address| address.port());
    let why = ControlSocket::bind(&network, remote()).expect_err("taken");
    assert!(why.contains("control socket") && why.contains("-cp"), "{why}");
}
