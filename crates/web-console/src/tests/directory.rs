//! Roles by groups of a directory, which the test plays.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::directory::{DirectoryAnswer, DirectoryTimes, PasswordVerdict, RoleVerdict, refresh};

/// The password of all users in the directory.
const PASSWORD: &str = "of-the-directory";

/// The users of the directory and their roles; `None`: it does not answer. And the passwords that it was asked about.
#[derive(Default)]
struct Users(Mutex<Option<HashMap<&'static str, Option<Role>>>>, AtomicUsize);

impl Users {
    fn new(users: &[(&'static str, Option<Role>)]) -> Arc<Users> {
        Arc::new(Users(Mutex::new(Some(users.iter().copied().collect())), AtomicUsize::new(0)))
    }

    fn set(&self, users: Option<&[(&'static str, Option<Role>)]>) {
        *self.0.lock().unwrap() = users.map(|users| users.iter().copied().collect());
    }
}

impl Directory for Users {
    fn times(&self, domain: &str) -> Option<DirectoryTimes> {
        let (refresh, keep) = (Duration::from_secs(60), Duration::from_secs(300));
        (domain == "example.test").then_some(DirectoryTimes { refresh, keep })
    }

    fn check(&self, _: Instant, account: &Address, password: &str) -> DirectoryAnswer<PasswordVerdict> {
        let verdict = match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            None => PasswordVerdict::Unavailable,
            Some(users) if users.contains_key(&*account.user) && password == PASSWORD => {
                PasswordVerdict::Right
            }
            Some(_) => PasswordVerdict::Wrong,
        };
        self.1.fetch_add(1, Ordering::Relaxed);
        // The answer of another machine comes later.
        let mut is_asked = false;
        Box::pin(poll_fn(move |cx| {
            if std::mem::replace(&mut is_asked, true) {
                return Poll::Ready(verdict);
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }))
    }

    fn role(&self, account: &Address) -> DirectoryAnswer<RoleVerdict> {
        let verdict = match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            None => RoleVerdict::Unavailable,
            Some(users) => RoleVerdict::Known(users.get(&*account.user).copied().flatten()),
        };
        Box::pin(async move { verdict })
    }
}

impl World {
    async fn sign_in_by_directory(&mut self, user: &str) -> Browser {
        let reply = self.try_sign_in(user, PASSWORD).await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.body);
        let cookie = reply.headers[SET_COOKIE].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Browser { cookie, csrf: reply.body["csrf"].as_str().unwrap().to_owned() }
    }

    async fn role_of(&mut self, browser: &Browser) -> Option<String> {
        let reply = self.ask(browser, "GET", "/session", None).await;
        reply.body["role"].as_str().map(str::to_owned)
    }

    /// Time passes, and the roles are looked at.
    async fn look_after(&mut self, seconds: u64) {
        self.pass(seconds);
        refresh(self.console.state()).await;
    }
}

fn world_of_users(users: &[(&'static str, Option<Role>)]) -> (World, Arc<Users>) {
    let directory = Users::new(users);
    (world_of(Applications::default(), Some(Arc::clone(&directory) as _)), directory)
}

#[tokio::test]
async fn a_group_gives_a_role_and_takes_it_away_with_the_sessions() {
    let (mut world, directory) = world_of_users(&[("dora", Some(Role::Operator)), ("otto", None)]);
    // No account here is needed, and no configuration names Dora. All spellings are one user.
    let browser = world.sign_in_by_directory("Dora@example.test").await;
    assert_eq!(world.role_of(&browser).await.as_deref(), Some("operator"));
    assert_eq!(world.try_sign_in("otto", PASSWORD).await.status, StatusCode::FORBIDDEN, "in no group");
    assert_eq!(world.try_sign_in("dora", "secret").await.status, StatusCode::UNAUTHORIZED);

    directory.set(Some(&[("dora", Some(Role::ReadOnly))]));
    world.look_after(59).await;
    assert_eq!(world.role_of(&browser).await.as_deref(), Some("operator"), "it is not asked again yet");
    world.look_after(1).await;
    assert_eq!(world.role_of(&browser).await.as_deref(), Some("read-only"));
    directory.set(Some(&[("dora", None)]));
    world.look_after(60).await;
    assert_eq!(world.status_of(&browser).await, StatusCode::UNAUTHORIZED, "the session has ended");
    assert_eq!(world.try_sign_in("dora", PASSWORD).await.status, StatusCode::FORBIDDEN);
    let audited = world.audited.lock().unwrap();
    let of_dora: Vec<&String> = audited.iter().filter(|line| line.starts_with("dora@")).collect();
    let dora = "dora@example.test";
    assert_eq!(of_dora[0], &format!("{dora} from none to operator by groups"));
    assert_eq!(of_dora[1], &format!("{dora} operator SignIn  None"));
    assert_eq!(of_dora[2], &format!("{dora} from operator to read-only by groups"));
    assert_eq!(of_dora[3], &format!("{dora} from read-only to none by groups"));
    assert_eq!(of_dora[4], &format!("{dora} none SignIn  Some(403)"));
}

#[tokio::test]
async fn a_directory_that_is_away_keeps_the_last_role_for_its_time_and_begins_no_session() {
    let (mut world, directory) = world_of_users(&[("dora", Some(Role::Operator))]);
    let browser = world.sign_in_by_directory("dora").await;
    directory.set(None);
    assert_eq!(world.try_sign_in("dora", PASSWORD).await.status, StatusCode::UNAUTHORIZED);
    world.look_after(300).await;
    assert_eq!(world.role_of(&browser).await.as_deref(), Some("operator"));
    world.look_after(60).await;
    assert_eq!(world.status_of(&browser).await, StatusCode::UNAUTHORIZED);
    let last = world.audited.lock().unwrap().last().cloned();
    assert_eq!(last.as_deref(), Some("dora@example.test from operator to none by no answer"));
}

#[tokio::test]
async fn the_password_of_an_account_here_has_the_roles_of_the_configuration_only() {
    let (mut world, directory) =
        world_of_users(&[("user", Some(Role::Admin)), ("eye", Some(Role::Operator))]);
    assert_eq!(world.try_sign_in("user", "secret").await.status, StatusCode::FORBIDDEN);
    let browser = world.sign_in("eye").await;
    assert_eq!(world.role_of(&browser).await.as_deref(), Some("read-only"));
    let by_directory = world.sign_in_by_directory("eye").await;
    assert_eq!(world.role_of(&by_directory).await.as_deref(), Some("operator"), "the greater of both");
    directory.set(Some(&[]));
    world.look_after(60).await;
    assert_eq!(
        world.role_of(&by_directory).await.as_deref(),
        Some("read-only"),
        "that of the configuration stays"
    );
    world.accounts.get_mut("eye@example.test").unwrap().disabled = true;
    world.pass(5);
    assert_eq!(world.status_of(&by_directory).await, StatusCode::UNAUTHORIZED, "the account is disabled");
}

#[tokio::test]
async fn an_operator_changes_no_account_to_which_the_directory_gives_a_role() {
    let (mut world, directory) = world_of_users(&[("user", Some(Role::ReadOnly))]);
    let operator = world.sign_in("op").await;
    let change = || Some(json!({ "disabled": true }));
    let at = "/accounts/user@example.test/disabled";
    let reply = world.ask(&operator, "PUT", at, change()).await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN, "{}", reply.body);
    directory.set(None);
    let reply = world.ask(&operator, "PUT", at, change()).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "it cannot be known: {}", reply.body);
    directory.set(Some(&[]));
    let reply = world.ask(&operator, "PUT", at, change()).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.body);
    let admin = world.sign_in("root").await;
    directory.set(None);
    let reply = world.ask(&admin, "PUT", at, change()).await;
    assert_eq!(reply.status, StatusCode::OK, "an admin may: {}", reply.body);
}

#[tokio::test]
async fn passwords_that_are_tried_at_once_are_paced_as_those_one_after_another() {
    let (world, directory) = world_of_users(&[("dora", Some(Role::Operator))]);
    let settings = world.console.state().settings();
    let from = std::net::IpAddr::from([192, 0, 2, 7]);
    let state = world.console.state();
    let guesses = (0..50).map(|number| {
        let password = if number == 49 { PASSWORD.to_owned() } else { format!("guess{number}") };
        crate::sign_in::sign_in(state, &settings, from, ("dora", password))
    });
    let mut open: Vec<_> = guesses.map(Box::pin).collect();
    let mut answers = Vec::new();
    // All of them begin before any has its answer.
    poll_fn(|cx| {
        let mut waiting = Vec::new();
        for mut guess in open.drain(..) {
            match guess.as_mut().poll(cx) {
                Poll::Ready(answer) => answers.push(answer.map(drop).map_err(|fault| fault.status)),
                Poll::Pending => waiting.push(guess),
            }
        }
        open = waiting;
        Poll::Ready(())
    })
    .await;
    assert_eq!((answers.len(), open.len()), (40, 10), "as many are open as are free");
    assert!(answers.iter().all(|answer| *answer == Err(StatusCode::TOO_MANY_REQUESTS)), "{answers:?}");
    assert_eq!(directory.1.load(Ordering::Relaxed), 10);
    drop(open);
    let failures = world.failures.lock().unwrap();
    let aborted = failures.iter().filter(|cause| **cause == Cause::Aborted).count();
    assert_eq!(aborted, 10, "clients that leave have tried");
}
