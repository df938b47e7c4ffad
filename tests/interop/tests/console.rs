//! The operators' console, in a real browser.

use std::time::Duration;

use interop::{Account, DOMAIN, Node, Ports, Sipp, drive_console_in_chromium};

/// A name that would be an element, if a page made markup of it.
const MARKUP: &str = "<img src=x onerror=\"document.title='broken'\">";

#[test]
fn an_operator_sees_each_page_changes_what_the_role_permits_and_reaches_no_other_host() {
    let ports = Ports::reserve(3);
    let answerer = Sipp::answering("-uas", 4);
    let address = |user: &str| format!("{user}@{DOMAIN}");
    let node = Node::prepare()
        .with_sections(&format!(
            "[xmpp]\nlisten = [\"tcp:127.0.0.1:{}\"]\n\
             [console]\nlisten = \"127.0.0.1:{}\"\nadmins = [\"{}\"]\nreaders = [\"{}\"]\n",
            ports.first() + 1,
            ports.first(),
            address("root"),
            address("eye")
        ))
        .with_account("root", "a long secret")
        .with_account("eye", "a long secret")
        .with_open_route("service", answerer.port);
    node.run(&["account", "add", &address("marked"), "--password", "another", "--name", MARKUP]);
    node.run(&["route", "add", "trunk", "prefix:+49", "sip:192.0.2.7:5060"]);
    let node = node.started();
    Sipp::calling("-uac", node.port, "service", 3, 10).succeeds();
    // One call that is up while the browser looks, and ends with the test; and a phone.
    let _held = Sipp::holding(node.port, "service", Duration::from_secs(600));
    let phone = Account::new("marked", "another");
    Sipp::for_accounts("register-log.xml", node.port, &[phone], ports.first() + 2, 10).succeeds();
    drive_console_in_chromium(
        &format!("http://127.0.0.1:{}/", ports.first()),
        &serde_json::json!({
            "admin": address("root"),
            "reader": address("eye"),
            "password": "a long secret",
            "domain": DOMAIN,
            "markup": MARKUP,
            "sip": node.port,
        }),
    );
}
