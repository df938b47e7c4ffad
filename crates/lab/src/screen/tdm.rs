//! `-tdmmap`: circuits `{first-last}{fixed}{first-last}{first-last}`.
//!
//! A circuit names a line of a TDM trunk; `[tdmmap]` gives each call the next one. Here only the form is checked and the number counted.

/// The four parts of a circuit's name, ranges inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TdmMap {
    /// First and last of the first range.
    pub slots: (u32, u32),
    /// The part that all circuits have in common.
    pub fixed: u32,
    /// First and last of the second range.
    pub trunks: (u32, u32),
    /// First and last of the third range.
    pub channels: (u32, u32),
}

impl TdmMap {
    /// Parses the argument of `-tdmmap`.
    pub fn parse(text: &str) -> Result<TdmMap, String> {
        let wrong =
            || format!("Parameter -tdmmap must be of form {{%d-%d}}{{%d}}{{%d-%d}}{{%d-%d}}, not \"{text}\"");
        let inner = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or_else(wrong)?;
        let parts: Vec<&str> = inner.split("}{").collect();
        let [slots, fixed, trunks, channels] = parts[..] else { return Err(wrong()) };
        // The first of a range may not be above its last.
        let range = |part: &str| {
            let (first, last) = part.split_once('-')?;
            let range: (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            (range.0 <= range.1).then_some(range)
        };
        Ok(TdmMap {
            slots: range(slots).ok_or_else(wrong)?,
            fixed: fixed.parse().map_err(|_| wrong())?,
            trunks: range(trunks).ok_or_else(wrong)?,
            channels: range(channels).ok_or_else(wrong)?,
        })
    }

    /// How many calls can have a circuit at once.
    pub fn circuits(self) -> u64 {
        let width = |(first, last): (u32, u32)| u64::from(last - first) + 1;
        width(self.slots) * width(self.trunks) * width(self.channels)
    }
}
