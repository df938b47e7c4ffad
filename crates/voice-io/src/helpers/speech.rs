//! Texts to sound: flite for English, espeak-ng for other languages, or the operator's program; one process a
//! text, never a shell. This module chooses the program of a text; it does not limit the number of processes.
//!
//! Speech engines are processes and never linked: espeak-ng is GPL. Texts and languages come from
//! applications: a text is standard input or the value of an option, and a language is looked up in a table,
//! so neither can become an option of a program.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use ivr::document::Voice;
use media::wav::Wav;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::cache::Samples;
use super::limits;
use super::settings::Settings;

/// A text to speak, with its voice and language.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Words {
    pub(super) text: String,
    pub(super) is_man: bool,
    /// In lower case, with hyphens.
    pub(super) language: String,
}

impl Words {
    /// Control characters are blanks to every engine, and a NUL is no argument.
    pub(super) fn new(text: &str, voice: Voice, language: &str) -> Words {
        Words {
            text: text.replace(char::is_control, " "),
            is_man: voice == Voice::Man,
            language: language.trim().to_ascii_lowercase().replace('_', "-"),
        }
    }
}

/// A program that writes WAV to its output.
#[derive(Debug, PartialEq, Eq)]
struct Engine {
    program: PathBuf,
    arguments: Vec<String>,
    /// The text for standard input. `None`: the text is an argument.
    input: Option<String>,
    /// Debian's, when it is one of theirs.
    package: Option<&'static str>,
}

/// Languages that espeak-ng speaks, by RestComm's messages and by tags of BCP 47, where its name is another.
const NAMES: [(&str, &str); 20] = [
    ("bf", "fr-be"),
    ("bp", "pt-br"),
    ("cf", "fr-fr"),
    ("dan", "da"),
    ("fi", "fi"),
    ("fr", "fr-fr"),
    ("fr-be", "fr-be"),
    ("fr-ch", "fr-ch"),
    ("no", "nb"),
    ("pt-br", "pt-br"),
    ("zh", "cmn"),
    ("zh-hk", "yue"),
    ("cmn", "cmn"),
    ("yue", "yue"),
    ("es-mx", "es-419"),
    ("es-us", "es-419"),
    ("es-419", "es-419"),
    ("fil", "en-us"),
    ("vi", "vi"),
    ("kok", "kok"),
];

/// Languages whose tags are their names in espeak-ng.
const LANGUAGES: &str = " af am ar as az be bg bn bs ca cs cy da de el eo es et eu fa ga gd gu he hi hr ht hu hy id is it \
    ja ka kk kn ko ku ky la lb lt lv mi mk ml mr ms mt my nb ne nl or pa pl pt ro ru sd si sk sl sq sr sv sw ta te th tr \
    tt ug uk ur uz ";

/// The sound of a text; nothing for a text of blanks.
pub(super) async fn speak(settings: &Settings, words: &Words) -> Result<Samples, String> {
    if words.text.trim().is_empty() {
        return Ok(Samples::default());
    }
    if words.text.len() > limits::SPEECH_TEXT {
        return Err(format!("a text of more than {} bytes is not spoken", limits::SPEECH_TEXT));
    }
    let engine = engine(settings, words)?;
    let name = engine.program.display();
    let file = run(&engine, settings).await?;
    let sound = tokio::task::spawn_blocking(move || Wav::parse(&file).map(|wav| wav.to_mono_at(8_000)));
    let samples = sound.await.map_err(|error| error.to_string())?;
    let mut samples = samples.map_err(|error| format!("{name} wrote no WAV: {error}"))?;
    samples.truncate(limits::SAMPLES);
    Ok(samples.into())
}

/// The program of a text: the operator's for every language, or else one by the language.
fn engine(settings: &Settings, words: &Words) -> Result<Engine, String> {
    let voice = if words.is_man { "man" } else { "woman" };
    // It may stand in an argument: nothing but what tags are made of.
    if words.language.is_empty()
        || words.language.len() > 35
        || !words.language.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        || words.language.starts_with('-')
    {
        return Err(format!("{:?} is no language", words.language));
    }
    if let Some([program, arguments @ ..]) = settings.command.as_deref() {
        let fill = |text: &String| text.replace("{voice}", voice).replace("{language}", &words.language);
        let arguments = arguments.iter().map(fill).collect();
        return Ok(Engine {
            program: program.into(),
            arguments,
            input: Some(words.text.clone()),
            package: None,
        });
    }
    if words.language == "en" || words.language.starts_with("en-") {
        let voice = if words.is_man { "kal" } else { "slt" };
        // From its input flite reads no further than it writes when its output is a pipe, and waits for ever.
        let arguments = ["-voice", voice, "-t", &words.text, "-o", "/dev/stdout"].map(str::to_owned).to_vec();
        return Ok(Engine {
            program: settings.flite.clone(),
            arguments,
            input: None,
            package: Some("flite"),
        });
    }
    let language =
        espeak_name(&words.language).ok_or_else(|| format!("no voice speaks `{}`", words.language))?;
    let variant = if words.is_man { "" } else { "+f3" };
    let arguments =
        ["-v", &format!("{language}{variant}"), "-b", "1", "--stdin", "--stdout"].map(str::to_owned).to_vec();
    let input = Some(words.text.clone());
    Ok(Engine { program: settings.espeak.clone(), arguments, input, package: Some("espeak-ng") })
}

/// By the whole tag first, and then by its language without a region.
fn espeak_name(language: &str) -> Option<&str> {
    let primary = language.split('-').next().unwrap_or_default();
    let named = |tag: &str| NAMES.iter().find(|(name, _)| *name == tag).map(|(_, name)| *name);
    let own = || LANGUAGES.split_whitespace().find(|name| *name == primary);
    named(language).or_else(|| named(primary)).or_else(own)
}

/// The WAV file that the engine wrote. It is killed when it takes too long.
async fn run(engine: &Engine, settings: &Settings) -> Result<Vec<u8>, String> {
    let mut child = start(engine)?;
    let talk = timeout(settings.speech_timeout, converse(&mut child, engine.input.as_deref())).await;
    let name = engine.program.display();
    match talk {
        Err(_) => {
            // By its process, and waited for: none stays behind.
            let _ = child.kill().await;
            Err(format!(
                "{name} spoke longer than {} s and was killed",
                settings.speech_timeout.as_secs_f32()
            ))
        }
        Ok(Err(error)) => {
            let _ = child.kill().await;
            Err(format!("{name}: {error}"))
        }
        Ok(Ok((status, _, told))) if !status.success() => {
            let told = String::from_utf8_lossy(&told);
            Err(format!("{name} ended with {status}: {}", told.lines().next().unwrap_or("without a word")))
        }
        Ok(Ok((_, file, _))) => Ok(file),
    }
}

/// An engine that is not there is told with the package that has it.
fn start(engine: &Engine) -> Result<Child, String> {
    let name = engine.program.display();
    let input = if engine.input.is_some() { Stdio::piped() } else { Stdio::null() };
    Command::new(&engine.program)
        .args(&engine.arguments)
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| match (error.kind(), engine.package) {
            (ErrorKind::NotFound, Some(package)) => {
                format!("{name} is not there to speak: install Debian's package {package}, or set a speech command")
            }
            (ErrorKind::NotFound, None) => format!("the speech command {name} is not there"),
            _ => format!("the speech program {name} cannot be started: {error}"),
        })
}

/// Status, standard output, and the beginning of the errors.
type ProcessOutput = (std::process::ExitStatus, Vec<u8>, Vec<u8>);

/// Writes and reads at the same time: with full pipes neither side would go on.
async fn converse(child: &mut Child, text: Option<&str>) -> std::io::Result<ProcessOutput> {
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let (Some(mut input), Some(text)) = (input, text) {
            // A program that does not read everything reports it by its exit status.
            let _ = input.write_all(text.as_bytes()).await;
        }
    };
    let read = async {
        let mut file = Vec::new();
        if let Some(output) = output {
            output.take(limits::AUDIO_FILE as u64).read_to_end(&mut file).await?;
        }
        std::io::Result::Ok(file)
    };
    let listen = async {
        let mut told = Vec::new();
        if let Some(errors) = errors {
            errors.take(limits::SPEECH_WORDS).read_to_end(&mut told).await?;
        }
        std::io::Result::Ok(told)
    };
    let ((), file, told) = tokio::join!(write, read, listen);
    Ok((child.wait().await?, file?, told?))
}

/// True if a program can be run, for the operator at the start.
pub fn is_installed(program: &Path) -> bool {
    let there = |path: &Path| path.is_file();
    if program.components().count() > 1 {
        return there(program);
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| there(&folder.join(program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(language: &str, voice: Voice) -> Result<String, String> {
        let engine = engine(&Settings::default(), &Words::new("-x; rm", voice, language))?;
        Ok(format!("{} {}", engine.program.display(), engine.arguments.join(" ")))
    }

    #[test]
    fn every_language_of_restcomm_has_a_voice() {
        let messages = "bf bp en en-gb cf cs dan fi es fr de el it nl no pl pt ru ar ca sv tr";
        for language in messages.split(' ') {
            assert!(chosen(language, Voice::Man).is_ok(), "{language}");
        }
        let command = |language, voice| chosen(language, voice).unwrap();
        assert_eq!(command("en_GB", Voice::Man), "flite -voice kal -t -x; rm -o /dev/stdout");
        assert_eq!(command("en", Voice::Woman), "flite -voice slt -t -x; rm -o /dev/stdout");
        assert_eq!(command("bf", Voice::Woman), "espeak-ng -v fr-be+f3 -b 1 --stdin --stdout");
        assert_eq!(command("fr-FR", Voice::Man), "espeak-ng -v fr-fr -b 1 --stdin --stdout");
        assert_eq!(command("es-MX", Voice::Man), "espeak-ng -v es-419 -b 1 --stdin --stdout");
    }

    #[test]
    fn an_invalid_language_reaches_no_program() {
        for language in ["", "xx", "-v", "fr/../x", "fr+m1", "en -t", &"a".repeat(40)] {
            assert!(chosen(language, Voice::Man).is_err(), "{language}");
        }
    }
}
