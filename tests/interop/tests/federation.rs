//! Other chat servers that are not ours: users meet across, contacts, rooms on either side.

use std::path::PathBuf;

use interop::{
    Authority, DOMAIN, Ejabberd, Node, Prosody, free_port, keep_block_list_with_slixmpp, meet_with_slixmpp,
};

/// Our node, and where clients connect.
struct Ours {
    node: Node,
    client: u16,
    /// That clients have to trust.
    certificate: PathBuf,
}

/// alice's server. `routes`: where the other one is, in our configuration.
fn ours(server: u16, routes: &str, authority: Option<&Authority>) -> Ours {
    ours_with("", server, routes, authority)
}

/// `more` goes into `[xmpp]`.
fn ours_with(more: &str, server: u16, routes: &str, authority: Option<&Authority>) -> Ours {
    let client = free_port();
    let mut sections = format!(
        "[xmpp]\nlisten = [\"tcp:127.0.0.1:{client}\"]\n{more}\n\
         [xmpp.federation]\nlisten = [\"tcp:127.0.0.1:{server}\"]\n{routes}\n"
    );
    let mut certificate = None;
    if let Some(authority) = authority {
        let own = authority.certify(DOMAIN);
        sections += &format!(
            "require_certificate = true\n[tls]\ncertificate = {:?}\nkey = {:?}\nca = {:?}\n",
            own.certificate,
            own.key,
            authority.certificate()
        );
        certificate = Some(authority.certificate());
    }
    let node = Node::prepare().with_sections(&sections).with_account("alice", "secret").started();
    let certificate = certificate.unwrap_or_else(|| node.certificate());
    Ours { node, client, certificate }
}

/// `way` is `tcp` or, for TLS from the first byte, `tls`.
fn routes(way: &str, domain: &str, port: u16) -> String {
    format!("routes = [\"{domain}={way}:127.0.0.1:{port}\", \"*.{domain}={way}:127.0.0.1:{port}\"]")
}

impl Ours {
    fn meet(&self, port: u16, user: &str, tail: impl Fn() -> String) {
        let alice = format!("alice@{DOMAIN}");
        let met = meet_with_slixmpp(&self.certificate, (self.client, &alice), (port, user));
        if let Err(output) = met {
            panic!("{output}\n{}\n{}", self.node.tail(), tail());
        }
    }

    /// True if a line of the node's log has all of that.
    fn has_said(&self, words: &[&str]) -> bool {
        self.node.tail().lines().any(|line| words.iter().all(|word| line.contains(word)))
    }

    /// alice's server has connected to that domain, and proved itself so.
    #[track_caller]
    fn has_connected(&self, domain: &str, by: &str) {
        let remote = format!("remote=\"{domain}\"");
        let is_so = self.has_said(&["connected to another server", &remote, by, "encrypted=true"]);
        assert!(is_so, "{}", self.node.tail());
    }

    /// That domain has connected to alice's server to say something. Not if answers go back where questions came from.
    fn was_connected(&self, domain: &str) -> bool {
        let remote = format!("remote=\"{domain}\"");
        self.has_said(&["another server connected", &format!("local=\"{DOMAIN}\""), &remote])
    }
}

#[test]
fn users_meet_users_of_prosody_by_dialback() {
    let server = free_port();
    let prosody = Prosody::start("prosody.test", &["bob"], server, None);
    let ours = ours(server, &routes("tcp", "prosody.test", prosody.server), None);
    ours.meet(prosody.client, "bob@prosody.test", || prosody.tail());
    ours.has_connected("prosody.test", "Dialback");
}

#[test]
fn users_meet_users_of_prosody_by_certificate_over_direct_tls() {
    let (server, authority) = (free_port(), Authority::new());
    let prosody = Prosody::start("prosody.test", &["bob"], server, Some(&authority));
    let ours = ours(server, &routes("tls", "prosody.test", prosody.direct), Some(&authority));
    ours.meet(prosody.client, "bob@prosody.test", || prosody.tail());
    ours.has_connected("prosody.test", "Certificate");
    assert!(!ours.was_connected("prosody.test"), "XEP-0288");
}

#[test]
fn users_meet_users_of_ejabberd_by_dialback() {
    let server = free_port();
    let ejabberd = Ejabberd::start("ejabberd.test", &["bob"], server, None);
    let ours = ours(server, &routes("tcp", "ejabberd.test", ejabberd.server), None);
    ours.meet(ejabberd.client, "bob@ejabberd.test", || ejabberd.tail());
    ours.has_connected("ejabberd.test", "Dialback");
    assert!(ours.was_connected("ejabberd.test"), "it knows no XEP-0288");
}

#[test]
fn users_meet_users_of_ejabberd_by_certificate() {
    let (server, authority) = (free_port(), Authority::new());
    let ejabberd = Ejabberd::start("ejabberd.test", &["bob"], server, Some(&authority));
    let ours = ours(server, &routes("tcp", "ejabberd.test", ejabberd.server), Some(&authority));
    ours.meet(ejabberd.client, "bob@ejabberd.test", || ejabberd.tail());
    ours.has_connected("ejabberd.test", "Certificate");
    assert!(ours.was_connected("ejabberd.test"), "it knows no XEP-0288");
}

#[test]
fn rooms_refuse_the_addresses_of_a_block_list_at_prosody() {
    let server = free_port();
    let prosody = Prosody::start("prosody.test", &["bob", "carol", "dave"], server, None);
    let list = "block_lists = [{ service = \"pubsub.prosody.test\" }]";
    let ours = ours_with(list, server, &routes("tcp", "prosody.test", prosody.server), None);
    let users = ["bob@prosody.test", "carol@prosody.test", "dave@prosody.test"];
    let kept = keep_block_list_with_slixmpp(prosody.client, users, &format!("den@conference.{DOMAIN}"));
    if let Err(output) = kept {
        panic!("{output}\n{}\n{}", ours.node.tail(), prosody.tail());
    }
    assert!(ours.has_said(&["this block list is followed", "pubsub.prosody.test"]), "{}", ours.node.tail());
}
