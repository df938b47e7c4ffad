//! A running node with its REST interface, accounts whose phones are called, and an application.

use serde_json::Value;
use store::types::RoutePolicy;

use crate::place::{Place, Process};
use crate::until;
use crate::voice::app::{App, Form};

use super::calls::VOICE;
use super::client::{Rest, TOKEN};

pub(super) type Documents = &'static [(&'static str, &'static str)];

pub(super) struct Site {
    pub(super) app: App,
    pub(super) place: Place,
    pub(super) rest: Rest,
    node: Option<Process>,
}

impl Site {
    /// Documents whose path is a number answer it; bob and carol have accounts.
    pub(super) fn new(documents: Documents) -> Site {
        Site::with_route(documents, None)
    }

    /// Calls to that number go to that peer.
    pub(super) fn with_route(documents: Documents, route: Option<(&str, std::net::SocketAddr)>) -> Site {
        Site::with_place(documents, "", |place| match route {
            Some((number, peer)) => place.with_route(number, peer),
            None => place,
        })
    }

    /// As `with_route`, with limits.
    pub(super) fn with_policy(
        documents: Documents,
        number: &str,
        peer: std::net::SocketAddr,
        policy: RoutePolicy,
    ) -> Site {
        Site::with_place(documents, "", |place| place.with_policy(number, peer, true, policy))
    }

    /// As `new`, with more lines in the section `[voice]`.
    pub(super) fn with_voice(documents: Documents, more: &str) -> Site {
        Site::with_place(documents, more, |place| place)
    }

    fn with_place(documents: Documents, more: &str, change: impl FnOnce(Place) -> Place) -> Site {
        let app = App::new(documents);
        let is_number = |path: &str| path.len() > 1 && path[1..].chars().all(|c| c.is_ascii_digit());
        let numbers: Vec<String> = documents
            .iter()
            .filter(|(path, _)| is_number(path))
            .map(|(path, _)| {
                format!("{{ number = \"{}\", url = \"http://{}{path}\" }}", &path[1..], app.address)
            })
            .collect();
        let numbers = numbers.join(", ");
        let place = Place::new(&format!("{VOICE}auth_token = \"{TOKEN}\"\nnumbers = [{numbers}]\n{more}"))
            .with_accounts(&["bob", "carol"]);
        let place = change(place);
        let node = place.spawn();
        let rest = Rest::new(&place);
        Site { app, place, rest, node: Some(node) }
    }

    /// Kills the node with its calls, and starts it again.
    pub(super) fn kill_and_start(&mut self) {
        if let Some(node) = self.node.take() {
            node.kill();
        }
        self.node = Some(self.place.spawn());
    }

    /// As a form; `{app}` stands for the application.
    pub(super) fn form(&self, fields: &[(&str, &str)]) -> String {
        let app = format!("http://{}", self.app.address);
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in fields {
            form.append_pair(name, &value.replace("{app}", &app));
        }
        form.finish()
    }

    #[track_caller]
    pub(super) fn post(&self, path: &str, fields: &[(&str, &str)]) -> Value {
        self.rest.post(path, &self.form(fields))
    }

    /// Asks for a call from +4321; its sid.
    #[track_caller]
    pub(super) fn call(&self, to: &str, fields: &[(&str, &str)]) -> String {
        let fields: Vec<_> = [("To", to), ("From", "+4321")].iter().chain(fields).copied().collect();
        let call = self.post("/Calls.json", &fields);
        assert_eq!((&call["status"], &call["direction"]), (&"queued".into(), &"outbound-api".into()));
        call["sid"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(super) fn change(&self, call: &str, fields: &[(&str, &str)]) -> Value {
        self.post(&format!("/Calls/{call}.json"), fields)
    }

    /// Waits until the record says so of the call.
    #[track_caller]
    pub(super) fn until_status(&self, call: &str, status: &str) -> Value {
        let path = format!("/Calls/{call}.json");
        until(status, || Some(self.rest.get(&path)).filter(|call| call["status"] == status))
    }

    /// Waits for so many in a list.
    #[track_caller]
    pub(super) fn until_listed(&self, path: &str, name: &str, count: usize) -> Vec<Value> {
        until(&format!("{count} are in {path}"), || {
            let all = self.rest.get(path)[name].as_array().unwrap().clone();
            (all.len() == count).then_some(all)
        })
    }

    /// Waits for so many callbacks, and gives them in the order of their numbers: they are under way at once.
    #[track_caller]
    pub(super) fn callbacks(&self, path: &str, count: usize) -> Vec<Form> {
        until(&format!("{path} is told {count} times"), || {
            let asked = self.app.asked.lock().unwrap();
            let mut callbacks: Vec<Form> =
                asked.iter().filter(|(asked, _)| asked == path).map(|(_, form)| form.clone()).collect();
            callbacks
                .sort_by_key(|form| form.get("SequenceNumber").map(|number| number.parse::<u32>().unwrap()));
            (callbacks.len() == count).then_some(callbacks)
        })
    }

    #[track_caller]
    pub(super) fn asked(&self, path: &str) -> Form {
        until(&format!("{path} is asked for"), || self.app.asked_for(path))
    }

    #[track_caller]
    pub(super) fn nothing_left(&self) {
        self.rest.nothing_left();
    }
}
