//! POSIX extended regular expressions through the C library, as SIPp has them: leftmost-longest, `[[:digit:]]`,
//! a backslash in brackets standing for itself. Another engine would give other captures for the same scenario.
#![expect(unsafe_code, reason = "regcomp(3) and regexec(3) are the C library's")]

use std::ffi::CString;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// The whole match and nine sub-expressions.
const GROUPS: usize = 10;

/// Subjects up to this long are copied to the stack for their terminating NUL.
const ON_STACK: usize = 2048;

/// Compiled once, shared by all shards.
#[derive(Clone)]
pub struct Regex {
    inner: Arc<RegexInner>,
}

struct RegexInner {
    text: Box<str>,
    /// `None` when the pattern is plain text: then a substring search gives the same answer.
    compiled: Option<CompiledRegex>,
}

/// A pattern that `regcomp` compiled; `regfree` releases it.
struct CompiledRegex(libc::regex_t);

// SAFETY: POSIX allows a compiled expression to be used by several threads at once and freed by any one of them.
unsafe impl Send for CompiledRegex {}
// SAFETY: as above; regexec takes it by pointer to const, and glibc guards its own caches with a lock inside.
unsafe impl Sync for CompiledRegex {}

impl Drop for CompiledRegex {
    fn drop(&mut self) {
        // SAFETY: it was filled by a regcomp that succeeded, and is freed once, here.
        unsafe { libc::regfree(&raw mut self.0) }
    }
}

impl CompiledRegex {
    fn new(text: &str) -> Result<CompiledRegex, String> {
        let text = CString::new(text).map_err(|_| "a NUL in the expression".to_owned())?;
        let mut memory = MaybeUninit::<libc::regex_t>::zeroed();
        // SAFETY: the pointers are to a regex_t's worth of memory and to a terminated string.
        let code = unsafe { libc::regcomp(memory.as_mut_ptr(), text.as_ptr(), libc::REG_EXTENDED) };
        if code == 0 {
            // SAFETY: regcomp succeeded, so it filled it.
            return Ok(CompiledRegex(unsafe { memory.assume_init() }));
        }
        let mut explanation = [0_u8; 256];
        // SAFETY: regerror may look at the regex_t of the failed regcomp and writes at most the length given.
        unsafe { libc::regerror(code, memory.as_ptr(), explanation.as_mut_ptr().cast(), explanation.len()) };
        let end = explanation.iter().position(|byte| *byte == 0).unwrap_or(explanation.len());
        Err(String::from_utf8_lossy(&explanation[..end]).into_owned())
    }

    /// `subject` ends with its only NUL.
    fn search(&self, subject: &[u8]) -> Option<[Option<(usize, usize)>; GROUPS]> {
        assert_eq!(subject.last(), Some(&0), "the C library reads up to a NUL");
        let mut found = [libc::regmatch_t { rm_so: -1, rm_eo: -1 }; GROUPS];
        // SAFETY: the expression is compiled, the subject terminated (checked above), and there is room for GROUPS.
        let code = unsafe {
            libc::regexec(&raw const self.0, subject.as_ptr().cast(), GROUPS, found.as_mut_ptr(), 0)
        };
        (code == 0).then(|| {
            found.map(|group| Some((usize::try_from(group.rm_so).ok()?, usize::try_from(group.rm_eo).ok()?)))
        })
    }
}

impl Regex {
    /// `Err` is the C library's own explanation.
    pub fn new(text: &str) -> Result<Regex, String> {
        // No character with a meaning: a substring search is faster and gives the same.
        let plain = !text.is_empty() && !text.bytes().any(|byte| b"\\^$.[]|()*+?{}\0".contains(&byte));
        let compiled = if plain { None } else { Some(CompiledRegex::new(text)?) };
        Ok(Regex { inner: Arc::new(RegexInner { text: text.into(), compiled }) })
    }

    /// The expression as written.
    pub fn as_str(&self) -> &str {
        &self.inner.text
    }

    /// Ranges of the whole match and of up to nine sub-expressions. Nothing after a NUL is looked at.
    pub fn captures(&self, bytes: &[u8]) -> Option<[Option<(usize, usize)>; GROUPS]> {
        let bytes = memchr::memchr(0, bytes).map_or(bytes, |end| &bytes[..end]);
        let Some(compiled) = &self.inner.compiled else {
            let start = memchr::memmem::find(bytes, self.inner.text.as_bytes())?;
            let mut groups = [None; GROUPS];
            groups[0] = Some((start, start + self.inner.text.len()));
            return Some(groups);
        };
        // Most subjects are headers and short messages.
        let mut stack = [0_u8; ON_STACK];
        if let Some(subject) = stack.get_mut(..=bytes.len()) {
            subject[..bytes.len()].copy_from_slice(bytes);
            return compiled.search(subject);
        }
        let mut subject = Vec::with_capacity(bytes.len() + 1);
        subject.extend_from_slice(bytes);
        subject.push(0);
        compiled.search(&subject)
    }

    /// The expression matches within `bytes`.
    pub fn is_match(&self, bytes: &[u8]) -> bool {
        self.captures(bytes).is_some()
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Regex({:?})", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole<'a>(pattern: &str, text: &'a str) -> Option<&'a str> {
        let (start, end) = Regex::new(pattern).expect("it compiles").captures(text.as_bytes())?[0]?;
        Some(&text[start..end])
    }

    #[test]
    fn the_longest_alternative_wins() {
        assert_eq!(whole("a|ab|abc", "xabcd"), Some("abc"));
        assert_eq!(whole("[[:digit:]]+", "CSeq: 123 X"), Some("123"));
    }

    #[test]
    fn a_backslash_in_brackets_is_itself() {
        assert_eq!(whole(r"[\d]+", r"12\d3"), Some(r"\d"));
    }

    #[test]
    fn sub_expressions_are_given_in_order_and_may_be_absent() {
        let groups = Regex::new("(a)|(b)(c)").expect("it compiles").captures(b"xbc").expect("it matches");
        assert_eq!(&groups[..5], &[Some((1, 3)), None, Some((1, 2)), Some((2, 3)), None]);
    }

    #[test]
    fn nothing_after_a_nul_is_found() {
        for pattern in ["tag", "ta[g]"] {
            let regex = Regex::new(pattern).expect("it compiles");
            assert!(!regex.is_match(b"x\0tag"));
            assert!(regex.is_match(b"tag\0x"));
        }
    }

    #[test]
    fn long_subjects_match_too() {
        let text = "x".repeat(ON_STACK * 2) + "7";
        assert_eq!(whole("[0-9]", &text), Some("7"));
        assert_eq!(whole("7$", &"7".repeat(ON_STACK)), Some("7"));
    }

    #[test]
    fn a_mistake_is_explained() {
        assert!(Regex::new("(a").expect_err("unbalanced").contains('('));
        assert!(Regex::new("[a").is_err());
    }
}
