//! Hashed tokens (draft-schmaus-kitten-sasl-ht-09): a client proves in one message that it has a token. XEP-0484 issues them.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{Bindings, Failure, Identity, Secret, Step};

/// The channel binding of a token's proof: the last part of `HT-SHA-256-…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenBinding {
    /// `tls-exporter`.
    Exporter,
    /// `tls-server-end-point`.
    EndPoint,
    /// No channel binding.
    None,
}

impl TokenBinding {
    /// The best first.
    pub const ALL: [TokenBinding; 3] = [TokenBinding::Exporter, TokenBinding::EndPoint, TokenBinding::None];

    /// The mechanism's name.
    pub fn mechanism(self) -> &'static str {
        match self {
            TokenBinding::Exporter => "HT-SHA-256-EXPR",
            TokenBinding::EndPoint => "HT-SHA-256-ENDP",
            TokenBinding::None => "HT-SHA-256-NONE",
        }
    }

    /// The binding of a mechanism's name.
    pub fn parse(mechanism: &str) -> Option<TokenBinding> {
        TokenBinding::ALL.into_iter().find(|binding| binding.mechanism() == mechanism)
    }

    /// `None`: this connection has no such binding.
    pub(crate) fn data(self, bindings: &Bindings) -> Option<&[u8]> {
        match self {
            TokenBinding::Exporter => bindings.find("tls-exporter"),
            TokenBinding::EndPoint => bindings.find("tls-server-end-point"),
            TokenBinding::None => Some(&[]),
        }
    }
}

/// One that a client was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The token's key in the store.
    pub id: Box<[u8]>,
    /// It proves nothing by another mechanism (XEP-0484 §3.3).
    pub binding: TokenBinding,
    /// The token.
    pub secret: Secret,
    /// The highest that came with it.
    pub count: u64,
    /// The use of the token so far.
    pub state: TokenState,
}

/// The state of a token: unused, used, or due for replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenState {
    /// The token has not been used.
    New,
    /// The client has signed in by the token.
    Used,
    /// Soon too old: the client is to get another.
    Due,
    /// The token has expired.
    TooOld,
}

/// A client's proof, until its tokens are known.
#[derive(Debug)]
pub(super) struct Proof {
    binding: TokenBinding,
    user: Box<str>,
    hash: Box<[u8]>,
    data: Box<[u8]>,
}

impl Proof {
    /// `authcid NUL HMAC(token, "Initiator" cb-data)`.
    pub(super) fn read(binding: TokenBinding, message: &[u8], bindings: &Bindings) -> Result<Proof, Failure> {
        let end = message.iter().position(|byte| *byte == 0).ok_or(Failure::MalformedRequest)?;
        let (user, hash) = (&message[..end], &message[end + 1..]);
        let user = std::str::from_utf8(user).map_err(|_| Failure::MalformedRequest)?;
        if user.is_empty() || hash.len() != 32 {
            return Err(Failure::MalformedRequest);
        }
        let data = binding.data(bindings).ok_or(Failure::MalformedRequest)?;
        Ok(Proof { binding, user: user.into(), hash: hash.into(), data: data.into() })
    }

    pub(super) fn user(&self) -> &str {
        &self.user
    }

    /// Finds the token by which the proof was made, and checks its use.
    pub(super) fn check(self, tokens: Vec<Token>, count: Option<u64>) -> Result<(Token, Step), Failure> {
        let is_it = |token: &Token| {
            let hash = mac(&token.secret, b"Initiator", &self.data);
            token.binding == self.binding && stdx::ct_eq(&hash, &self.hash)
        };
        let token = tokens.into_iter().find(is_it).ok_or(Failure::TokenRefused)?;
        // XEP-0484 §4.2: the client may use another mechanism.
        if token.state == TokenState::TooOld {
            return Err(Failure::CredentialsExpired);
        }
        // §3.3: it was heard before.
        if count.is_some_and(|count| count <= token.count) {
            return Err(Failure::NotAuthorized);
        }
        let last = mac(&token.secret, b"Responder", &self.data);
        let step = Step::Success { user: Identity::User(self.user), last: Some(last) };
        Ok((token, step))
    }
}

fn mac(token: &Secret, role: &[u8], data: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(token.0.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(role);
    mac.update(data);
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// The initial response of a client with this token.
    pub(crate) fn initial(user: &str, token: &str, data: &[u8]) -> Vec<u8> {
        let proof = mac(&Secret(token.into()), b"Initiator", data);
        [user.as_bytes(), b"\0", &proof].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Context, CredentialAnswer, CredentialQuery, Exchange, Mechanism};
    use super::*;

    fn token(binding: TokenBinding, secret: &str) -> Token {
        Token {
            id: secret.as_bytes().into(),
            binding,
            secret: Secret(secret.into()),
            count: 7,
            state: TokenState::Used,
        }
    }

    fn context(count: Option<u64>) -> Context {
        let bindings = Bindings {
            tls_exporter: Some(b"exporter"[..].into()),
            tls_server_end_point: Some(b"end"[..].into()),
        };
        Context { bindings, agent: Some("phone".into()), count, ..Context::default() }
    }

    fn try_it(binding: TokenBinding, initial: &[u8], count: Option<u64>, tokens: Vec<Token>) -> Step {
        let (mut exchange, step) =
            Exchange::start(Mechanism::HashedToken(binding), Some(initial), context(count));
        match step {
            Step::Find(CredentialQuery::Tokens { user, agent }) => {
                assert_eq!((&*user, &*agent), ("alice", "phone"));
                exchange.give(CredentialAnswer::Tokens(tokens))
            }
            step => step,
        }
    }

    #[test]
    fn a_token_signs_in_and_the_server_proves_that_it_has_it_too() {
        for (binding, data) in [
            (TokenBinding::None, &b""[..]),
            (TokenBinding::Exporter, b"exporter"),
            (TokenBinding::EndPoint, b"end"),
        ] {
            let tokens = vec![token(binding, "old"), token(binding, "new")];
            let step = try_it(binding, &testing::initial("alice", "new", data), Some(8), tokens);
            let Step::Success { last: Some(last), .. } = step else { panic!("{binding:?}: {step:?}") };
            assert_eq!(last, mac(&Secret("new".into()), b"Responder", data));
        }
    }

    #[test]
    fn invalid_proofs_and_tokens_sign_no_user_in() {
        use TokenBinding::{EndPoint, Exporter, None as Unbound};
        let good = testing::initial("alice", "t", b"exporter");
        let case = |binding, initial: &[u8], count, of: Token, failure| {
            assert_eq!(try_it(binding, initial, count, vec![of]), Step::Failure(failure));
        };
        // XEP-0484 §4.2: a token that was revoked, replaced or voided by a new password is one that is not there.
        let refused = Failure::TokenRefused;
        assert_eq!(refused.condition(), "credentials-expired");
        case(Exporter, &good, None, token(Exporter, "other"), refused);
        assert_eq!(try_it(Exporter, &good, None, Vec::new()), Step::Failure(refused));
        // Another mechanism's token, another channel's proof.
        case(Exporter, &good, None, token(EndPoint, "t"), refused);
        case(Unbound, &testing::initial("alice", "t", b""), None, token(Exporter, "t"), refused);
        case(Exporter, &testing::initial("alice", "t", b"elsewhere"), None, token(Exporter, "t"), refused);
        // Heard before.
        for count in [0, 6, 7] {
            case(Exporter, &good, Some(count), token(Exporter, "t"), Failure::NotAuthorized);
        }
        let old = Token { state: TokenState::TooOld, ..token(Exporter, "t") };
        case(Exporter, &good, None, old, Failure::CredentialsExpired);
        for broken in [&b"alice"[..], b"alice\0short", &[0; 33], &[b"\xff\0", &[0; 32][..]].concat()] {
            case(Exporter, broken, None, token(Exporter, "t"), Failure::MalformedRequest);
        }
    }

    #[test]
    fn an_account_that_is_not_there_is_answered_as_a_client_without_tokens() {
        let initial = testing::initial("alice", "t", b"");
        let mechanism = Mechanism::HashedToken(TokenBinding::None);
        let (mut exchange, _) = Exchange::start(mechanism, Some(&initial), context(None));
        assert_eq!(exchange.give(CredentialAnswer::NoAccount), Step::Failure(Failure::TokenRefused));
    }

    #[test]
    fn without_a_name_of_its_own_a_client_has_no_tokens() {
        let context = Context { agent: None, ..context(None) };
        let mechanism = Mechanism::HashedToken(TokenBinding::None);
        let (_, step) = Exchange::start(mechanism, Some(&testing::initial("alice", "t", b"")), context);
        assert_eq!(step, Step::Failure(Failure::MalformedRequest));
    }
}
