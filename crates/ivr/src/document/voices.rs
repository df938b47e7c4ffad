//! The voices that a Say may name. The speech engines have a man and a woman for each language, so that the name of another service's voice says only
//! which of them is meant, and which language.
//!
//! Names: those of TwiML, `Polly.Joanna` of Amazon's engine with or without `-Neural` and the like, and Google's, `Google.de-DE-Wavenet-B`.

use super::verb::Voice;

/// A voice by the name that another service gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NamedVoice<'a> {
    pub(super) voice: Voice,
    /// The language that the voice speaks; `None`: any.
    pub(super) language: Option<&'a str>,
}

/// The voice of this name, in any case. `None`: no such voice is known.
pub(super) fn named(name: &str) -> Option<NamedVoice<'_>> {
    let any = |voice| Some(NamedVoice { voice, language: None });
    match name.to_ascii_lowercase().as_str() {
        "man" => return any(Voice::Man),
        "woman" | "alice" => return any(Voice::Woman),
        _ => {}
    }
    let (service, of_service) = name.split_once('.')?;
    match service.to_ascii_lowercase().as_str() {
        "polly" => of_polly(of_service),
        "google" => of_google(of_service),
        _ => None,
    }
}

/// `Joanna`, `Joanna-Neural`.
fn of_polly(name: &str) -> Option<NamedVoice<'static>> {
    let first = name.split('-').next().unwrap_or_default();
    let is_it = |names: &str| names.split(' ').any(|known| known.eq_ignore_ascii_case(first));
    POLLY.iter().find_map(|(language, women, men)| {
        let voice = if is_it(women) {
            Voice::Woman
        } else if is_it(men) {
            Voice::Man
        } else {
            return None;
        };
        (!first.is_empty()).then_some(NamedVoice { voice, language: Some(language) })
    })
}

/// `en-US-Wavenet-C`, `en-US-Chirp3-HD-Aoede`.
fn of_google(name: &str) -> Option<NamedVoice<'_>> {
    let mut hyphens = name.match_indices('-').map(|(at, _)| at);
    let (first, second) = (hyphens.next()?, hyphens.next()?);
    let (language, kind) = (&name[..second], &name[second + 1..]);
    let is_of_letters = |text: &str| text.len() > 1 && text.bytes().all(|byte| byte.is_ascii_alphabetic());
    if !is_of_letters(&language[..first]) || !is_of_letters(&language[first + 1..]) {
        return None;
    }
    let last = kind.rsplit('-').next().filter(|last| !last.is_empty() && *last != kind)?;
    let is_man = match last {
        // The first voices of American English are the other way round.
        "A" | "a" => language.eq_ignore_ascii_case("en-US"),
        _ => GOOGLE_MEN.iter().any(|man| man.eq_ignore_ascii_case(last)),
    };
    let voice = if is_man { Voice::Man } else { Voice::Woman };
    Some(NamedVoice { voice, language: Some(language) })
}

/// Endings of the names of Google's men: letters in nearly all languages, names in the newest kind.
const GOOGLE_MEN: [&str; 18] = [
    "B",
    "D",
    "I",
    "J",
    "Q",
    "Achird",
    "Algenib",
    "Algieba",
    "Alnilam",
    "Charon",
    "Enceladus",
    "Fenrir",
    "Iapetus",
    "Orus",
    "Puck",
    "Rasalgethi",
    "Umbriel",
    "Zubenelgenubi",
];

/// The voices of Amazon's engine: language, women, men.
const POLLY: [(&str, &str, &str); 40] = [
    ("ar", "Zeina", ""),
    ("ar-AE", "Hala", "Zayd"),
    ("ca-ES", "Arlet", ""),
    ("cmn-CN", "Zhiyu", ""),
    ("cs-CZ", "Jitka", ""),
    ("cy-GB", "Gwyneth", ""),
    ("da-DK", "Naja Sofie", "Mads"),
    ("de-AT", "Hannah", ""),
    ("de-CH", "Sabrina", ""),
    ("de-DE", "Marlene Vicki", "Daniel Hans"),
    ("en-AU", "Nicole Olivia", "Russell"),
    ("en-GB", "Amy Emma", "Arthur Brian Geraint"),
    ("en-IE", "Niamh", ""),
    ("en-IN", "Aditi Kajal Raveena", ""),
    ("en-NZ", "Aria", ""),
    ("en-SG", "Jasmine", ""),
    (
        "en-US",
        "Danielle Ivy Joanna Kendra Kimberly Ruth Salli",
        "Gregory Joey Justin Kevin Matthew Patrick Stephen",
    ),
    ("en-ZA", "Ayanda", ""),
    ("es-ES", "Alba Conchita Lucia", "Enrique Raul Sergio"),
    ("es-MX", "Mia", "Andres"),
    ("es-US", "Lupe Penelope", "Miguel Pedro"),
    ("fi-FI", "Suvi", ""),
    ("fr-BE", "Isabelle", ""),
    ("fr-CA", "Chantal Gabrielle", "Liam"),
    ("fr-FR", "Celine Lea", "Mathieu Remi"),
    ("is-IS", "Dora", "Karl"),
    ("it-IT", "Bianca Carla", "Adriano Giorgio"),
    ("ja-JP", "Kazuha Mizuki Tomoko", "Takumi"),
    ("ko-KR", "Jihye Seoyeon", ""),
    ("nb-NO", "Ida Liv", ""),
    ("nl-BE", "Lisa", ""),
    ("nl-NL", "Laura Lotte", "Ruben"),
    ("pl-PL", "Ewa Maja Ola", "Jacek Jan"),
    ("pt-BR", "Camila Vitoria", "Ricardo Thiago"),
    ("pt-PT", "Ines", "Cristiano"),
    ("ro-RO", "Carmen", ""),
    ("ru-RU", "Tatyana", "Maxim"),
    ("sv-SE", "Astrid Elin", ""),
    ("tr-TR", "Burcu Filiz", ""),
    ("yue-CN", "Hiujin", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_selects_the_voice_and_the_language() {
        let said = |name| named(name).map(|named| (named.voice == Voice::Man, named.language));
        for (name, expected) in [
            ("man", (true, None)),
            ("Woman", (false, None)),
            ("alice", (false, None)),
            ("Polly.Joanna", (false, Some("en-US"))),
            ("polly.matthew-neural", (true, Some("en-US"))),
            ("Polly.Hans", (true, Some("de-DE"))),
            ("Polly.Lea-Generative", (false, Some("fr-FR"))),
            ("Google.en-US-Standard-A", (true, Some("en-US"))),
            ("Google.en-US-Wavenet-C", (false, Some("en-US"))),
            ("Google.de-DE-Neural2-B", (true, Some("de-DE"))),
            ("Google.de-DE-Wavenet-A", (false, Some("de-DE"))),
            ("Google.cmn-CN-Standard-D", (true, Some("cmn-CN"))),
            ("Google.en-GB-Chirp3-HD-Aoede", (false, Some("en-GB"))),
            ("google.pt-BR-Chirp3-HD-Charon", (true, Some("pt-BR"))),
        ] {
            assert_eq!(said(name), Some(expected), "{name}");
        }
    }

    #[test]
    fn other_names_are_no_voices() {
        for name in [
            "",
            "other",
            "Polly",
            "Polly.",
            "Polly.-Neural",
            "Polly.Nobody",
            "Google.",
            "Google.en",
            "Google.en-US",
            "Google.en-US-",
            "Google.en-US-Wavenet",
            "Google.--A",
            "Google.e-US-Wavenet-A",
            "Google.en-U1-Wavenet-A",
            "Google.é-ü-Wavenet-A",
            "Azure.Jenny",
            ".",
            "man.woman",
        ] {
            assert_eq!(named(name), None, "{name}");
        }
    }

    /// A name in two rows would have one language by chance.
    #[test]
    fn each_name_stands_once() {
        let mut names: Vec<&str> =
            POLLY.iter().flat_map(|(_, women, men)| women.split(' ').chain(men.split(' '))).collect();
        names.retain(|name| !name.is_empty());
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
