//! The clients' views of each other: the occupants of the room, and the presence of contacts.

use serde_json::Value;

/// The others as one client sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientView {
    /// Its bare address.
    pub user: String,
    /// Its full address.
    pub full: String,
    /// It has a session.
    pub is_up: bool,
    /// It is in the room.
    pub is_in_room: bool,
    /// The nicknames in the room, sorted.
    pub occupants: Vec<String>,
    /// The bare address of its contact.
    pub contact: String,
    /// The full addresses of the contact that are available, sorted.
    pub available: Vec<String>,
    /// The subscription to the contact as its roster has it.
    pub subscription: String,
}

impl ClientView {
    /// A view as `slixmpp/chaos.py` prints it.
    pub fn read(view: &Value) -> ClientView {
        let text = |name: &str| view[name].as_str().unwrap_or_default().to_owned();
        let texts = |name: &str| {
            let list = view[name].as_array().map(Vec::as_slice).unwrap_or_default();
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        ClientView {
            user: text("user"),
            full: text("full"),
            is_up: view["is_up"] == true,
            is_in_room: view["is_in_room"] == true,
            occupants: texts("occupants"),
            contact: text("contact"),
            available: texts("available"),
            subscription: text("subscription"),
        }
    }

    fn nick(&self) -> String {
        self.user.split('@').next().unwrap_or_default().to_owned()
    }
}

/// A line for each way in which the views differ from what is there: each client has a session and is in the room, sees exactly the
/// others there, and sees its contact's session.
pub fn differences(views: &[ClientView]) -> Vec<String> {
    let mut occupants: Vec<String> =
        views.iter().filter(|view| view.is_in_room).map(ClientView::nick).collect();
    occupants.sort_unstable();
    let mut found = Vec::new();
    for view in views {
        let user = &view.user;
        if !view.is_up {
            found.push(format!("{user} has no session"));
            continue;
        }
        if !view.is_in_room {
            found.push(format!("{user} is not in the room"));
        } else if view.occupants != occupants {
            found.push(format!("{user} sees {:?} in the room, and there are {occupants:?}", view.occupants));
        }
        let contact = contact_of(view, views);
        if let Some(contact) = contact.filter(|contact| !view.available.contains(&contact.full)) {
            found.push(format!(
                "{user} sees {:?} available, and there is {} (subscription {:?})",
                view.available, contact.full, view.subscription
            ));
        }
    }
    found
}

/// A line for each session that is shown as available and has ended.
pub fn ended_sessions(views: &[ClientView]) -> Vec<String> {
    let of_view = |view: &ClientView| {
        let contact = contact_of(view, views).map(|contact| contact.full.clone());
        let ended = view.available.iter().filter(|full| Some(*full) != contact.as_ref());
        ended.map(|full| format!("{} sees {full} available, which has ended", view.user)).collect::<Vec<_>>()
    };
    views.iter().flat_map(of_view).collect()
}

/// The contact of a client, if that has a session.
fn contact_of<'a>(view: &ClientView, views: &'a [ClientView]) -> Option<&'a ClientView> {
    views.iter().find(|other| other.user == view.contact && other.is_up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views() -> Vec<ClientView> {
        let view = |number: usize| ClientView {
            user: format!("u{number}@x"),
            full: format!("u{number}@x/r"),
            is_up: true,
            is_in_room: true,
            occupants: vec!["u0".to_owned(), "u1".to_owned()],
            contact: format!("u{}@x", 1 - number),
            available: vec![format!("u{}@x/r", 1 - number)],
            subscription: "both".to_owned(),
        };
        vec![view(0), view(1)]
    }

    #[test]
    fn views_that_agree_have_no_differences() {
        assert_eq!(differences(&views()), [""; 0]);
        assert_eq!(ended_sessions(&views()), [""; 0]);
    }

    #[test]
    fn each_difference_is_found() {
        type Change = fn(&mut ClientView);
        let changes: [(Change, &str); 5] = [
            (|view| view.is_up = false, "u1@x has no session"),
            (|view| view.is_in_room = false, "u1@x is not in the room"),
            (|view| view.occupants.push("u9".to_owned()), "u1@x sees [\"u0\", \"u1\", \"u9\"] in the room"),
            (|view| view.occupants.clear(), "u1@x sees [] in the room"),
            (|view| view.available.clear(), "u1@x sees [] available"),
        ];
        for (change, expected) in changes {
            let mut views = views();
            change(&mut views[1]);
            let found = differences(&views);
            assert!(found.iter().any(|line| line.starts_with(expected)), "{expected}: {found:?}");
        }
    }

    #[test]
    fn a_session_that_has_ended_is_found() {
        let mut views = views();
        views[1].available.push("u0@x/old".to_owned());
        assert_eq!(ended_sessions(&views), ["u1@x sees u0@x/old available, which has ended"]);
        assert_eq!(differences(&views), [""; 0]);
        views[0].is_up = false;
        assert_eq!(ended_sessions(&views).len(), 2);
    }
}
