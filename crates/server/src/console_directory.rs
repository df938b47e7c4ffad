//! The roles that directories and tokens give at the console: the way from its questions to the thread of sign-in sources.

use std::sync::Arc;

use external_auth::{
    Answer, Authenticator, AuthorizationQuery, CodeQuery, Credential, DirectoryRole, Hidden, PageAnswer,
    Query, RoleAnswer, RoleVerdict as Given, TokenAnswer, TokenUse, TokenVerdict as GivenToken, Verdict,
};
use stdx::Instant;
use store::Address;
use tokio::sync::oneshot;
use web_console::{
    AuthorizationRequest, Directory, DirectoryAnswer, DirectoryTimes, PasswordVerdict, ReturnedCode, Role,
    RoleVerdict, TokenUser, TokenVerdict,
};

/// The sources of sign-ins, of which some have groups or tokens that give roles.
pub(crate) struct Directories(Arc<Authenticator>);

impl Directories {
    /// None: no domain has a source of sign-ins.
    pub(crate) fn of(authenticator: Option<Arc<Authenticator>>) -> Option<Directories> {
        authenticator.map(Directories)
    }
}

impl Directory for Directories {
    fn times(&self, domain: &str) -> Option<DirectoryTimes> {
        let groups = self.0.source_of(domain).filter(|source| source.gives_roles())?.group_times()?;
        Some(DirectoryTimes { refresh: groups.refresh, keep: groups.keep })
    }

    fn check(&self, now: Instant, account: &Address, password: &str) -> DirectoryAnswer<PasswordVerdict> {
        let credential =
            Credential::Password { user: (&*account.user).into(), password: Hidden(password.into()) };
        let (send, receive) = oneshot::channel();
        // A client that has gone does not want its verdict any more.
        let answer = Answer::new(move |verdict| {
            let _ = send.send(verdict);
        });
        self.0.ask(Query { now, domain: (&*account.domain).into(), credential }, answer);
        Box::pin(async move {
            match receive.await {
                Ok(Verdict::Accepted(_)) => PasswordVerdict::Right,
                Ok(Verdict::Refused) => PasswordVerdict::Wrong,
                Ok(Verdict::Unavailable) | Err(_) => PasswordVerdict::Unavailable,
            }
        })
    }

    fn role(&self, account: &Address) -> DirectoryAnswer<RoleVerdict> {
        let (send, receive) = oneshot::channel();
        let answer = RoleAnswer::new(move |verdict| {
            let _ = send.send(verdict);
        });
        self.0.ask_role(&account.domain, &account.user, answer);
        Box::pin(async move {
            match receive.await {
                Ok(Given::Known(role)) => RoleVerdict::Known(role.map(role_of)),
                Ok(Given::Unavailable) | Err(_) => RoleVerdict::Unavailable,
            }
        })
    }

    fn takes_tokens(&self, domain: &str) -> bool {
        self.0.source_of(domain).is_some_and(|source| source.token_roles().is_some())
    }

    fn domains_of_token(&self, token: &str) -> Vec<Box<str>> {
        self.0.domains_of_token(TokenUse::Console, token)
    }

    fn takes_any_tokens(&self) -> bool {
        self.0.takes_tokens()
    }

    fn providers(&self) -> Vec<(Box<str>, Box<str>)> {
        let all = self.0.providers();
        all.into_iter().map(|(domain, provider)| (domain.into(), provider.label.clone())).collect()
    }

    fn sign_in_page(&self, domain: &str, request: AuthorizationRequest) -> DirectoryAnswer<Option<Box<str>>> {
        let (send, receive) = oneshot::channel();
        let answer = PageAnswer::new(move |page| {
            let _ = send.send(page);
        });
        self.0.ask_page(domain, query_of(request), answer);
        Box::pin(async move { receive.await.ok().flatten() })
    }

    fn check_code(&self, domain: &str, returned: ReturnedCode) -> DirectoryAnswer<TokenVerdict> {
        let (send, receive) = oneshot::channel();
        let answer = TokenAnswer::new(move |verdict| {
            let _ = send.send(verdict);
        });
        let ReturnedCode { request, code, issuer } = returned;
        let (code, issuer) = (Hidden(code.into()), issuer.map(String::into_boxed_str));
        self.0.ask_code(domain, CodeQuery { request: query_of(request), code, issuer }, answer);
        Box::pin(async move { verdict_of(receive.await) })
    }

    fn check_token(&self, now: Instant, domain: &str, token: &str) -> DirectoryAnswer<TokenVerdict> {
        let (send, receive) = oneshot::channel();
        let answer = TokenAnswer::new(move |verdict| {
            let _ = send.send(verdict);
        });
        self.0.ask_token(now, domain, Hidden(token.into()), answer);
        Box::pin(async move { verdict_of(receive.await) })
    }
}

fn query_of(request: AuthorizationRequest) -> AuthorizationQuery {
    AuthorizationQuery {
        now: request.now,
        redirect_uri: request.redirect_uri.into(),
        state: request.state.into(),
        nonce: request.nonce.into(),
        verifier: Hidden(request.verifier.into()),
    }
}

/// A question whose answer does not come has none.
fn verdict_of(given: Result<GivenToken, oneshot::error::RecvError>) -> TokenVerdict {
    match given {
        Ok(GivenToken::Accepted(user)) => TokenVerdict::Accepted(TokenUser {
            name: user.name,
            role: user.role.map(role_of),
            ends_at: user.ends_at,
        }),
        Ok(GivenToken::Refused) => TokenVerdict::Refused,
        Ok(GivenToken::Unavailable) | Err(_) => TokenVerdict::Unavailable,
    }
}

fn role_of(given: DirectoryRole) -> Role {
    match given {
        DirectoryRole::ReadOnly => Role::ReadOnly,
        DirectoryRole::Operator => Role::Operator,
        DirectoryRole::Admin => Role::Admin,
    }
}
