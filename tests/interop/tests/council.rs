//! The farm's council on real NATS servers: Debian's release and the current one.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use farm::council::{CouncilCommand, CouncilEvent, CouncilSettings, JoinRefused, LifeClock};
use interop::{Nats, NatsRelease, NatsSettings, Ports};
use nkeys::KeyPair;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

const RELEASES: [NatsRelease; 2] = [NatsRelease::Debian, NatsRelease::Current];

/// The longest wait for one event.
const LONGEST: Duration = Duration::from_secs(40);

fn run<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, test);
}

/// One node at the council.
struct Member {
    commands: mpsc::Sender<CouncilCommand>,
    events: mpsc::Receiver<CouncilEvent>,
    life: u32,
}

/// A clock of lives that goes on with each look at it.
fn clock_from(first: u32) -> LifeClock {
    let next = AtomicU32::new(first);
    LifeClock(Arc::new(move || next.fetch_add(1, Ordering::Relaxed)))
}

fn settings(servers: Vec<String>, node: &str) -> CouncilSettings {
    CouncilSettings {
        servers,
        farm: "test".into(),
        node: node.into(),
        credentials: None,
        authorities: None,
        replicas: 1,
        member_age: Duration::from_secs(2),
        proof: Bytes::from_static(b"proof"),
        clock: clock_from(0),
    }
}

impl Member {
    fn start(settings: CouncilSettings) -> Member {
        let (commands, from_node) = mpsc::channel(64);
        let (to_node, events) = mpsc::channel(1_024);
        let value = |life: u32| Bytes::from(format!("life {life}"));
        tokio::task::spawn_local(farm::council::run(settings, value, from_node, to_node));
        Member { commands, events, life: 0 }
    }

    async fn join(settings: CouncilSettings) -> Member {
        let mut member = Member::start(settings);
        member.life = member
            .wait(|event| match event {
                CouncilEvent::Joined { life } => Some(*life),
                _ => None,
            })
            .await;
        member
    }

    async fn send(&self, command: CouncilCommand) {
        self.commands.send(command).await.expect("the council's task runs");
    }

    async fn renew(&mut self, token: u64) {
        let value = Bytes::from(format!("life {}", self.life));
        self.send(CouncilCommand::Renew { token, value }).await;
    }

    /// Waits for an event; others before it are passed over.
    async fn wait<T>(&mut self, wanted: impl Fn(&CouncilEvent) -> Option<T>) -> T {
        let mut seen = Vec::new();
        let found = timeout(LONGEST, async {
            while let Some(event) = self.events.recv().await {
                if let Some(found) = wanted(&event) {
                    return Some(found);
                }
                seen.push(event);
            }
            None
        });
        match found.await {
            Ok(Some(found)) => found,
            _ => panic!("the event did not come; these came: {seen:?}"),
        }
    }

    async fn expect(&mut self, wanted: CouncilEvent) {
        self.wait(|event| (*event == wanted).then_some(())).await;
    }

    /// Waits for a node's announcement.
    async fn sees(&mut self, name: &str, life: u32, value: Bytes) {
        self.expect(CouncilEvent::Member { life, node: name.into(), value }).await;
    }

    async fn map(&mut self) -> (u64, Bytes) {
        self.wait(|event| match event {
            CouncilEvent::MapWritten { revision, value } => Some((*revision, value.clone())),
            _ => None,
        })
        .await
    }
}

fn each_release(test: impl AsyncFn(Nats)) {
    for release in RELEASES {
        run(test(Nats::start(release)));
    }
}

#[test]
fn nodes_see_one_another_join_renew_and_leave() {
    each_release(async |nats| {
        let mut one = Member::join(settings(vec![nats.url()], "one")).await;
        let mut two = Member::join(settings(vec![nats.url()], "two")).await;
        assert!(two.life > one.life, "{} {}", one.life, two.life);
        let value = Bytes::from(format!("life {}", two.life));
        one.sees("two", two.life, value.clone()).await;
        let value = Bytes::from(format!("life {}", one.life));
        two.sees("one", one.life, value).await;
        one.send(CouncilCommand::ReadMember { node: "two".into(), token: 1 }).await;
        let of_two = Bytes::from(format!("life {}", two.life));
        one.expect(CouncilEvent::MemberRead {
            node: "two".into(),
            token: 1,
            found: Some((two.life, of_two)),
        })
        .await;
        one.send(CouncilCommand::ReadMember { node: "absent".into(), token: 2 }).await;
        one.expect(CouncilEvent::MemberRead { node: "absent".into(), token: 2, found: None }).await;
        two.renew(7).await;
        two.expect(CouncilEvent::Renewed { token: 7 }).await;
        two.send(CouncilCommand::Withdraw).await;
        one.expect(CouncilEvent::Withdrawn { node: "two".into() }).await;
    });
}

#[test]
fn a_name_is_one_nodes_until_it_is_dead() {
    each_release(async |nats| {
        let mut first = Member::join(settings(vec![nats.url()], "one")).await;
        let mut second = Member::start(settings(vec![nats.url()], "one"));
        let by = first.life;
        for token in 0.. {
            first.renew(token).await;
            first.expect(CouncilEvent::Renewed { token }).await;
            let refused = CouncilEvent::Refused(JoinRefused::NameTaken { by });
            match timeout(Duration::from_millis(200), second.events.recv()).await {
                Ok(Some(event)) if event == refused => break,
                Ok(other) => panic!("{other:?}"),
                Err(_) => assert!(token < 100, "the second is not refused"),
            }
        }
        // The first dies: nothing renews its key, and its next life gets the name.
        let life = first.life;
        drop(first);
        let next = Member::join(settings(vec![nats.url()], "one")).await;
        assert!(next.life > life);
    });
}

#[test]
fn a_node_with_another_secret_is_refused() {
    each_release(async |nats| {
        let _first = Member::join(settings(vec![nats.url()], "one")).await;
        let other =
            CouncilSettings { proof: Bytes::from_static(b"other"), ..settings(vec![nats.url()], "two") };
        let mut second = Member::start(other);
        second.expect(CouncilEvent::Refused(JoinRefused::OtherSecret)).await;
    });
}

#[test]
fn of_two_changes_of_one_map_one_is_refused() {
    each_release(async |nats| {
        let mut one = Member::join(settings(vec![nats.url()], "one")).await;
        let mut two = Member::join(settings(vec![nats.url()], "two")).await;
        let swap = |text: &'static [u8], expected| CouncilCommand::SwapMap {
            expected,
            value: Bytes::from_static(text),
        };
        one.send(swap(b"first", 0)).await;
        let (revision, value) = two.map().await;
        assert_eq!(&value[..], b"first");
        assert_eq!(one.map().await, (revision, value));
        two.send(swap(b"second", revision)).await;
        let (newer, value) = one.map().await;
        assert_eq!(&value[..], b"second");
        assert!(newer > revision);
        one.send(swap(b"late", revision)).await;
        one.expect(CouncilEvent::Swapped { revision: None }).await;
        one.send(CouncilCommand::ReadMap).await;
        let value = Some(Bytes::from_static(b"second"));
        one.expect(CouncilEvent::MapRead { revision: newer, value }).await;
        one.send(CouncilCommand::ReadMembers).await;
        one.expect(CouncilEvent::MembersRead).await;
    });
}

async fn is_away(member: &mut Member) {
    let mut token = 1_000;
    // Only a request shows that the server is gone.
    loop {
        member.renew(token).await;
        token += 1;
        match timeout(Duration::from_millis(500), member.events.recv()).await {
            Ok(Some(CouncilEvent::Away { .. })) => return,
            Ok(None) => panic!("the council's task ended"),
            _ => assert!(token < 1_100, "the council's absence is not noticed"),
        }
    }
}

#[test]
fn a_council_that_comes_back_finds_its_members_with_their_lives() {
    each_release(async |mut nats| {
        let mut one = Member::join(settings(vec![nats.url()], "one")).await;
        one.send(CouncilCommand::SwapMap { expected: 0, value: Bytes::from_static(b"map") }).await;
        let (revision, _) = one.map().await;
        nats.kill();
        is_away(&mut one).await;
        nats.start_again();
        one.expect(CouncilEvent::Back).await;
        assert_eq!(one.map().await.0, revision, "the map is as it was");
        // The key may have been forgotten meanwhile: it is announced again, with the same life.
        let value = Bytes::from_static(b"again");
        one.send(CouncilCommand::Announce { value: value.clone() }).await;
        one.renew(5_000).await;
        one.expect(CouncilEvent::Renewed { token: 5_000 }).await;
        let mut two = Member::join(settings(vec![nats.url()], "two")).await;
        assert!(two.life > one.life);
        let life = one.life;
        two.wait(|event| {
            matches!(event, CouncilEvent::Member { life: seen, .. } if *seen == life).then_some(())
        })
        .await;
    });
}

#[test]
fn a_council_without_its_files_gives_no_life_twice() {
    each_release(async |mut nats| {
        let least = CouncilSettings { clock: clock_from(1_000), ..settings(vec![nats.url()], "one") };
        let mut one = Member::join(least.clone()).await;
        assert_eq!(one.life, 1_000);
        nats.kill();
        is_away(&mut one).await;
        nats.forget_all();
        nats.start_again();
        one.expect(CouncilEvent::Back).await;
        one.renew(1).await;
        one.expect(CouncilEvent::Expired).await;
        one.send(CouncilCommand::Announce { value: Bytes::from_static(b"again") }).await;
        one.renew(2).await;
        one.expect(CouncilEvent::Renewed { token: 2 }).await;
        // The clock has gone on since.
        let later = CouncilSettings { clock: clock_from(1_005), node: "two".into(), ..least };
        assert_eq!(Member::join(later).await.life, 1_005);
    });
}

#[test]
fn a_cluster_of_three_goes_on_without_one() {
    let reserved = Ports::reserve(3);
    let ports: Vec<u16> = (0..3).map(|n| reserved.first() + n).collect();
    let server = |own: usize| {
        let mut cluster = ports.clone();
        cluster.swap(0, own);
        Nats::with(NatsRelease::Current, &NatsSettings { cluster, ..NatsSettings::default() })
    };
    let mut servers: Vec<Nats> = (0..3).map(server).collect();
    run(async {
        let urls: Vec<String> = servers.iter().map(Nats::url).collect();
        let of_three = |node| CouncilSettings { replicas: 3, ..settings(urls.clone(), node) };
        let mut one = Member::join(of_three("one")).await;
        for server in &mut servers {
            server.kill();
            let mut token = 0;
            loop {
                one.renew(token).await;
                let renewed = timeout(
                    Duration::from_secs(1),
                    one.wait(|event| match event {
                        CouncilEvent::Renewed { token: seen } => (*seen == token).then_some(true),
                        CouncilEvent::Expired => Some(false),
                        _ => None,
                    }),
                );
                match renewed.await {
                    Ok(true) => break,
                    Ok(false) => one.send(CouncilCommand::Announce { value: Bytes::new() }).await,
                    Err(_) => assert!(token < 60, "no renewal after {} was killed", server.url()),
                }
                token += 1;
            }
            server.start_again();
        }
    });
}

#[test]
fn tls_and_a_password_lead_to_the_council_and_a_wrong_one_does_not() {
    let authority = interop::Authority::new();
    let certified = authority.certify("localhost");
    let lines = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\" }}\nauthorization {{ user: belfry, password: good }}\n",
        certified.certificate.display(),
        certified.key.display(),
    );
    let nats = Nats::with(NatsRelease::Debian, &NatsSettings { lines, ..NatsSettings::default() });
    run(async {
        let authorities = Some(authority.certificate());
        let url = |password: &str| vec![format!("tls://belfry:{password}@localhost:{}", nats.port)];
        let wanted = CouncilSettings { authorities: authorities.clone(), ..settings(url("good"), "one") };
        Member::join(wanted).await;
        let wrong = CouncilSettings { authorities, ..settings(url("bad"), "two") };
        let mut wrong = Member::start(wrong);
        let reason = wrong
            .wait(|event| match event {
                CouncilEvent::Away { reason } => Some(reason.clone()),
                _ => None,
            })
            .await;
        assert!(!reason.contains("bad"), "the password is in {reason:?}");
    });
}

/// A JWT of NATS: `claims` of `subject`, signed by `issuer`.
fn token(issuer: &KeyPair, subject: &KeyPair, claims: &Value) -> String {
    let part = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let subject = subject.public_key();
    let body = json!({
        "jti": subject, "iat": 1_767_225_600, "iss": issuer.public_key(), "sub": subject, "name": "test", "nats": claims,
    });
    let signed = format!("{}.{}", part(json!({ "typ": "JWT", "alg": "ed25519-nkey" })), part(body));
    let signature = issuer.sign(signed.as_bytes()).expect("the key has its seed");
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

/// A file of credentials for a new user of an account.
fn credentials(account: &KeyPair, file: &std::path::Path) {
    let user = KeyPair::new_user();
    let claims =
        json!({ "type": "user", "version": 2, "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1 });
    let (token, seed) = (token(account, &user, &claims), user.seed().expect("a new key has a seed"));
    let text = format!(
        "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    );
    std::fs::write(file, text).expect("the test's folder is writable");
}

/// Servers whose users prove themselves by tokens that an account has signed, and accounts by an operator's.
#[test]
fn a_file_of_credentials_leads_to_the_council_and_one_of_another_account_does_not() {
    let (operator, account, system) =
        (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
    let own = json!({ "type": "operator", "version": 2, "system_account": system.public_key() });
    let mut limits = json!({ "wildcards": true });
    let unlimited = [
        "subs",
        "data",
        "payload",
        "imports",
        "exports",
        "conn",
        "leaf",
        "mem_storage",
        "disk_storage",
        "streams",
        "consumer",
    ];
    for name in unlimited {
        limits[name] = json!(-1);
    }
    let of_account = json!({ "type": "account", "version": 2, "limits": limits });
    let of_system = json!({ "type": "account", "version": 2, "limits": {
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "conn": -1, "leaf": -1, "wildcards": true,
    } });
    let preloaded =
        |key: &KeyPair, claims| format!("{}: \"{}\"", key.public_key(), token(&operator, key, claims));
    let lines = format!(
        "operator: \"{}\"\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n{}\n{}\n}}\n",
        token(&operator, &operator, &own),
        system.public_key(),
        preloaded(&account, &of_account),
        preloaded(&system, &of_system),
    );
    let folder = tempfile::TempDir::new().expect("a temporary folder");
    let file = |account: &KeyPair, name: &str| {
        let path = folder.path().join(name);
        credentials(account, &path);
        Some(path)
    };
    for release in RELEASES {
        let nats = Nats::with(release, &NatsSettings { lines: lines.clone(), ..NatsSettings::default() });
        run(async {
            let right = file(&account, "right");
            Member::join(CouncilSettings { credentials: right, ..settings(vec![nats.url()], "one") }).await;
            let wrong = file(&KeyPair::new_account(), "wrong");
            let wrong = CouncilSettings { credentials: wrong, ..settings(vec![nats.url()], "two") };
            Member::start(wrong).wait(|event| matches!(event, CouncilEvent::Away { .. }).then_some(())).await;
        });
    }
}
