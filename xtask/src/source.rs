//! A Rust source file as the checks see it: comments, strings and characters blanked out, lines kept, so that a
//! search for `todo!` finds code and not a sentence about it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(crate) struct Source {
    /// Relative to the workspace, with `/`.
    pub(crate) path: String,
    pub(crate) lines: usize,
    pub(crate) text: String,
    /// As long as the file, with blanks for everything that is not code.
    pub(crate) code: String,
}

pub(crate) struct Function {
    pub(crate) name: String,
    /// From 1.
    pub(crate) line: usize,
    /// From the line of `fn` to the line of its closing brace.
    pub(crate) length: usize,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            lines: text.lines().count(),
            text: text.to_owned(),
            code: blank(text),
        }
    }

    /// A file of tests only.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.path.split('/').any(|part| part == "tests") || name == "tests.rs" || name.ends_with("_tests.rs")
    }

    /// The source of a benchmark or a demonstration; linked into nothing.
    pub(crate) fn is_example(&self) -> bool {
        self.path.contains("/examples/")
    }

    /// The module path by the file's place, such as `sip::endpoint::forward`; tests' targets and examples have none.
    pub(crate) fn module_path(&self) -> Option<String> {
        let name = self.crate_name()?;
        let inside = self.path.strip_prefix(&format!("crates/{name}/src/"))?.strip_suffix(".rs")?;
        let inside = inside.strip_suffix("/mod").unwrap_or(inside);
        let crate_name = name.replace('-', "_");
        match inside {
            "lib" | "main" => Some(crate_name),
            _ => Some(format!("{crate_name}::{}", inside.replace('/', "::"))),
        }
    }

    /// The crate's folder name below `crates/`.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Lines, from 1, on which `needle` stands as a whole word.
    pub(crate) fn lines_with<'a>(&'a self, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.code.lines().enumerate().filter(move |(_, line)| has_word(line, needle)).map(|(i, _)| i + 1)
    }

    pub(crate) fn functions(&self) -> Vec<Function> {
        let bytes = self.code.as_bytes();
        let mut found = Vec::new();
        for (at, _) in self.code.match_indices("fn ") {
            if at > 0 && is_word(bytes[at - 1]) {
                continue;
            }
            let name: String = self.code[at + 3..]
                .trim_start()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            // `fn (u8) -> u8` is a type.
            let Some(end) = body_end(bytes, at).filter(|_| !name.is_empty()) else { continue };
            let line = count_lines(&bytes[..at]) + 1;
            found.push(Function { name, line, length: count_lines(&bytes[at..end]) + 1 });
        }
        found
    }
}

/// Every Rust file of the workspace that is ours.
pub(crate) fn read_all(root: &Path) -> Result<Vec<Source>> {
    let mut paths = Vec::new();
    for folder in ["crates", "xtask", "tests", "fuzz"] {
        collect(&root.join(folder), &mut paths)?;
    }
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        Ok(Source::new(&relative, &text))
    };
    paths.into_iter().map(read).collect()
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with("target") {
                collect(&path, into)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
    Ok(())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

pub(crate) fn has_word(line: &str, needle: &str) -> bool {
    let bytes = line.as_bytes();
    line.match_indices(needle).any(|(at, _)| {
        let end = at + needle.len();
        let starts = at == 0 || !is_word(bytes[at - 1]) || !is_word(needle.as_bytes()[0]);
        let ends = end == bytes.len() || !is_word(bytes[end]) || !is_word(bytes[end - 1]);
        starts && ends
    })
}

fn count_lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// Just after the closing brace of the function whose `fn` stands at `from`; `None` when it has no body.
fn body_end(code: &[u8], from: usize) -> Option<usize> {
    let mut nested = 0usize;
    let mut braces = 0usize;
    for (at, byte) in code.iter().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => nested += 1,
            b')' | b']' => nested = nested.saturating_sub(1),
            b';' if braces == 0 && nested == 0 => return None,
            b'{' => braces += 1,
            b'}' if braces == 1 => return Some(at + 1),
            b'}' => braces = braces.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// Blanks comments, strings and character literals, byte by byte, keeping line ends.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let skipped = literal_or_comment(bytes, at);
        if skipped == 0 {
            out.push(if bytes[at].is_ascii() { bytes[at] } else { b' ' });
            at += 1;
        } else {
            out.extend(bytes[at..at + skipped].iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
            at += skipped;
        }
    }
    String::from_utf8(out).expect("only ASCII was written")
}

/// How many bytes the comment or literal that starts here is long; 0 when none does.
pub(crate) fn literal_or_comment(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let after_word = at > 0 && is_word(bytes[at - 1]);
    match rest {
        [b'/', b'/', ..] => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment(rest),
        [b'"', ..] => string(rest),
        [b'r', b'"' | b'#', ..] if !after_word => raw_string(rest, 1),
        [b'b', b'r', b'"' | b'#', ..] if !after_word => raw_string(rest, 2),
        [b'\'', ..] => character(rest),
        _ => 0,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at + 1 < rest.len() {
        match &rest[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" if depth == 1 => return at + 2,
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[u8], prefix: usize) -> usize {
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    // `r#type` is an identifier.
    if rest.get(prefix + hashes) != Some(&b'"') {
        return 0;
    }
    let mut closing = vec![b'#'; hashes + 1];
    closing[0] = b'"';
    let body = prefix + hashes + 1;
    let end = rest[body..].windows(closing.len()).position(|window| window == closing);
    end.map_or(rest.len(), |end| body + end + closing.len())
}

/// A character, not a lifetime: `'x'` closes after one character or an escape.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return rest.iter().skip(3).position(|byte| *byte == b'\'').map_or(rest.len(), |end| end + 4);
    }
    let width = rest.get(1).map_or(1, |byte| byte.leading_ones().max(1) as usize);
    if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_text_that_is_not_code() {
        let text =
            "a /* b /* c */ d */ \"e \\\" f\" r#\"g \" h\"# 'i' '\\'' '\\u{1F4DE}' '☎' 'life j // k\nl";
        let code = Source::new("x.rs", text).code;
        let words: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "'life", "j", "l"]);
        assert_eq!(code.len(), text.len());
    }

    #[test]
    fn measures_functions() {
        let text =
            "trait T { fn a(&self, x: [u8; 2]); }\nfn b(\n) {\n    let f = '{';\n    if true {\n    }\n}\n";
        let functions = Source::new("x.rs", text).functions();
        let found: Vec<_> = functions.iter().map(|f| (f.name.as_str(), f.line, f.length)).collect();
        assert_eq!(found, [("b", 2, 6)]);
    }

    #[test]
    fn finds_whole_words() {
        let source = Source::new("x.rs", "tokio::spawn\nmy_tokio\n// tokio\ndbg!(x)\n");
        assert_eq!(source.lines_with("tokio").collect::<Vec<_>>(), [1]);
        assert_eq!(source.lines_with("dbg!").collect::<Vec<_>>(), [4]);
    }
}
