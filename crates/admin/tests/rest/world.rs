//! A record in a directory of its own, its first account, and requests as a client makes them.

use std::sync::Arc;

use admin::first::{Credentials, ensure_account};
use admin::{Blocking, Repository, State, router};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use stdx::Instant;
use store::rest::types::{Common, RestCall};
use store::rest::{Resource, RestWrite};
use store::{Admin, ScramHash, ScramKeys, Sqlite, Write};
use tempfile::TempDir;
use tower::ServiceExt;

use crate::plane::{Plane, START};

pub(crate) const FIRST: &str = "AC00000000000000000000000000000001";

pub(crate) struct World {
    pub(crate) plane: Arc<Plane>,
    pub(crate) repository: Arc<Blocking>,
    pub(crate) me: Credentials,
    router: Router,
    runtime: tokio::runtime::Runtime,
    _directory: TempDir,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Status and code of a fault.
    pub(crate) fn fault(&self) -> (u16, i64) {
        let json = self.json();
        assert_eq!(json["status"], self.status, "{json}");
        (self.status, json["code"].as_i64().unwrap())
    }
}

/// Keys that show whose they are.
pub(crate) fn keys(password: &str) -> Arc<[(ScramHash, ScramKeys)]> {
    let bytes: Box<[u8]> = password.as_bytes().into();
    let keys = ScramKeys { salt: bytes.clone(), iterations: 1, stored: bytes.clone(), server: bytes };
    [(ScramHash::Sha256, keys)].into()
}

impl World {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Sqlite::open(directory.path().join("belfry.db")).unwrap();
        let mut admin = Admin::new(&store).unwrap();
        admin.ensure_domain("example.org", Instant::from_unix_seconds(START)).unwrap();
        let (plane, repository) = (Arc::new(Plane::default()), Arc::new(Blocking::new(admin)));
        let me =
            ensure_account(&*repository, &*plane, FIRST, None).unwrap().expect("a new record has no account");
        let router = router(State::new(
            repository.clone(),
            plane.clone(),
            "example.org",
            "https://calls.example.org",
            keys,
        ));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        World { plane, repository, me, router, runtime, _directory: directory }
    }

    /// A path of the first account, as Twilio's libraries ask.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/2010-04-01/Accounts/{}{rest}", self.me.sid)
    }

    pub(crate) fn send(&self, request: Request<Body>) -> Answer {
        self.runtime.block_on(async {
            let response: Response<Body> = self.router.clone().oneshot(request).await.unwrap();
            let (parts, body) = response.into_parts();
            let body = to_bytes(body, 1 << 20).await.unwrap().to_vec();
            Answer { status: parts.status.as_u16(), headers: parts.headers, body }
        })
    }

    pub(crate) fn send_as(&self, key: (&str, &str), method: &str, path: &str, form: &str) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Basic {}", STANDARD.encode(format!("{}:{}", key.0, key.1))))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from(form.to_owned()));
        self.send(request.unwrap())
    }

    pub(crate) fn ask(&self, method: &str, path: &str, form: &str) -> Answer {
        self.send_as((&self.me.sid, &self.me.token), method, path, form)
    }

    pub(crate) fn get(&self, rest: &str) -> Answer {
        self.ask("GET", &self.path(rest), "")
    }

    pub(crate) fn post(&self, rest: &str, form: &str) -> Answer {
        self.ask("POST", &self.path(rest), form)
    }

    pub(crate) fn delete(&self, rest: &str) -> Answer {
        self.ask("DELETE", &self.path(rest), "")
    }

    /// Posts, expects 201, and returns what was made.
    pub(crate) fn make(&self, rest: &str, form: &str) -> Value {
        let answer = self.post(rest, form);
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()
    }

    /// Writes a resource as the node does.
    pub(crate) fn insert(&self, resource: &impl Resource) {
        let write = RestWrite::Insert(Box::new(resource.row().unwrap()));
        self.repository.write(Write::Rest(write)).unwrap();
    }

    pub(crate) fn common(&self, sid: &str, seconds: u64) -> Common {
        let at = Instant::from_unix_seconds(START + seconds);
        Common { sid: sid.into(), account: self.me.sid.clone(), created_at: at, updated_at: at }
    }

    pub(crate) fn call(&self, sid: &str, seconds: u64, status: &str) -> RestCall {
        RestCall {
            common: self.common(sid, seconds),
            from: "alice".into(),
            to: "+1234".into(),
            status: status.into(),
            direction: "inbound".into(),
            ..RestCall::default()
        }
    }
}
