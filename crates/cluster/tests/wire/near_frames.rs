//! Frames of wire version 1 and bytes near them, through the code that the fuzz targets use: the smoke runs of the gate.

use cluster::link::Lane;
use proptest::prelude::*;

use crate::any_bytes::check;

fn golden() -> Vec<Vec<u8>> {
    let folder = format!("{}/tests/wire/golden/v1", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let bytes_of = |text: String| {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    };
    paths.iter().map(|path| bytes_of(std::fs::read_to_string(path).unwrap())).collect()
}

fn check_all(data: &[u8]) {
    [None, Some(Lane::Prompt), Some(Lane::Acknowledged)].into_iter().for_each(|lane| check(lane, data));
}

#[test]
fn golden_frames_in_any_cuts() {
    for frame in golden() {
        for flags in [0, 1, 2, 7, 16, 255] {
            check_all(&[&[flags], &frame[..]].concat());
        }
    }
}

proptest! {
    #[test]
    fn any_bytes(data: Vec<u8>) {
        check_all(&data);
    }

    /// Bytes near those of real frames: two frames, of which one byte is changed.
    #[test]
    fn almost_frames(
        flags: u8, first: prop::sample::Index, second: prop::sample::Index, place: prop::sample::Index, byte: u8,
    ) {
        let golden = golden();
        let mut data = [&[flags], &first.get(&golden)[..], &second.get(&golden)[..]].concat();
        *place.get_mut(&mut data) = byte;
        check_all(&data);
    }
}
