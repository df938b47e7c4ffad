//! Authentication, and the effect of a suspension on the account's numbers.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::place::Place;
use crate::until;
use crate::voice::app::App;
use crate::voice::caller::Caller;

use super::calls::{VOICE, place};
use super::client::{Rest, SID};

#[test]
fn the_first_account_is_made_once_and_kept_where_only_the_operator_reads() {
    let place = Place::new(VOICE);
    let node = place.spawn();
    let file = place.path("data/rest-account");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let text = std::fs::read_to_string(&file).unwrap();
    let (sid, token) = text.trim_end().split_once(':').unwrap();
    let rest = Rest::new(&place).with_credentials(sid, token);
    assert_eq!((sid, token.len()), (SID, 32));
    assert_eq!(rest.get(".json")["friendly_name"], "Default account");
    assert!(!node.log().contains(token), "no secrets in logs");
    node.kill();
    let again = place.spawn();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    rest.get(".json");
    again.kill();
}

/// As Twilio's `RequestValidator(token).validate(url, form, signature)`: a number of the configuration, and one of REST.
#[test]
fn applications_validate_requests_with_the_accounts_token() {
    let application = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = |path: &str| format!("http://{}{path}", application.local_addr().unwrap());
    let numbers = format!("numbers = [{{ number = \"1234\", url = \"{}\" }}]\n", url("/configured"));
    let place = Place::new(&format!("{VOICE}{numbers}"));
    let _node = place.spawn();
    let text = std::fs::read_to_string(place.path("data/rest-account")).unwrap();
    let (sid, token) = text.trim_end().split_once(':').unwrap();
    let is_validated = |path: &str| {
        let (head, form) = request(&application);
        assert!(head.starts_with(&format!("POST {path} ")), "{head}");
        let signature = head.lines().find_map(|line| line.strip_prefix("x-twilio-signature: "));
        let form: Vec<(String, String)> = url::form_urlencoded::parse(&form).into_owned().collect();
        assert!(ivr::signature::verify(token, &url(path), &form, signature.expect("it is signed")), "{head}");
    };
    let mut caller = Caller::new(&place);
    let sdp = caller.sdp("8", "sendrecv");
    caller.invite(sdp);
    is_validated("/configured");
    let rest = Rest::new(&place).with_credentials(sid, token);
    let callback = url("/told");
    rest.post(
        "/Calls.json",
        &format!("To=client:nobody&From=%2B4321&Url={callback}&StatusCallback={callback}"),
    );
    is_validated("/told");
}

/// The next request, whose names of headers are in lower case; it is answered with an empty document.
fn request(listener: &TcpListener) -> (String, Vec<u8>) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "the request breaks off");
        bytes.extend_from_slice(&piece[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if bytes.len() < end + 4 + length.map_or(0, |length| length.parse().unwrap()) {
            continue;
        }
        let answer = "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: 11\r\n\r\n<Response/>";
        stream.write_all(answer.as_bytes()).unwrap();
        return (head, bytes[end + 4..].to_vec());
    }
}

#[test]
fn a_lost_token_is_replaced_while_the_node_runs() {
    let place = Place::new(VOICE);
    let _node = place.spawn();
    let belfry = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
        let output = command.current_dir(place.path(".")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let old = std::fs::read_to_string(place.path("data/rest-account")).unwrap();
    let shown = belfry(&["rest", "token", "--renew", SID]);
    let token = shown.lines().find_map(|line| line.strip_prefix("token ")).unwrap().trim().to_owned();
    let rest = Rest::new(&place);
    assert_eq!(rest.with_credentials(SID, &token).ask("GET", ".json", "").status, 200);
    let (_, old) = old.trim_end().split_once(':').unwrap();
    assert_eq!(rest.with_credentials(SID, old).ask("GET", ".json", "").status, 401);
    let kept = std::fs::read_to_string(place.path("data/rest-account")).unwrap();
    assert_eq!(kept, format!("{SID}:{token}\n"));
    let listed = belfry(&["rest", "accounts", "--json"]);
    assert!(listed.contains(SID) && !listed.contains(&token), "{listed}");
}

/// A key signs in as an account does: its secret is in no log, guesses at it are counted, and what changes it is in the audit log.
#[test]
fn an_api_key_signs_in_and_its_secret_is_in_no_log_and_no_file() {
    let place = place();
    let node = place.spawn();
    let rest = Rest::new(&place);
    let made = rest.post("/Keys.json", "FriendlyName=billing");
    let (key, secret) = (made["sid"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let status = |secret: &str, path: &str| {
        let credentials = STANDARD.encode(format!("{key}:{secret}"));
        let asked = format!("GET /2010-04-01/Accounts/{SID}{path} HTTP/1.1\r\nHost: a\r\n");
        rest.send(&format!("{asked}Authorization: Basic {credentials}\r\nConnection: close\r\n\r\n")).status
    };
    assert_eq!((status(secret, "/Calls.json"), status(secret, ".json")), (200, 401));
    assert_eq!(status("guess", "/Calls.json"), 401);
    until("the guess is in the log", || {
        node.log().lines().any(|line| line.contains("sign-in failed") && line.contains(key)).then_some(())
    });
    assert_eq!(rest.ask("DELETE", &format!("/Keys/{key}.json"), "").status, 204);
    assert_eq!(status(secret, "/Calls.json"), 401);
    until("both changes are in the audit log", || {
        let log = node.log();
        let of_key = |line: &&str| line.contains("belfry::audit") && line.contains(key) && line.contains(SID);
        let changes: Vec<&str> = log.lines().filter(of_key).collect();
        ["AddKey", "RemoveKey"]
            .iter()
            .all(|action| changes.iter().any(|line| line.contains(action)))
            .then_some(())
    });
    // Guesses are slow at a key, too.
    let statuses: Vec<u16> = (0..13).map(|_| status("guess", "/Calls.json")).collect();
    assert_eq!(statuses[12], 429, "{statuses:?}");
    assert!(!node.log().contains(secret), "no secrets in logs");
    for file in std::fs::read_dir(place.path("data")).unwrap() {
        let path = file.unwrap().path();
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let is_there = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!is_there, "{}", path.display());
    }
}

/// A token of an identity provider does what an API key does, for the account that it names.
#[test]
fn a_token_of_an_identity_provider_signs_in_for_the_account_that_it_names() {
    const SECRET: &[u8] = b"a secret of more than thirty-two bytes";
    let place = place().with_xmpp(
        "[[accounts.sources]]\ndomain = \"example.net\"\ntype = \"jwt\"\nkeys_file = \"keys.json\"\nissuer = \"i\"\n\
         audience = \"belfry\"\naccount_claim = \"belfry_account\"\n",
    );
    let keys = format!("{{\"keys\":[{{\"kty\":\"oct\",\"k\":\"{}\"}}]}}", URL_SAFE_NO_PAD.encode(SECRET));
    std::fs::write(place.path("keys.json"), keys).unwrap();
    let node = place.spawn();
    let rest = Rest::new(&place);
    let token = |audience: &str, end: u64, account: &str| {
        let claims = format!(
            "{{\"iss\":\"i\",\"aud\":\"{audience}\",\"exp\":{end},\"sub\":\"alice\",\"belfry_account\":\"{account}\"}}"
        );
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let message = format!("{}.{}", encode("{\"alg\":\"HS256\"}"), encode(&claims));
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).unwrap();
        mac.update(message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    };
    let ask = |token: &str, account: &str, path: &str| {
        rest.send(&format!(
            "GET /restcomm/2012-04-24/Accounts/{account}{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\n\r\n"
        ))
    };
    let right = token("belfry", 4_000_000_000, SID);
    let answer = ask(&right, SID, "/Calls.json");
    assert_eq!(answer.status, 200, "{}\n{}", answer.body, node.log());
    assert_eq!(ask(&right, SID, "/Keys.json").fault(), (401, 20003), "as an API key");
    let below = rest.ask_path("POST", "/Accounts.json", "").json();
    assert_eq!(ask(&right, below["sid"].as_str().unwrap(), "/Calls.json").fault(), (404, 20404));
    for wrong in [
        token("another", 4_000_000_000, SID),
        token("belfry", 1, SID),
        token("belfry", 4_000_000_000, "ACae6e420f425248d6a26948c17a9e2acd"),
        format!("{right}x"),
    ] {
        let refused = ask(&wrong, SID, "/Calls.json");
        assert_eq!(refused.fault(), (401, 20003), "{wrong}");
        assert!(refused.head.contains("www-authenticate: bearer error"), "{}", refused.head);
    }
    let log = node.log();
    let is_line = |line: &&str| {
        line.contains("belfry::audit")
            && line.contains("action=\"SignIn\"")
            && line.contains("alice@example.net")
    };
    assert_eq!(log.lines().filter(is_line).count(), 1, "{log}");
    assert!(!log.contains(&right), "no token is in the log");
}

#[test]
fn a_wrong_token_is_refused_and_guessing_is_slowed_down() {
    let place = place();
    let _node = place.spawn();
    let rest = Rest::new(&place);
    let guesser = rest.with_credentials(SID, "guess");
    let statuses: Vec<u16> = (0..13).map(|_| guesser.ask("GET", "/Calls.json", "").status).collect();
    assert_eq!((statuses[9], statuses[12]), (401, 429), "{statuses:?}");
    let refused = guesser.ask("GET", "/Calls.json", "");
    assert!(refused.head.contains("retry-after: "), "{}", refused.head);
    // The rest of the port has no passwords.
    assert_eq!(rest.metric("belfry_voice_calls"), 0.0);
}

#[test]
fn behind_a_trusted_proxy_only_the_guessing_client_is_slowed_down() {
    for (trusted, other) in [("\"127.0.0.1\"", 401), ("", 429)] {
        let place = place().with_http(&format!("trusted_proxies = [{trusted}]"));
        let _node = place.spawn();
        let rest = Rest::new(&place);
        // Entries that the client itself has written stand before the proxy's.
        let guess = |client: &str| {
            let request = format!(
                "GET /restcomm/2012-04-24/Accounts/{SID}.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                 X-Forwarded-For: 198.51.100.1, {client}\r\nAuthorization: Basic QUM6Z3Vlc3M=\r\n\r\n"
            );
            rest.send(&request).status
        };
        let statuses: Vec<u16> = (0..13).map(|host| guess(&format!("2001:db8::{host}"))).collect();
        assert_eq!(statuses[12], 429, "all addresses of a /64 are one source: {statuses:?}");
        assert_eq!(guess("203.0.113.9"), other, "{trusted}");
    }
}

#[test]
fn calls_to_numbers_of_a_suspended_account_are_refused() {
    let app = App::new(&[("/", "<Response><Say>hello</Say><Pause length='600'/></Response>")]);
    let place = place();
    let _node = place.spawn();
    let rest = Rest::new(&place);
    let below = rest.ask_path("POST", "/Accounts.json", "FriendlyName=Below").json();
    let (sid, token) = (below["sid"].as_str().unwrap(), below["auth_token"].as_str().unwrap());
    let other_account = rest.with_credentials(sid, token);
    let form = format!("PhoneNumber=1234&VoiceUrl=http://{}/", app.address);
    assert_eq!(other_account.ask("POST", "/IncomingPhoneNumbers.json", &form).fault(), (403, 20403));
    let bound = rest.post("/IncomingPhoneNumbers.json", &form);
    let number = format!("/IncomingPhoneNumbers/{}.json", bound["sid"].as_str().unwrap());
    assert_eq!(rest.post(&number, &format!("AccountSid={sid}"))["account_sid"], sid);
    let mut caller = Caller::new(&place);
    let status = |caller: &mut Caller| {
        let sdp = caller.sdp("8", "sendrecv");
        let invite = caller.invite(sdp);
        caller.phone.final_of(&invite.ask).status()
    };
    let accounts = |form: &str| {
        let answer = rest.ask_path("POST", &format!("/Accounts/{sid}.json"), form);
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    accounts("Status=suspended");
    assert_eq!(status(&mut caller), 403);
    assert_eq!(other_account.ask("GET", "/Calls.json", "").fault(), (403, 20005));
    accounts("Status=active");
    assert_eq!(status(&mut caller), 200);
    assert_eq!(app.asked_for("/").unwrap()["AccountSid"], sid);
}
