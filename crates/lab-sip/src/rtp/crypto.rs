//! SRTP of a call: the keys it offers (RFC 4568), and the pair that its offer and the other side's agree on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use media::rtp::is_rtcp;
use media::srtp::{Context, CryptoLine, Error, KEY_LEN, Suite};
use stdx::rng::Rng;

/// SIPp's word for a suite, between `cryptosuite` and the number of the line.
const SUITES: [(Suite, &str); 4] = [
    (Suite::AesCm128Sha1_80, "aescm128sha180"),
    (Suite::AesCm128Sha1_32, "aescm128sha132"),
    (Suite::NullSha1_80, "nullsha180"),
    (Suite::NullSha1_32, "nullsha132"),
];

/// The offer of one medium of a call: two lines at most, filled in as the scenario names their parts.
#[derive(Debug, Clone, Default)]
pub(super) struct CryptoOffer {
    lines: [DraftCryptoLine; 2],
}

/// A line of ours that keywords fill in part by part.
#[derive(Debug, Clone, Default)]
struct DraftCryptoLine {
    named: bool,
    suite: Option<Suite>,
    key: Option<[u8; KEY_LEN]>,
    unencrypted: bool,
}

/// A keyword, read: which medium, which of the two lines, what of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CryptoKeyword {
    pub(super) video: bool,
    line: usize,
    part: CryptoPart,
}

/// The part of an `a=crypto` line that a keyword names (RFC 4568 §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CryptoPart {
    Tag,
    Key,
    Suite(Suite),
    Unencrypted(Suite),
}

impl CryptoKeyword {
    /// `cryptotag1audio`, `cryptosuiteaescm128sha1801audio`, `cryptokeyparams2video`, `ueaescm128sha1321video`, …
    pub(super) fn parse(keyword: &str) -> Option<CryptoKeyword> {
        let (rest, video) = match keyword.strip_suffix("audio") {
            Some(rest) => (rest, false),
            None => (keyword.strip_suffix("video")?, true),
        };
        let (rest, line) = match rest.strip_suffix('1') {
            Some(rest) => (rest, 0),
            None => (rest.strip_suffix('2')?, 1),
        };
        let suite = |name| SUITES.into_iter().find(|(_, word)| *word == name).map(|(suite, _)| suite);
        let part = match rest {
            "cryptotag" => CryptoPart::Tag,
            "cryptokeyparams" => CryptoPart::Key,
            _ => match (rest.strip_prefix("cryptosuite"), rest.strip_prefix("ue")) {
                (Some(name), _) => CryptoPart::Suite(suite(name)?),
                (None, Some(name)) => CryptoPart::Unencrypted(suite(name)?),
                (None, None) => return None,
            },
        };
        Some(CryptoKeyword { video, line, part })
    }
}

impl CryptoOffer {
    /// The text of a keyword in the message. The key is made at its first mention and kept for the call.
    pub(super) fn render(&mut self, keyword: CryptoKeyword, rng: &mut Rng) -> String {
        let tag = keyword.line + 1;
        let line = &mut self.lines[keyword.line];
        line.named = true;
        match keyword.part {
            CryptoPart::Tag => tag.to_string(),
            CryptoPart::Key => {
                let key = line.key.get_or_insert_with(|| {
                    let mut key = [0; KEY_LEN];
                    rng.fill(&mut key);
                    key
                });
                STANDARD.encode(key)
            }
            CryptoPart::Suite(suite) => {
                line.suite = Some(suite);
                suite.name().to_owned()
            }
            CryptoPart::Unencrypted(_) => {
                line.unencrypted = true;
                "UNENCRYPTED_SRTP".to_owned()
            }
        }
    }

    fn lines(&self) -> impl Iterator<Item = CryptoLine> {
        self.lines.iter().zip(1..).filter(|(line, _)| line.named).filter_map(|(line, tag)| {
            let (suite, key) = (line.suite?, line.key?);
            Some(CryptoLine { tag, suite, key, unencrypted: line.unencrypted })
        })
    }

    /// Our line and the peer's: the peer's first line whose suite we offered too, preferably with the same tag.
    pub(super) fn agree(&self, peer_lines: &[CryptoLine]) -> Option<(CryptoLine, CryptoLine)> {
        peer_lines.iter().find_map(|peer_line| {
            let same_suite = || self.lines().filter(|own_line| own_line.suite == peer_line.suite);
            let own = same_suite()
                .find(|own_line| own_line.tag == peer_line.tag)
                .or_else(|| same_suite().next())?;
            Some((own, *peer_line))
        })
    }
}

/// Both directions of a medium, agreed. All that is sent under one key goes through one context.
pub(super) struct CryptoSession {
    lines: (CryptoLine, CryptoLine),
    outbound: Context,
    inbound: Context,
}

impl CryptoSession {
    pub(super) fn new(own: CryptoLine, peer: CryptoLine) -> CryptoSession {
        CryptoSession { lines: (own, peer), outbound: own.context(), inbound: peer.context() }
    }

    /// Its keys are these: an offer repeated changes nothing.
    pub(super) fn is(&self, lines: &(CryptoLine, CryptoLine)) -> bool {
        self.lines == *lines
    }

    pub(super) fn protect(&mut self, packet: &mut Vec<u8>) -> Result<(), Error> {
        if is_rtcp(packet) { self.outbound.protect_rtcp(packet) } else { self.outbound.protect_rtp(packet) }
    }

    pub(super) fn unprotect(&mut self, packet: &mut Vec<u8>) -> Result<(), Error> {
        if is_rtcp(packet) { self.inbound.unprotect_rtcp(packet) } else { self.inbound.unprotect_rtp(packet) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(offer: &mut CryptoOffer, rng: &mut Rng, name: &str) -> String {
        offer.render(CryptoKeyword::parse(name).expect("a keyword"), rng)
    }

    fn line(offer: &mut CryptoOffer, rng: &mut Rng, n: u8, suite: &str) -> String {
        let tag = render(offer, rng, &format!("cryptotag{n}audio"));
        let name = render(offer, rng, &format!("cryptosuite{suite}{n}audio"));
        let key = render(offer, rng, &format!("cryptokeyparams{n}audio"));
        format!("{tag} {name} inline:{key}")
    }

    #[test]
    fn two_sides_agree_on_the_line_the_answer_names() {
        let mut rng = Rng::seeded(1);
        let (mut uac, mut uas) = (CryptoOffer::default(), CryptoOffer::default());
        let first = line(&mut uac, &mut rng, 1, "aescm128sha132");
        let second = line(&mut uac, &mut rng, 2, "aescm128sha180");
        let offered: Vec<CryptoLine> =
            [&first, &second].into_iter().filter_map(|l| CryptoLine::parse(l)).collect();
        let answered = line(&mut uas, &mut rng, 2, "aescm128sha180");
        let answered = [CryptoLine::parse(&answered).expect("a line")];
        let (uac_out, uac_in) = uac.agree(&answered).expect("agreed");
        let (uas_out, uas_in) = uas.agree(&offered).expect("agreed");
        assert_eq!((uac_out, uac_in), (uas_in, uas_out));
        assert_eq!(uac_out.suite, Suite::AesCm128Sha1_80);
        assert_ne!(uac_out.key, uac_in.key);
    }

    #[test]
    fn a_key_lasts_for_the_call_and_differs_between_calls() {
        let mut rng = Rng::seeded(2);
        let (mut one, mut other) = (CryptoOffer::default(), CryptoOffer::default());
        let key = render(&mut one, &mut rng, "cryptokeyparams1audio");
        assert_eq!(key.len(), 40);
        assert_eq!(render(&mut one, &mut rng, "cryptokeyparams1audio"), key);
        assert_ne!(render(&mut other, &mut rng, "cryptokeyparams1audio"), key);
        assert_eq!(render(&mut one, &mut rng, "ueaescm128sha1801audio"), "UNENCRYPTED_SRTP");
    }

    #[test]
    fn an_unknown_crypto_keyword_is_refused() {
        for keyword in ["cryptotag3audio", "cryptotag1", "cryptosuitedes1audio", "uenothing1video", "audio"] {
            assert_eq!(CryptoKeyword::parse(keyword), None, "{keyword}");
        }
        for line in
            ["", "1", "1 AES_CM_128_HMAC_SHA1_80", "1 AES_CM_128_HMAC_SHA1_80 inline:AAAA", "x DES inline:x"]
        {
            assert_eq!(CryptoLine::parse(line), None, "{line}");
        }
    }
}
