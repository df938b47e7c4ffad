//! SRTP of a call: the keys it offers (RFC 4568), and the pair that its offer and the other side's agree on.
//!
//! A scenario writes `[cryptotag1audio]` and its kin into its SDP: [`CryptoOffer`] makes a tag, a suite and a key of them. The other side's
//! lines come by its SDP. When both have a suite in common a [`CryptoSession`] encrypts and decrypts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use media::rtp::is_rtcp;
use media::srtp::{Context, CryptoLine, Error, KEY_LEN, MAX_KEY_LEN, Suite};
use stdx::rng::Rng;

/// SIPp's word for a suite, between `cryptosuite` and the number of the line.
const SUITES: [(Suite, &str); 8] = [
    (Suite::AesCm128Sha1_80, "aescm128sha180"),
    (Suite::AesCm128Sha1_32, "aescm128sha132"),
    (Suite::AesCm192Sha1_80, "aescm192sha180"),
    (Suite::AesCm192Sha1_32, "aescm192sha132"),
    (Suite::AesCm256Sha1_80, "aescm256sha180"),
    (Suite::AesCm256Sha1_32, "aescm256sha132"),
    (Suite::NullSha1_80, "nullsha180"),
    (Suite::NullSha1_32, "nullsha132"),
];

/// An attribute with a key of any suite.
pub(super) type CallCryptoLine = CryptoLine<Box<[u8]>>;

/// The offer of one medium of a call: two lines at most, filled in as the scenario names their parts.
#[derive(Debug, Clone, Default)]
pub(super) struct CryptoOffer {
    lines: [DraftCryptoLine; 2],
}

/// A line of ours that keywords fill in part by part.
#[derive(Debug, Clone, Default)]
struct DraftCryptoLine {
    /// A keyword of this line was used.
    named: bool,
    /// Named by `[cryptosuite…]`.
    suite: Option<Suite>,
    /// The key: the suite takes as many bytes of it as it needs.
    key: Option<[u8; MAX_KEY_LEN]>,
    /// `UNENCRYPTED_SRTP`: authenticated alone.
    unencrypted: bool,
}

/// A keyword, read: which medium, which of the two lines, what of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CryptoKeyword {
    pub(super) video: bool,
    /// 0 or 1.
    line: usize,
    /// The part of the line that it gives.
    part: CryptoPart,
}

/// The part of an `a=crypto` line that a keyword names (RFC 4568 §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CryptoPart {
    /// The number of the line.
    Tag,
    /// The key and salt, in base64.
    Key,
    /// The name of the suite.
    Suite(Suite),
    /// The session parameter that turns encryption off.
    Unencrypted(Suite),
}

impl CryptoKeyword {
    /// `cryptotag1audio`, `cryptosuiteaescm128sha1801audio`, `cryptokeyparams2video`, `ueaescm128sha1321video`, …
    pub(super) fn parse(keyword: &str) -> Option<CryptoKeyword> {
        // Read from the end: medium, then the number of the line, then the part.
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
                    let mut key = [0; MAX_KEY_LEN];
                    rng.fill(&mut key);
                    key
                });
                // SDP names the suite before its key (RFC 4568 §4.1).
                let length = line.suite.map_or(KEY_LEN, Suite::key_len);
                STANDARD.encode(&key[..length])
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

    /// Lines that have a suite and a key.
    fn lines(&self) -> impl Iterator<Item = CallCryptoLine> {
        self.lines.iter().zip(1..).filter(|(line, _)| line.named).filter_map(|(line, tag)| {
            let suite = line.suite?;
            let key = line.key?[..suite.key_len()].into();
            Some(CryptoLine { tag, suite, key, unencrypted: line.unencrypted })
        })
    }

    /// Our line and the peer's: the peer's first line whose suite we offered too, preferably with the same tag.
    pub(super) fn agree(&self, peer_lines: &[CallCryptoLine]) -> Option<(CallCryptoLine, CallCryptoLine)> {
        peer_lines.iter().find_map(|peer_line| {
            let same_suite = || self.lines().filter(|own_line| own_line.suite == peer_line.suite);
            let own = same_suite()
                .find(|own_line| own_line.tag == peer_line.tag)
                .or_else(|| same_suite().next())?;
            Some((own, peer_line.clone()))
        })
    }
}

/// Both directions of a medium, agreed. All that is sent under one key goes through one context.
pub(super) struct CryptoSession {
    /// Our line and the peer's, by which a repeated offer is recognised.
    lines: (CallCryptoLine, CallCryptoLine),
    /// Packets of ours, under our key.
    outbound: Context,
    /// Packets of the peer, under its key.
    inbound: Context,
}

impl CryptoSession {
    pub(super) fn new(own: CallCryptoLine, peer: CallCryptoLine) -> CryptoSession {
        CryptoSession { outbound: own.context(), inbound: peer.context(), lines: (own, peer) }
    }

    /// Its keys are these: an offer repeated changes nothing.
    pub(super) fn is(&self, lines: &(CallCryptoLine, CallCryptoLine)) -> bool {
        self.lines == *lines
    }

    /// Encrypts a packet in place; RTCP has its own keys and index.
    pub(super) fn protect(&mut self, packet: &mut Vec<u8>) -> Result<(), Error> {
        if is_rtcp(packet) { self.outbound.protect_rtcp(packet) } else { self.outbound.protect_rtp(packet) }
    }

    /// Decrypts a packet in place. An error: it is forged, repeated or under another key.
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
        let offered: Vec<CallCryptoLine> =
            [&first, &second].into_iter().filter_map(|l| CryptoLine::parse(l)).collect();
        let answered = line(&mut uas, &mut rng, 2, "aescm128sha180");
        let answered = [CryptoLine::parse(&answered).expect("a line")];
        let (uac_out, uac_in) = uac.agree(&answered).expect("agreed");
        let (uas_out, uas_in) = uas.agree(&offered).expect("agreed");
        assert_eq!((&uac_out, &uac_in), (&uas_in, &uas_out));
        assert_eq!(uac_out.suite, Suite::AesCm128Sha1_80);
        assert_ne!(uac_out.key, uac_in.key);
    }

    /// RFC 6188 §4.1: each suite names a key of its own length.
    #[test]
    fn a_long_suite_has_a_long_key() {
        for (suite, length) in [("aescm128sha180", 40), ("aescm192sha132", 52), ("aescm256sha180", 64)] {
            let mut rng = Rng::seeded(3);
            let (mut uac, mut uas) = (CryptoOffer::default(), CryptoOffer::default());
            let offered = line(&mut uac, &mut rng, 1, suite);
            let answered = line(&mut uas, &mut rng, 1, suite);
            assert_eq!(offered.split("inline:").nth(1).map(str::len), Some(length), "{suite}: {offered}");
            let (offered, answered) =
                (CallCryptoLine::parse(&offered).unwrap(), CallCryptoLine::parse(&answered).unwrap());
            let mut sender = uac.agree(&[answered]).map(|(own, peer)| CryptoSession::new(own, peer)).unwrap();
            let mut receiver =
                uas.agree(&[offered]).map(|(own, peer)| CryptoSession::new(own, peer)).unwrap();
            let mut packet = Vec::new();
            media::rtp::Header { ssrc: 7, ..Default::default() }.write(b"hello", &mut packet);
            let plain = packet.clone();
            sender.protect(&mut packet).unwrap();
            assert_ne!(packet[..plain.len()], plain[..]);
            receiver.unprotect(&mut packet).unwrap();
            assert_eq!(packet, plain);
        }
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
            assert_eq!(CallCryptoLine::parse(line), None, "{line}");
        }
    }
}
