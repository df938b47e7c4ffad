//! An OpenID provider on loopback, with a key of its own: it signs its one user in without asking, or asks on a page which of its users it is, checks
//! codes and verifiers as a provider does (OpenID Connect Core 1.0 §3.1, RFC 7636), and can be at fault.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;
use url::form_urlencoded::parse;

/// A mistake of the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenIdFault {
    /// It makes none.
    #[default]
    None,
    /// ID tokens have another nonce.
    OtherNonce,
    /// ID tokens are over.
    Expired,
    /// ID tokens are for another client.
    OtherAudience,
    /// ID tokens are signed by another key.
    OtherKey,
    /// Answers to codes and the configuration are of megabytes.
    Huge,
    /// Nothing is answered, and connections stay open.
    Silent,
    /// The configuration names another issuer.
    OtherIssuer,
    /// The configuration has an address without TLS that is not of this machine.
    ClearAddress,
    /// Answers to codes are faults of the server.
    Broken,
    /// Its clock is years behind.
    OldClock,
    /// Its keys are for an algorithm that is not accepted.
    OtherAlgorithm,
    /// It has no configuration, only keys.
    NoConfiguration,
}

/// The provider. It ends with the process.
pub struct OpenIdProvider {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    issuer: String,
    key: EcdsaKeyPair,
    other_key: EcdsaKeyPair,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    fault: OpenIdFault,
    /// Claims of ID tokens beside those of each.
    claims: Value,
    /// Claims of the users that its page asks about; without any it shows no page.
    users: Vec<Value>,
    /// `aud` of access tokens, which are JSON web tokens then, end after a second and are renewed. None: they are opaque.
    access_audience: Option<String>,
    /// Claims of users by their refresh tokens.
    refreshes: Vec<Value>,
    secret: Option<String>,
    takes_secret_in_form: bool,
    refuses_users: bool,
    codes: HashMap<String, Authorization>,
    issued: usize,
}

/// The parameters that a browser has carried here.
#[derive(Clone, Default)]
struct Authorization {
    client: String,
    redirect_uri: String,
    nonce: String,
    challenge: String,
    claims: Value,
    is_used: bool,
}

/// A request: method, path, query, `Authorization` and body.
#[derive(Default)]
struct Asked {
    method: String,
    path: String,
    query: String,
    authorization: String,
    body: String,
}

impl OpenIdProvider {
    /// Starts a provider with a user whose ID tokens have these claims.
    pub fn start(claims: Value) -> OpenIdProvider {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("it is bound");
        let key = || EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        let state = Mutex::new(State { claims, ..State::default() });
        let shared = Arc::new(Shared {
            issuer: format!("http://{address}/realm"),
            key: key(),
            other_key: key(),
            state,
        });
        let own = Arc::clone(&shared);
        let serve = move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&own);
                // A connection that is answered nothing holds no other up.
                let _ = Builder::new().spawn(move || shared.serve(stream));
            }
        };
        Builder::new().name("openid".into()).spawn(serve).expect("a thread");
        OpenIdProvider { address, shared }
    }

    /// The issuer.
    pub fn issuer(&self) -> &str {
        &self.shared.issuer
    }

    /// The address of its keys.
    pub fn keys_url(&self) -> String {
        format!("http://{}/realm/keys", self.address)
    }

    /// Lets the provider make this mistake from now on.
    pub fn set_fault(&self, fault: OpenIdFault) {
        self.shared.state().fault = fault;
    }

    /// Gives ID tokens these claims from now on.
    pub fn set_claims(&self, claims: Value) {
        self.shared.state().claims = claims;
    }

    /// Shows browsers a page from now on, on which one of the users with these claims signs in, or refuses to.
    pub fn ask_users(&self, users: Vec<Value>) {
        self.shared.state().users = users;
    }

    /// Makes access tokens for this audience from now on, and refresh tokens, for clients without a secret.
    pub fn give_access_to(&self, audience: &str) {
        self.shared.state().access_audience = Some(audience.to_owned());
    }

    /// Clients have this secret, which they send in `Authorization`, or in the form.
    pub fn set_secret(&self, secret: &str, in_form: bool) {
        let mut state = self.shared.state();
        (state.secret, state.takes_secret_in_form) = (Some(secret.to_owned()), in_form);
    }

    /// Lets its user refuse to sign in from now on.
    pub fn refuse_users(&self) {
        self.shared.state().refuses_users = true;
    }

    /// Opens the provider's page as a browser does, and returns the address that it is sent back to.
    pub fn visit(&self, page: &str) -> String {
        let url = Url::parse(page).expect("an address");
        let query = url.query().unwrap_or_default();
        let mut stream = TcpStream::connect(self.address).expect("the provider listens");
        let request = format!("GET {}?{query} HTTP/1.1\r\nHost: {}\r\n\r\n", url.path(), self.address);
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let location = answer.lines().find_map(|line| line.strip_prefix("Location: "));
        location.unwrap_or_else(|| panic!("no way back: {answer}")).trim().to_owned()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: TcpStream) {
        let Some(asked) = read(&stream) else { return };
        let fault = self.state().fault;
        if fault == OpenIdFault::Silent {
            // Until the client gives up.
            let _ = stream.read(&mut [0]);
            return;
        }
        let (status, field, body) = match (&*asked.method, &*asked.path) {
            ("GET", "/realm/.well-known/openid-configuration") if fault != OpenIdFault::NoConfiguration => {
                (200, String::new(), self.configuration(fault))
            }
            ("GET", "/realm/keys") => (200, String::new(), self.keys(fault).to_string()),
            ("GET", "/realm/authorize") => match self.page(&asked.query) {
                Some(page) => (200, "Content-Type: text/html\r\n".to_owned(), page),
                None => (302, self.authorize(&asked.query), String::new()),
            },
            ("POST", "/realm/token") => {
                let (status, body) = self.token(&asked, fault);
                (status, String::new(), body)
            }
            _ => (404, String::new(), String::new()),
        };
        let length = body.len();
        let date =
            if fault == OpenIdFault::OldClock { "Date: Thu, 01 Jan 2015 00:00:00 GMT\r\n" } else { "" };
        let kind = if field.starts_with("Content-Type") { "" } else { "Content-Type: application/json\r\n" };
        let head = format!(
            "HTTP/1.1 {status} Done\r\n{date}{field}{kind}Access-Control-Allow-Origin: *\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        // A client that has read enough closes the connection.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    }

    fn configuration(&self, fault: OpenIdFault) -> String {
        let issuer = &self.issuer;
        let methods = if self.state().takes_secret_in_form {
            json!(["client_secret_post"])
        } else {
            json!(["client_secret_basic", "client_secret_post", "none"])
        };
        let mut document = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "jwks_uri": format!("{issuer}/keys"),
            "token_endpoint_auth_methods_supported": methods,
            "authorization_response_iss_parameter_supported": true,
        });
        match fault {
            OpenIdFault::OtherIssuer => document["issuer"] = "https://other.example".into(),
            OpenIdFault::ClearAddress => document["token_endpoint"] = "http://192.0.2.1/token".into(),
            OpenIdFault::Huge => document["padding"] = "x".repeat(4 << 20).into(),
            _ => {}
        }
        document.to_string()
    }

    fn keys(&self, fault: OpenIdFault) -> Value {
        // An uncompressed point (RFC 7518 §6.2.1): 4, x and y.
        let (x, y) = self.key.public_key().as_ref()[1..].split_at(32);
        let [x, y] = [x, y].map(|part| URL_SAFE_NO_PAD.encode(part));
        let curve = if fault == OpenIdFault::OtherAlgorithm { "P-384" } else { "P-256" };
        json!({ "keys": [{ "kty": "EC", "crv": curve, "kid": "own", "use": "sig", "x": x, "y": y }] })
    }

    /// The page that asks a browser for its user; none: there is nothing to ask, or it has answered.
    fn page(&self, query: &str) -> Option<String> {
        let state = self.state();
        if state.users.is_empty() || parse(query.as_bytes()).any(|(name, _)| name == "user") {
            return None;
        }
        let link = |name: &str| format!("<p><a href=\"authorize?{query}&amp;user={name}\">{name}</a></p>");
        let names = state.users.iter().filter_map(|user| user["sub"].as_str()).chain(["nobody"]);
        let links: String = names.map(link).collect();
        Some(format!(
            "<!doctype html><title>Example sign-in</title><link rel=\"icon\" href=\"data:,\"><h1>Which user are you?</h1>{links}"
        ))
    }

    /// The header field with the way back.
    fn authorize(&self, query: &str) -> String {
        let query: HashMap<String, String> = parse(query.as_bytes()).into_owned().collect();
        let get = |name: &str| query.get(name).cloned().unwrap_or_default();
        let is_right = get("response_type") == "code"
            && get("code_challenge_method") == "S256"
            && get("scope").split(' ').any(|scope| scope == "openid");
        let mut back = Url::parse(&get("redirect_uri")).expect("a redirect URI");
        let mut state = self.state();
        let chosen = state.users.iter().find(|user| user["sub"] == *get("user")).cloned();
        let refuses = state.refuses_users || chosen.is_none() && !state.users.is_empty();
        if !is_right || refuses {
            back.query_pairs_mut().append_pair("error", "access_denied");
        } else {
            state.issued += 1;
            let code = format!("code-{}", state.issued);
            back.query_pairs_mut().append_pair("code", &code);
            let (client, nonce, challenge) = (get("client_id"), get("nonce"), get("code_challenge"));
            let redirect_uri = get("redirect_uri");
            let claims = chosen.unwrap_or_default();
            let authorization =
                Authorization { client, redirect_uri, nonce, challenge, claims, is_used: false };
            state.codes.insert(code, authorization);
        }
        back.query_pairs_mut().append_pair("state", &get("state")).append_pair("iss", &self.issuer);
        format!("Location: {back}\r\n")
    }

    /// RFC 6749 §4.1.3: status and body.
    fn token(&self, asked: &Asked, fault: OpenIdFault) -> (u16, String) {
        let form: HashMap<String, String> = parse(asked.body.as_bytes()).into_owned().collect();
        let get = |name: &str| form.get(name).cloned().unwrap_or_default();
        let refused = |status, error: &str| (status, json!({ "error": error }).to_string());
        match fault {
            OpenIdFault::Broken => return (500, "oops".into()),
            OpenIdFault::Huge => return (200, json!({ "id_token": "x".repeat(4 << 20) }).to_string()),
            _ => {}
        }
        let mut state = self.state();
        let basic = asked.authorization.strip_prefix("Basic ").and_then(|pair| STANDARD.decode(pair).ok());
        let basic = basic.and_then(|pair| String::from_utf8(pair).ok());
        let (client, secret) = match basic.as_deref().and_then(|pair| pair.split_once(':')) {
            Some((client, secret)) if !state.takes_secret_in_form => {
                (client.to_owned(), Some(secret.to_owned()))
            }
            _ => (get("client_id"), form.get("client_secret").cloned()),
        };
        if secret != state.secret {
            return refused(401, "invalid_client");
        }
        // RFC 6749 §6. The number of its user follows the word.
        if get("grant_type") == "refresh_token" {
            let number = get("refresh_token").strip_prefix("refresh-").and_then(|number| number.parse().ok());
            let claims = number.and_then(|number: usize| state.refreshes.get(number).cloned());
            return claims.map_or_else(
                || refused(400, "invalid_grant"),
                |claims| (200, self.access_token(&state, &claims).to_string()),
            );
        }
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(get("code_verifier")));
        let Some(known) = state.codes.get_mut(&get("code")) else { return refused(400, "invalid_grant") };
        let is_right = get("grant_type") == "authorization_code"
            && !known.is_used
            && known.client == client
            && known.redirect_uri == get("redirect_uri")
            && known.challenge == challenge;
        if !is_right {
            return refused(400, "invalid_grant");
        }
        known.is_used = true;
        let known = known.clone();
        let claims = if known.claims.is_null() { &state.claims } else { &known.claims };
        let claims = claims.clone();
        let mut answer = self.access_token(&state, &claims);
        answer["id_token"] = self.id_token(&known, &claims, fault).into();
        answer["refresh_token"] = format!("refresh-{}", state.refreshes.len()).into();
        state.refreshes.push(claims);
        (200, answer.to_string())
    }

    /// RFC 6749 §5.1: an answer with an access token of these claims.
    fn access_token(&self, state: &State, claims: &Value) -> Value {
        let Some(audience) = &state.access_audience else {
            return json!({ "access_token": "a", "token_type": "Bearer" });
        };
        let all = json!({ "iss": self.issuer, "aud": audience, "exp": 4_000_000_000_u64 });
        let token = self.signed(&self.key, all, claims);
        json!({ "access_token": token, "token_type": "Bearer", "expires_in": 1 })
    }

    fn id_token(&self, known: &Authorization, claims: &Value, fault: OpenIdFault) -> String {
        let nonce = if fault == OpenIdFault::OtherNonce { "another" } else { &*known.nonce };
        let audience = if fault == OpenIdFault::OtherAudience { "another" } else { &*known.client };
        let end = if fault == OpenIdFault::Expired { 1_u64 } else { 4_000_000_000 };
        let all = json!({ "iss": self.issuer, "aud": audience, "exp": end, "iat": 1, "nonce": nonce });
        let key = if fault == OpenIdFault::OtherKey { &self.other_key } else { &self.key };
        self.signed(key, all, claims)
    }

    /// A token with these claims, of which the user's own come last.
    fn signed(&self, key: &EcdsaKeyPair, mut all: Value, claims: &Value) -> String {
        for (name, value) in claims.as_object().into_iter().flatten() {
            all[name] = value.clone();
        }
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encode(&json!({ "alg": "ES256", "kid": "own" })), encode(&all));
        let signature = key.sign(&SystemRandom::new(), message.as_bytes()).expect("a signature");
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

/// Reads one request; none: the connection broke off.
fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut asked = Asked { method, path: path.to_owned(), query: query.to_owned(), ..Asked::default() };
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match &*name.to_ascii_lowercase() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => asked.authorization = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    asked.body = String::from_utf8(body).ok()?;
    Some(asked)
}
