//! The REST interface, asked by an unmodified client.

use std::process::Command;
use std::time::Duration;

use interop::{Baresip, Node, Sipp, document_at, drive_with_twilio, wait_until};

const SID: &str = "ACae6e420f425248d6a26948c17a9e2acf";
const TOKEN: &str = "a token of the test";

#[test]
fn twilios_library_finds_changes_and_ends_a_live_call() {
    let application = document_at("<Response><Say>hello</Say><Pause length='120'/></Response>");
    let node = Node::prepare()
        .with_sections(&format!(
            "[voice]\nmedia = \"127.0.0.1\"\nmedia_ports = \"30000-30999\"\nopen = true\nallow_private = true\n\
             auth_token = \"{TOKEN}\"\nnumbers = [{{ number = \"1234\", url = \"http://{application}/\" }}]\n"
        ))
        .with_account("alice", "secret")
        .started();
    // Answers by itself and sends back what it hears.
    let phone = Baresip::answering("alice", "secret", node.port);
    phone.wait_until_registered();
    // It hangs up by itself only when the test has failed.
    let caller = Sipp::holding(node.port, "1234", Duration::from_secs(60));
    let mut live = String::new();
    wait_until(
        "the call is in the record",
        Duration::from_secs(20),
        || {
            live = first_call(node.http).unwrap_or_default();
            !live.is_empty()
        },
        || node.tail(),
    );
    drive_with_twilio(node.http, SID, TOKEN, &[&live]);
    drop(caller);
}

/// The sid of the newest call.
fn first_call(http: u16) -> Option<String> {
    let url = format!("http://127.0.0.1:{http}/2010-04-01/Accounts/{SID}/Calls.json");
    let user = format!("{SID}:{TOKEN}");
    let output = Command::new("curl").args(["--silent", "--user", &user, &url]).output().expect("curl");
    let page: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(page["calls"][0]["sid"].as_str()?.to_owned())
}
