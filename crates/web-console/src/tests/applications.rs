//! Numbers, applications, tests of documents and recordings, over a database of the test's own and a node that has one recording.

use std::io::Cursor;
use std::net::IpAddr;

use admin::control::{
    Audio, CallChange, ConferenceChange, ControlError, ControlPlane, Document, EncodeError, Encoding,
    Participant, ParticipantChange, QueueMember, RecordingChange, StartCall, StartRecording,
};
use admin::first::ensure_account;
use admin::{Blocking, ManagedResources, Repository, chat};
use ivr::request::Wire;
use ivr::script::FetchResponse;
use store::rest::token::TokenVerifier;
use store::rest::types::{Common, Hook, IncomingNumber, Recording, RestAccount, TextMessage};
use store::rest::{Resource as _, RestWrite};
use store::{Admin, ScramHash, ScramKeys, Sqlite, StoreError, Write};
use tempfile::TempDir;
use voice::{ConfiguredNumber, NumberSettings, Numbers};

use super::*;
use crate::{DocumentSource, Fetched, NumberSource};

pub(super) const FIRST: &str = "AC00000000000000000000000000000001";
const RECORDING: &str = "RE00000000000000000000000000000007";

/// A node whose recordings have ten bytes, with the calls in conferences and queues that a test gives it.
struct Plane {
    clock: Clock,
    removed: Arc<Mutex<Vec<String>>>,
    live: Arc<Mutex<LiveCalls>>,
}

/// Calls in the conference and in the queue of a test, which the node has in memory.
#[derive(Default)]
pub(super) struct LiveCalls {
    pub(super) participants: Vec<Participant>,
    pub(super) waiting: Vec<QueueMember>,
    /// The changes that the node was asked for.
    pub(super) changes: Vec<String>,
}

impl Source for Plane {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.clock.fill_random(bytes);
    }
}

type Done = Result<(), ControlError>;

impl ControlPlane for Plane {
    fn start_call(&self, _: StartCall) -> Done {
        Err(ControlError::NotFound)
    }

    fn modify_call(&self, _: &str, _: CallChange) -> Done {
        Err(ControlError::NotFound)
    }

    fn modify_conference(&self, sid: &str, change: ConferenceChange) -> Done {
        let ConferenceChange { complete, announce_url, .. } = change;
        self.live.lock().unwrap().changes.push(format!("conference {sid} {complete} {announce_url:?}"));
        Ok(())
    }

    fn participants(&self, _: &str) -> Result<Vec<Participant>, ControlError> {
        Ok(self.live.lock().unwrap().participants.clone())
    }

    fn modify_participant(&self, _: &str, call: &str, change: ParticipantChange) -> Done {
        let mut live = self.live.lock().unwrap();
        let known = live.participants.len();
        live.participants.retain(|one| !(change.kick && one.call_sid == call));
        if live.participants.len() < known { Ok(()) } else { Err(ControlError::NotFound) }
    }

    fn queue_members(&self, _: &str) -> Result<Vec<QueueMember>, ControlError> {
        Ok(self.live.lock().unwrap().waiting.clone())
    }

    fn all_queue_members(&self, queue: &str) -> Result<Vec<QueueMember>, ControlError> {
        self.queue_members(queue)
    }

    fn dequeue(&self, _: &str, call: Option<&str>, to: Document) -> Result<QueueMember, ControlError> {
        let mut live = self.live.lock().unwrap();
        let index = live.waiting.iter().position(|one| Some(&*one.call_sid) == call);
        let member = live.waiting.remove(index.ok_or(ControlError::NotFound)?);
        live.changes.push(format!("{} to {to:?}", member.call_sid));
        Ok(member)
    }

    fn start_recording(&self, _: &str, _: &str, _: &StartRecording) -> Done {
        Err(ControlError::NotFound)
    }

    fn modify_recording(&self, _: &str, _: RecordingChange) -> Done {
        Err(ControlError::NotFound)
    }

    fn recording(&self, _: &str, _: &str) -> Result<Audio, EncodeError> {
        Ok(Audio { media_type: "audio/x-wav", length: 10, read: Box::new(Cursor::new(b"0123456789")) })
    }

    fn recording_as_mp3(&self, _: &str, _: &str) -> Encoding {
        Box::pin(std::future::ready(Err(EncodeError::NoEncoder)))
    }

    fn remove_recording(&self, sid: &str, _: &str) -> Result<(), EncodeError> {
        self.removed.lock().unwrap().push(sid.to_owned());
        Ok(())
    }

    fn send_message(&self, _: &TextMessage, _: &str) -> Done {
        Err(ControlError::NotFound)
    }

    fn chat(&self, _: chat::Ask) -> Result<chat::Answer, ControlError> {
        Ok(chat::Answer::Done)
    }

    fn sign_in_failed(&self, _: IpAddr, _: &str, _: Cause) {}

    fn key_changed(&self, _: &str, _: &'static str, _: &str) {}
}

/// An application that answers every request with one document, and keeps the requests.
struct Application {
    document: &'static str,
    asked: Arc<Mutex<Vec<Wire>>>,
}

impl DocumentSource for Application {
    fn fetch(&self, request: Wire) -> Fetched {
        self.asked.lock().unwrap().push(request);
        let response = FetchResponse { status: 200, body: self.document.into(), ..FetchResponse::default() };
        Box::pin(std::future::ready(Ok(response)))
    }
}

/// The numbers of the test's database, and of a configuration.
struct Bound(NumberSettings, Arc<Blocking>);

impl NumberSource for Bound {
    fn numbers(&self) -> Result<Arc<Numbers>, StoreError> {
        Numbers::load(&self.0, &*self.1).map(Arc::new)
    }
}

pub(super) struct WorldOfApplications {
    pub(super) world: World,
    pub(super) repository: Arc<Blocking>,
    pub(super) live: Arc<Mutex<LiveCalls>>,
    removed: Arc<Mutex<Vec<String>>>,
    asked: Arc<Mutex<Vec<Wire>>>,
    _folder: TempDir,
}

fn keys(_: &str) -> Arc<[(ScramHash, ScramKeys)]> {
    Vec::new().into()
}

pub(super) fn applications(document: &'static str) -> WorldOfApplications {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path().join("belfry.db")).unwrap();
    let repository = Arc::new(Blocking::new(Admin::new(&store).unwrap()));
    let removed = Arc::<Mutex<Vec<String>>>::default();
    let clock = Clock { seconds: AtomicU64::new(1_800_000_000), drawn: AtomicU64::new(1) };
    let live = Arc::<Mutex<LiveCalls>>::default();
    let plane = Arc::new(Plane { clock, removed: Arc::clone(&removed), live: Arc::clone(&live) });
    ensure_account(&*repository, &*plane, FIRST, Some("a token")).unwrap();
    let state =
        admin::State::new(Arc::clone(&repository) as _, plane, "example.test", "https://example.test", keys);
    let asked = Arc::<Mutex<Vec<Wire>>>::default();
    let source = Application { document, asked: Arc::clone(&asked) };
    let configured = ConfiguredNumber {
        number: "700".into(),
        url: "http://desk.example.net/".into(),
        method: ivr::request::Method::Post,
        fallback: None,
    };
    let settings = NumberSettings { account: FIRST.into(), numbers: vec![configured], ..Default::default() };
    let world = world_with(Applications {
        numbers: Some(Arc::new(Bound(settings, Arc::clone(&repository)))),
        resources: Some(ManagedResources::new(state)),
        documents: Some(Arc::new(source)),
    });
    WorldOfApplications { world, repository, live, removed, asked, _folder: folder }
}

#[tokio::test]
async fn a_number_is_bound_changed_tested_and_unbound_by_an_admin() {
    let mut all = applications("<Response><Say>hello</Say></Response>");
    let world = &mut all.world;
    let (reader, operator, admin) =
        (world.sign_in("eye").await, world.sign_in("op").await, world.sign_in("root").await);
    let made = json!({ "name": "Menu", "voice_url": "https://u:secret@app.example.net/menu", "voice_method": "GET" });
    let made = world.ask(&admin, "POST", "/applications", Some(made)).await;
    assert_eq!(made.status, StatusCode::OK, "{}", made.body);
    let application = made.body["resource"]["sid"].as_str().unwrap().to_owned();
    let number = json!({ "number": "1234", "voice_application": application });
    assert_eq!(
        world.ask(&operator, "POST", "/numbers", Some(number.clone())).await.status,
        StatusCode::FORBIDDEN
    );
    let bound = world.ask(&admin, "POST", "/numbers", Some(number.clone())).await;
    assert_eq!(bound.body["resource"]["phone_number"], "+1234", "{}", bound.body);
    let taken = world.ask(&admin, "POST", "/numbers", Some(number)).await;
    assert_eq!(taken.status, StatusCode::BAD_REQUEST);
    assert!(taken.body["error"].as_str().unwrap().contains("bound already"), "{}", taken.body);
    let sid = bound.body["resource"]["sid"].as_str().unwrap().to_owned();
    let path = format!("/numbers/{sid}");

    // Addresses of applications may have passwords in them.
    assert_eq!(world.ask(&reader, "GET", "/numbers", None).await.status, StatusCode::FORBIDDEN);
    let listed = world.ask(&operator, "GET", "/numbers?limit=1", None).await;
    assert_eq!((&listed.body["total"], &listed.body["has_more"]), (&json!(1), &json!(false)));
    let tested = world.ask(&operator, "POST", "/documents/test", Some(json!({ "number": sid }))).await;
    assert_eq!(tested.body["end"], "over", "{}", tested.body);
    let request = all.asked.lock().unwrap().pop().unwrap();
    assert!(request.url.starts_with("https://u:secret@app.example.net/menu?"), "{request:?}");
    assert!(request.url.contains("To=%2B1234") && !request.signature.is_empty(), "{request:?}");

    let changed = json!({ "number": "+1 (234) 5", "name": "Front", "voice_url": "http://app.example.net/" });
    let changed = world.ask(&admin, "PUT", &path, Some(changed)).await;
    let now = &changed.body["resource"];
    assert_eq!((&now["phone_number"], &now["friendly_name"]), (&json!("+12345"), &json!("Front")));
    assert_eq!(now["voice_application_sid"], Value::Null, "a missing value is cleared");
    for wrong in [json!({ "number": "12[" }), json!({ "number": "1", "voice_url": "ftp://a" }), json!({})] {
        let refused = world.ask(&admin, "PUT", &path, Some(wrong)).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.body);
    }
    assert_eq!(world.ask(&operator, "DELETE", &path, None).await.status, StatusCode::FORBIDDEN);
    assert_eq!(world.ask(&admin, "DELETE", &path, None).await.status, StatusCode::OK);
    assert_eq!(world.ask(&admin, "DELETE", &path, None).await.status, StatusCode::NOT_FOUND);
    let removed = world.ask(&admin, "DELETE", &format!("/applications/{application}"), None).await;
    assert_eq!(removed.status, StatusCode::OK);
    let audited = world.audited.lock().unwrap().clone();
    assert!(!audited.iter().any(|line| line.contains("secret")), "{audited:#?}");
    let line = format!("root@example.test admin SetNumber {sid} +1 (234) 5 None");
    assert!(audited.contains(&line), "{audited:#?}");
}

/// The node asks the numbers of applications before its plan, in which the domain's accounts would be next.
#[tokio::test]
async fn the_way_of_a_number_that_an_application_answers_is_to_its_document() {
    let mut all = applications("<Response/>");
    let world = &mut all.world;
    let (reader, operator, admin) =
        (world.sign_in("eye").await, world.sign_in("op").await, world.sign_in("root").await);
    let bound = json!({ "number": "1234", "voice_url": "https://u:secret@app.example.net/" });
    let bound = world.ask(&admin, "POST", "/numbers", Some(bound)).await.body["resource"]["sid"].clone();
    let without_url = json!({ "number": "1235", "name": "nothing answers it" });
    world.ask(&admin, "POST", "/numbers", Some(without_url)).await;

    let way = world.ask(&operator, "GET", "/route-test?to=1234", None).await.body;
    let url = "https://u:secret@app.example.net/";
    let expected =
        json!({ "kind": "application", "number": "+1234", "binding": bound, "url": url, "account": FIRST });
    assert_eq!(way, expected);
    let way = world.ask(&reader, "GET", "/route-test?to=sip:%2B1234@example.test", None).await.body;
    assert_eq!((&way["kind"], &way["url"]), (&json!("application"), &Value::Null), "readers see no URL");
    let way = world.ask(&operator, "GET", "/route-test?to=%2B700", None).await.body;
    let url = "http://desk.example.net/";
    let expected =
        json!({ "kind": "application", "number": "700", "binding": null, "url": url, "account": FIRST });
    assert_eq!(way, expected);
    let way = world.ask(&operator, "GET", "/route-test?to=1235", None).await.body;
    assert_eq!((&way["kind"], &way["account"]), (&json!("account"), &Value::Null), "{way}");
    let way = world.ask(&operator, "GET", "/route-test?to=1234@elsewhere.test", None).await.body;
    assert_eq!(way["kind"], "refused", "{way}");
}

/// The parameters and their meaning are those of the REST interface.
#[tokio::test]
async fn a_number_is_tested_with_its_callbacks_and_not_of_a_suspended_account() {
    let mut all = applications("<Response><Hangup/></Response>");
    let operator = all.world.sign_in("op").await;
    let common = |sid: &str, account: &str| {
        let at = Instant::from_unix_seconds(1_800_000_000);
        Common { sid: sid.into(), account: account.into(), created_at: at, updated_at: at }
    };
    let (suspended, number) = ("AC00000000000000000000000000000002", "PN00000000000000000000000000000001");
    let below = RestAccount {
        common: common(suspended, suspended),
        parent: Some(FIRST.into()),
        friendly_name: "Below".into(),
        email: String::new(),
        status: "suspended".into(),
        token: TokenVerifier::new("token", [1; 16]),
        signing_key: "token".into(),
    };
    all.repository.write(Write::Rest(RestWrite::Insert(Box::new(below.row().unwrap())))).unwrap();
    for (sid, account) in [(number, FIRST), ("PN00000000000000000000000000000002", suspended)] {
        let bound = IncomingNumber {
            common: common(sid, account),
            phone_number: format!("+{}", &sid[30..]),
            voice: Hook { url: "http://app.example.net/".into(), ..Hook::default() },
            status_callback: "http://app.example.net/end".into(),
            ..IncomingNumber::default()
        };
        all.repository.write(Write::Rest(RestWrite::Insert(Box::new(bound.row().unwrap())))).unwrap();
    }
    let world = &mut all.world;
    let tested = world.ask(&operator, "POST", "/documents/test", Some(json!({ "number": number }))).await;
    let steps = tested.body["steps"].as_array().unwrap();
    let callback = steps.iter().find(|step| step["kind"] == "callback").unwrap();
    assert_eq!(callback["url"], "http://app.example.net/end", "{callback}");
    let other = json!({ "number": "PN00000000000000000000000000000002" });
    let refused = world.ask(&operator, "POST", "/documents/test", Some(other)).await;
    assert_eq!(refused.body["error"], "Account is suspended", "{}", refused.body);
}

#[tokio::test]
async fn a_document_is_tested_without_a_call_and_follows_requests_only_when_asked() {
    let mut all = applications("<Response><Redirect>http://app.example.net/again</Redirect></Response>");
    let world = &mut all.world;
    let (reader, operator) = (world.sign_in("eye").await, world.sign_in("op").await);
    let document = "<Response><Gather action='http://app.example.net/menu'/><Sey>x</Sey></Response>";
    let order = |follow: bool| Some(json!({ "document": document, "inputs": ["1#"], "follow": follow }));
    let refused = world.ask(&reader, "POST", "/documents/test", order(false)).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let tested = world.ask(&operator, "POST", "/documents/test", order(false)).await;
    assert_eq!(tested.body["end"], "next", "{}", tested.body);
    let steps = tested.body["steps"].as_array().unwrap().clone();
    let mistake = steps.iter().find(|step| step["kind"] == "note").unwrap();
    assert_eq!((&mistake["line"], &mistake["severity"]), (&json!(1), &json!("error")), "{mistake}");
    assert_eq!(mistake["column"], document.find("<Sey").unwrap() + 1);
    let asked = steps.last().unwrap();
    assert_eq!((&asked["kind"], &asked["url"]), (&json!("request"), &json!("http://app.example.net/menu")));
    assert!(
        asked["form"].as_array().unwrap().contains(&json!({ "name": "Digits", "value": "1" })),
        "{asked}"
    );
    assert!(all.asked.lock().unwrap().is_empty(), "nothing was asked");

    // The documents lead in a circle; a test asks for few of them.
    let followed = world.ask(&operator, "POST", "/documents/test", order(true)).await;
    assert_eq!(followed.body["end"], "documents");
    assert_eq!(all.asked.lock().unwrap().len(), crate::limits::TESTED_DOCUMENTS);

    let long = "x".repeat(crate::limits::MAX_DOCUMENT + 1);
    for wrong in [
        json!({}),
        json!({ "document": "<Response/>", "url": "http://app.example.net/" }),
        json!({ "url": "file:///etc/passwd" }),
        json!({ "url": "relative" }),
        json!({ "document": "<Response/>", "dial": "perhaps" }),
        json!({ "document": "<Response/>", "inputs": vec!["1"; crate::limits::TEST_INPUTS + 1] }),
        json!({ "document": long }),
    ] {
        let refused = world.ask(&operator, "POST", "/documents/test", Some(wrong)).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.body);
    }
    let broken =
        world.ask(&operator, "POST", "/documents/test", Some(json!({ "document": "no document" }))).await;
    assert_eq!(broken.status, StatusCode::OK);
    assert!(broken.body["steps"].to_string().contains("\"severity\":\"error\""), "{}", broken.body);
}

#[tokio::test]
async fn a_recording_is_listed_played_in_parts_and_removed() {
    let mut all = applications("");
    let at = Instant::from_unix_seconds(1_800_000_000);
    let common = Common { sid: RECORDING.into(), account: FIRST.into(), created_at: at, updated_at: at };
    let (call_sid, status) = ("CA7".to_owned(), "completed".to_owned());
    let recording = Recording { common, call_sid, status, duration: Some(5), ..Recording::default() };
    let write = RestWrite::Insert(Box::new(recording.row().unwrap()));
    all.repository.write(Write::Rest(write)).unwrap();
    let world = &mut all.world;
    let (reader, operator, admin) =
        (world.sign_in("eye").await, world.sign_in("op").await, world.sign_in("root").await);
    let listed = world.ask(&reader, "GET", "/recordings?call=CA7", None).await;
    assert_eq!((&listed.body["total"], &listed.body["rows"][0]["duration"]), (&json!(1), &json!("5")));
    assert_eq!(world.ask(&reader, "GET", "/recordings?call=CA8", None).await.body["total"], 0);

    let path = format!("/v1/admin/recordings/{RECORDING}/sound.wav");
    let request = |browser: &Browser, range: Option<&str>| {
        let request =
            HttpRequest::get(&path).header("host", "127.0.0.1:5380").header("cookie", &browser.cookie);
        let request = range.into_iter().fold(request, |request, range| request.header("range", range));
        request.body(Body::empty()).unwrap()
    };
    assert_eq!(world.send(request(&reader, None)).await.status, StatusCode::FORBIDDEN);
    for (range, status, content, expected) in [
        (None, StatusCode::OK, None, "0123456789"),
        (Some("bytes=0-"), StatusCode::PARTIAL_CONTENT, Some("bytes 0-9/10"), "0123456789"),
        (Some("bytes=3-5"), StatusCode::PARTIAL_CONTENT, Some("bytes 3-5/10"), "345"),
        (Some("bytes=8-99"), StatusCode::PARTIAL_CONTENT, Some("bytes 8-9/10"), "89"),
        (Some("bytes=10-"), StatusCode::RANGE_NOT_SATISFIABLE, Some("bytes */10"), ""),
        (Some("bytes=-2"), StatusCode::OK, None, "0123456789"),
    ] {
        let response = world.console.router();
        // The sound is no JSON, so it is read here; the session was looked at a moment ago.
        let response = response.oneshot(request(&operator, range)).await.unwrap();
        assert_eq!(response.status(), status, "{range:?}");
        let found = response.headers().get("content-range").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(found.as_deref(), content, "{range:?}");
        assert_eq!(response.headers()["content-length"], expected.len().to_string());
        assert_eq!(response.headers()["content-type"], "audio/x-wav");
        assert_eq!(&to_bytes(response.into_body(), 100).await.unwrap()[..], expected.as_bytes(), "{range:?}");
    }
    let path = format!("/recordings/{RECORDING}");
    assert_eq!(world.ask(&operator, "DELETE", &path, None).await.status, StatusCode::FORBIDDEN);
    assert_eq!(world.ask(&admin, "DELETE", &path, None).await.status, StatusCode::OK);
    assert_eq!(*all.removed.lock().unwrap(), [RECORDING]);
    assert_eq!(all.world.ask(&admin, "DELETE", &path, None).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_node_without_applications_says_so_and_tests_documents_all_the_same() {
    let mut world = world();
    let operator = world.sign_in("op").await;
    let none = world.ask(&operator, "GET", "/numbers", None).await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
    assert!(none.body["error"].as_str().unwrap().contains("[voice] media"), "{}", none.body);
    let document = json!({ "document": "<Response><Say>hello</Say></Response>" });
    let tested = world.ask(&operator, "POST", "/documents/test", Some(document)).await;
    assert_eq!(tested.body["end"], "over", "{}", tested.body);
    let url = json!({ "url": "http://app.example.net/" });
    let tested = world.ask(&operator, "POST", "/documents/test", Some(url)).await;
    assert_eq!(tested.body["end"], "unreachable", "{}", tested.body);
}
