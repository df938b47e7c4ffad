//! The other side of SCRAM (RFC 5802 §3), for clients: the lab's users, and tests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Hash;

/// The keys that a client may store instead of a password, so that it need not be derived at each sign-in (RFC 5802 §5.1).
#[derive(Clone, PartialEq, Eq)]
pub struct ClientKeys {
    salt: Box<[u8]>,
    iterations: u32,
    client: Box<[u8]>,
    server: Box<[u8]>,
}

impl std::fmt::Debug for ClientKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClientKeys({} iterations)", self.iterations)
    }
}

/// Iterations that a server may ask of us: beyond, it wants our time and not our proof.
const ITERATIONS: u32 = 1_000_000;

/// One sign-in, without channel binding.
#[derive(Debug)]
pub struct ScramClient {
    hash: Hash,
    nonce: Box<str>,
    /// `n=user,r=nonce`.
    bare: String,
    /// The key of the server's signature.
    signature: Vec<u8>,
}

impl ScramClient {
    /// `nonce` is unpredictable and has no comma.
    pub fn new(hash: Hash, user: &str, nonce: &str) -> ScramClient {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        ScramClient { hash, nonce: nonce.into(), bare: format!("n={user},r={nonce}"), signature: Vec::new() }
    }

    /// The first message.
    pub fn first(&self) -> String {
        format!("n,,{}", self.bare)
    }

    /// The proof. `kept` is from an earlier sign-in, or is filled.
    ///
    /// # Errors
    /// The fault of the challenge.
    pub fn answer(
        &mut self,
        challenge: &[u8],
        password: &str,
        kept: &mut Option<ClientKeys>,
    ) -> Result<String, &'static str> {
        let challenge = std::str::from_utf8(challenge).map_err(|_| "a challenge that is not UTF-8")?;
        let field = |name: &str| challenge.split(',').find_map(|field| field.strip_prefix(name));
        let nonce = field("r=").filter(|nonce| nonce.starts_with(&*self.nonce) && *nonce != &*self.nonce);
        let nonce = nonce.ok_or("a challenge whose nonce does not go on from ours")?;
        let salt =
            field("s=").and_then(|salt| STANDARD.decode(salt).ok()).ok_or("a challenge without salt")?;
        let iterations = field("i=").and_then(|count| count.parse::<u32>().ok());
        let iterations = iterations
            .filter(|count| (1..=ITERATIONS).contains(count))
            .ok_or("a challenge with a number of iterations that is out of range")?;
        let fits = |kept: &&ClientKeys| *kept.salt == *salt && kept.iterations == iterations;
        let keys = match kept.as_ref().filter(fits) {
            Some(keys) => keys.clone(),
            None => self.derive(password, &salt, iterations),
        };
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("{},{challenge},{without_proof}", self.bare);
        let stored = self.hash.digest(&keys.client);
        let signature = self.hash.mac(&stored, signed.as_bytes());
        let proof: Vec<u8> = keys.client.iter().zip(&signature).map(|(key, byte)| key ^ byte).collect();
        self.signature = self.hash.mac(&keys.server, signed.as_bytes());
        *kept = Some(keys);
        Ok(format!("{without_proof},p={}", STANDARD.encode(proof)))
    }

    fn derive(&self, password: &str, salt: &[u8], iterations: u32) -> ClientKeys {
        let prepared = stringprep::saslprep(password).unwrap_or(password.into());
        let salted = self.hash.iterate(prepared.as_bytes(), salt, iterations);
        ClientKeys {
            salt: salt.into(),
            iterations,
            client: self.hash.mac(&salted, b"Client Key").into(),
            server: self.hash.mac(&salted, b"Server Key").into(),
        }
    }

    /// True if the server's last word (`v=…`) proves that it has our account's keys.
    pub fn is_server(&self, last: &[u8]) -> bool {
        let proved = last.strip_prefix(b"v=").and_then(|last| STANDARD.decode(last).ok());
        !self.signature.is_empty() && proved.is_some_and(|proved| stdx::ct_eq(&proved, &self.signature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677 §3.
    const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const CHALLENGE: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const PROOF: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const LAST: &[u8] = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    #[test]
    fn a_sign_in_is_as_the_text_has_it() {
        let mut client = ScramClient::new(Hash::Sha256, "user", "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(client.first(), FIRST);
        let mut kept = None;
        assert_eq!(client.answer(CHALLENGE.as_bytes(), "pencil", &mut kept).unwrap(), PROOF);
        assert!(client.is_server(LAST));
        assert!(!client.is_server(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="));
        // Cached keys need no password, as long as the salt is the same.
        assert_eq!(client.answer(CHALLENGE.as_bytes(), "forgotten", &mut kept).unwrap(), PROOF);
    }

    #[test]
    fn a_challenge_that_is_none_is_told() {
        for (challenge, says) in [
            ("r=other,s=QQ==,i=1", "nonce"),
            ("r=abc,s=QQ==,i=1", "nonce"),
            ("r=abcd,i=1", "salt"),
            ("r=abcd,s=QQ==,i=0", "iterations"),
            ("r=abcd,s=QQ==,i=1000000000", "iterations"),
        ] {
            let mut client = ScramClient::new(Hash::Sha1, "user", "abc");
            let error = client.answer(challenge.as_bytes(), "x", &mut None).unwrap_err();
            assert!(error.contains(says), "{challenge}: {error}");
            assert!(!client.is_server(b"v="));
        }
    }
}
