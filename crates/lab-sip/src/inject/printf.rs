//! PRINTF files: few lines that stand for many, with the line's number in their fields.
//!
//! `SEQUENTIAL,PRINTF=1000` makes a thousand lines of those that follow; `%d` in a field becomes the number of the line.

use std::io::Write as _;

/// `PRINTF=lines, PRINTFOFFSET=offset, PRINTFMULTIPLE=multiple`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Printf {
    /// The number of lines that the file stands for.
    pub(super) lines: u32,
    /// The number of the first line.
    offset: i64,
    /// The step from one line to the next.
    multiple: i64,
}

/// `None` when the header says nothing of PRINTF.
pub(super) fn parse_header(header: &str) -> Result<Option<Printf>, String> {
    let Some(lines) = setting(header, "PRINTF")? else {
        return match setting(header, "PRINTFOFFSET")?.or(setting(header, "PRINTFMULTIPLE")?) {
            None => Ok(None),
            Some(_) => Err("expected PRINTF=LINES beside PRINTFOFFSET and PRINTFMULTIPLE".to_owned()),
        };
    };
    // The two highest numbers are `NO_LINE` and `PAST_END`.
    let lines = u32::try_from(lines).ok().filter(|lines| (1..u32::MAX - 1).contains(lines));
    let Some(lines) = lines else {
        return Err("expected at least one line in PRINTF=".to_owned());
    };
    let offset = setting(header, "PRINTFOFFSET")?.unwrap_or(0);
    let multiple = setting(header, "PRINTFMULTIPLE")?.unwrap_or(1);
    Ok(Some(Printf { lines, offset, multiple }))
}

/// A number after `NAME=`, up to a comma.
fn setting(header: &str, name: &str) -> Result<Option<i64>, String> {
    for part in header.split(',') {
        let part = part.trim();
        let Some(rest) = part.strip_prefix(name) else { continue };
        // `PRINTF` is also the beginning of the other two names.
        if rest.starts_with(|character: char| character.is_ascii_alphabetic()) {
            continue;
        }
        let number = rest.trim_start().strip_prefix('=').and_then(|number| number.trim().parse().ok());
        return match number {
            Some(number) => Ok(Some(number)),
            None => Err(format!("expected {name}=NUMBER, found '{part}'")),
        };
    }
    Ok(None)
}

/// Checks that every `%` of a line is `%%` or a decimal format.
pub(super) fn check(row: &[u8]) -> Result<(), String> {
    each_piece(row, |piece| match piece {
        PrintfPiece::Bad(text) => {
            Err(format!("expected %d, as in %04d, or %%, found '{}'", String::from_utf8_lossy(text)))
        }
        PrintfPiece::Text(_) | PrintfPiece::Number(_) => Ok(()),
    })
}

impl Printf {
    /// Appends a field of a line, its formats filled with the line's number.
    pub(super) fn write(&self, field: &[u8], line: u32, out: &mut Vec<u8>) {
        let number = self.offset.saturating_add(i64::from(line).saturating_mul(self.multiple));
        let written: Result<(), ()> = each_piece(field, |piece| {
            match piece {
                PrintfPiece::Text(text) | PrintfPiece::Bad(text) => out.extend_from_slice(text),
                PrintfPiece::Number(format) => format.write(number, out),
            }
            Ok(())
        });
        debug_assert!(written.is_ok(), "no piece fails");
    }
}

/// A part of a field.
enum PrintfPiece<'a> {
    /// Text as it stands, `%%` made one.
    Text(&'a [u8]),
    /// A format for the line's number.
    Number(PrintfFormat),
    /// A `%` that begins no format that is known.
    Bad(&'a [u8]),
}

/// The flags and width between `%` and `d`.
#[derive(Debug, Clone, Copy)]
struct PrintfFormat {
    /// `-`: blanks to the right.
    left: bool,
    /// `0`: zeros to the left.
    zeroes: bool,
    /// The least number of characters.
    width: usize,
    /// The least number of digits.
    precision: Option<usize>,
}

impl PrintfFormat {
    /// `None` for what is no such format. Widths past 64 would only fill memory.
    fn parse(text: &[u8]) -> Option<PrintfFormat> {
        let text = std::str::from_utf8(text).ok()?;
        let digits = text.trim_start_matches(['-', '0']);
        let flags = &text[..text.len() - digits.len()];
        let (width, precision) = match digits.split_once('.') {
            None => (digits, None),
            Some((width, precision)) => (width, Some(precision)),
        };
        let number = |digits: &str| match digits {
            "" => Some(0),
            digits => digits.parse::<usize>().ok().filter(|number| *number <= 64),
        };
        Some(PrintfFormat {
            left: flags.contains('-'),
            zeroes: flags.contains('0'),
            width: number(width)?,
            precision: match precision {
                None => None,
                Some(digits) => Some(number(digits)?),
            },
        })
    }

    fn write(self, number: i64, out: &mut Vec<u8>) {
        let sign = if number < 0 { "-" } else { "" };
        // C pads with zeroes only when there is neither a precision nor a minus.
        let zeroes = match self.precision {
            Some(precision) => precision,
            None if self.zeroes && !self.left => self.width.saturating_sub(sign.len()),
            None => 0,
        };
        let text = format!("{sign}{:0zeroes$}", number.unsigned_abs());
        let written = match self.left {
            true => write!(out, "{text:<width$}", width = self.width),
            false => write!(out, "{text:>width$}", width = self.width),
        };
        written.expect("a vector takes every byte");
    }
}

/// Calls `take` for each part of a row, in order.
fn each_piece<'a, E>(row: &'a [u8], mut take: impl FnMut(PrintfPiece<'a>) -> Result<(), E>) -> Result<(), E> {
    let mut rest = row;
    while let Some(at) = memchr::memchr(b'%', rest) {
        take(PrintfPiece::Text(&rest[..at]))?;
        let format = &rest[at + 1..];
        if format.first() == Some(&b'%') {
            take(PrintfPiece::Text(b"%"))?;
            rest = &format[1..];
            continue;
        }
        let length = format.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-')).count();
        match PrintfFormat::parse(&format[..length]).filter(|_| format.get(length) == Some(&b'd')) {
            Some(parsed) => take(PrintfPiece::Number(parsed))?,
            None => take(PrintfPiece::Bad(&rest[at..(at + length + 2).min(rest.len())]))?,
        }
        rest = &format[(length + 1).min(format.len())..];
    }
    take(PrintfPiece::Text(rest))
}
