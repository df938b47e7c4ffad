//! Files as people write them, and as people get them wrong.

use std::io::Write as _;
use std::path::PathBuf;

use super::*;

fn file(text: &str) -> Result<InjectionFile, FileError> {
    InjectionFile::parse(Path::new("accounts.csv"), text.as_bytes())
}

fn files(texts: &[&str]) -> InjectionFiles {
    InjectionFiles { files: texts.iter().map(|text| file(text).unwrap()).collect() }
}

fn field(files: &InjectionFiles, line: u32, field: u32) -> String {
    let mut out = Vec::new();
    files.write_field(0, line, field, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn fields_are_between_semicolons() {
    let files = files(&["SEQUENTIAL\r\n#comment\r\njoe;secret;\r\n\u{e9};;x\n \n\nbeyond"]);
    assert_eq!(files.line_count(0), 3, "a blank line ends the file");
    for (line, number, expected) in [
        (0, 0, "joe"),
        (0, 1, "secret"),
        (0, 2, ""),
        (0, 9, ""),
        (1, 0, "\u{e9}"),
        (1, 1, ""),
        (1, 2, "x"),
        (2, 0, " "),
        (3, 0, ""),
        (NO_LINE, 0, ""),
    ] {
        assert_eq!(field(&files, line, number), expected, "line {line}, field {number}");
    }
}

#[test]
fn lines_are_given_in_the_order_of_the_file() {
    let files = files(&["SEQUENTIAL\na\nb\nc", "RANDOM\na\nb\nc", "USERS\na\nb"]);
    let lines: Vec<Box<[u32]>> = (0..7).map(|call| files.lines_for_call(1 + call % 2, call.into())).collect();
    assert_eq!(lines.iter().map(|lines| lines[0]).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0]);
    assert!(lines.iter().all(|lines| lines[1] < 3));
    assert_eq!(lines.iter().map(|lines| lines[2]).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1, 0]);
    assert_eq!(files.lines_for_call(0, 1)[2], NO_LINE);
    let past = files.lines_for_call(3, 1)[2];
    let error = files.write_field(2, past, 0, &mut Vec::new()).unwrap_err();
    assert_eq!(error, "accounts.csv has 2 lines, fewer than there are users");
}

#[test]
fn random_lines_are_all_reached() {
    let files = files(&["RANDOM\na\nb\nc\nd"]);
    let mut rng = stdx::rng::Rng::seeded(1);
    let mut counts = [0; 4];
    for _ in 0..4_000 {
        counts[files.lines_for_call(0, rng.next_u64())[0] as usize] += 1;
    }
    assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
}

#[test]
fn no_line_is_given_twice_in_a_round() {
    let text = format!("SEQUENTIAL{}", "\nx".repeat(400));
    let files = files(&[&text]);
    let mut lines: Vec<u32> = std::thread::scope(|scope| {
        let shards: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..100).map(|_| files.lines_for_call(0, 0)[0]).collect::<Vec<_>>()))
            .collect();
        shards.into_iter().flat_map(|shard| shard.join().unwrap()).collect()
    });
    lines.sort_unstable();
    assert_eq!(lines, (0..400).collect::<Vec<_>>());
}

#[test]
fn printf_files_stand_for_many_lines() {
    let files =
        files(&["USER,PRINTF=1000, PRINTFOFFSET=100,PRINTFMULTIPLE=10\nu%04d;%d%%;%-6d|;%6.3d\nv%d;x"]);
    assert_eq!(files.line_count(0), 1_000);
    assert_eq!(field(&files, 0, 0), "u0100");
    assert_eq!(field(&files, 2, 1), "120%");
    assert_eq!(field(&files, 2, 2), "120   |");
    assert_eq!(field(&files, 2, 3), "   120");
    assert_eq!(field(&files, 999, 0), "v10090");
    assert_eq!(field(&files, 1_000, 0), "");
    files.index(0, 0).unwrap();
    assert_eq!(files.lookup(0, b"u0120").unwrap(), Some(2));
    assert!(files.insert(0, b"x").unwrap_err().contains("PRINTF"));
}

#[test]
fn negative_numbers_keep_their_width() {
    let files = files(&["SEQUENTIAL,PRINTF=3,PRINTFOFFSET=-1\n%03d;%.2d;%3d"]);
    assert_eq!(field(&files, 0, 0), "-01");
    assert_eq!(field(&files, 0, 1), "-01");
    assert_eq!(field(&files, 0, 2), " -1");
    assert_eq!(field(&files, 1, 0), "000");
}

#[test]
fn mistakes_name_their_line() {
    for (text, line, message) in [
        ("", 1, "expected SEQUENTIAL, RANDOM or USER, found ''"),
        ("joe;secret\n", 1, "expected SEQUENTIAL, RANDOM or USER, found 'joe;secret'"),
        ("SEQUENTIAL", 2, "expected a line of fields, found none"),
        ("SEQUENTIAL\n#only a comment\n", 2, "expected a line of fields, found none"),
        ("SEQUENTIAL\n\na", 2, "expected a line of fields, found none"),
        ("USER,PRINTF\na", 1, "expected PRINTF=NUMBER, found 'PRINTF'"),
        ("USER,PRINTF=x\na", 1, "expected PRINTF=NUMBER, found 'PRINTF=x'"),
        ("USER,PRINTF=0\na", 1, "expected at least one line in PRINTF="),
        ("USER,PRINTFOFFSET=3\na", 1, "expected PRINTF=LINES beside PRINTFOFFSET and PRINTFMULTIPLE"),
        ("USER,PRINTF=3\na%d\nb%s;c", 3, "expected %d, as in %04d, or %%, found '%s'"),
        ("USER,PRINTF=3\na%", 2, "expected %d, as in %04d, or %%, found '%'"),
        ("USER,PRINTF=3\na%999d", 2, "expected %d, as in %04d, or %%, found '%999d'"),
    ] {
        let error = file(text).unwrap_err();
        assert_eq!((error.line, error.message.as_str()), (line, message), "{text:?}");
    }
    assert_eq!(
        file("x").unwrap_err().to_string(),
        "accounts.csv:1: expected SEQUENTIAL, RANDOM or USER, found 'x'"
    );
}

#[test]
fn lines_change_and_the_index_follows() {
    let files = files(&["SEQUENTIAL\na;1\nb;2\na;3"]);
    assert!(files.lookup(0, b"a").unwrap_err().contains("no index"));
    files.index(0, 0).unwrap();
    assert_eq!(files.lookup(0, b"a").unwrap(), Some(2), "the last of equals");
    assert_eq!(files.lookup(0, b"z").unwrap(), None);
    files.insert(0, b"z;9").unwrap();
    assert_eq!(files.lookup(0, b"z").unwrap(), Some(3));
    assert_eq!(field(&files, 3, 1), "9");
    files.replace(0, 1, b"a much longer line;5").unwrap();
    assert_eq!(files.lookup(0, b"b").unwrap(), None);
    assert_eq!(files.lookup(0, b"a much longer line").unwrap(), Some(1));
    files.replace(0, 1, b"s;6").unwrap();
    assert_eq!((field(&files, 1, 0), field(&files, 1, 1)), ("s".into(), "6".into()));
    assert_eq!(field(&files, 2, 1), "3", "its neighbour stays");
    assert!(files.replace(0, 9, b"x").unwrap_err().contains("lines 0 to 3, not 9"));
}

#[test]
fn a_file_replaced_for_ever_stays_small() {
    let files = files(&["SEQUENTIAL\na\nb"]);
    for round in 0..20_000u32 {
        files.replace(0, 1, &vec![b'x'; 1 + (round % 100) as usize]).unwrap();
    }
    assert_eq!(field(&files, 0, 0), "a");
    assert_eq!(field(&files, 1, 0).len(), 100);
    assert!(files.files[0].bytes() < 20_000);
}

#[test]
fn files_are_found_by_path_or_name_and_all_faults_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        path
    };
    let (good, bad) = (write("good.csv", "SEQUENTIAL\nk;v"), write("bad.csv", "k;v"));
    let missing = folder.path().join("missing.csv");
    let files = InjectionFiles::load(std::slice::from_ref(&good), &[(good.clone(), 1)]).unwrap();
    assert_eq!(files.find(&good), Some(0));
    assert_eq!(files.find(Path::new("good.csv")), Some(0));
    assert_eq!(files.find(Path::new("elsewhere.csv")), None);
    assert_eq!(files.lookup(0, b"v").unwrap(), Some(0));
    let other = PathBuf::from("other.csv");
    let errors =
        InjectionFiles::load(&[good, bad.clone(), missing.clone()], &[(other.clone(), 0), (bad.clone(), 0)])
            .unwrap_err();
    assert_eq!(errors.iter().map(|error| error.file.clone()).collect::<Vec<_>>(), [bad, missing, other]);
    assert!(errors[1].message.starts_with("cannot be read: "));
    assert!(InjectionFiles::default().write_field(0, 0, 0, &mut Vec::new()).is_err());
}

#[test]
fn source_addresses_come_out_of_a_field() {
    let files = files(&["SEQUENTIAL\nx; 127.0.0.2\ny;::1\nz;127.0.0.2\n"]);
    let addresses: [IpAddr; 2] = [[127, 0, 0, 2].into(), "::1".parse().unwrap()];
    assert_eq!(files.source_addresses(1).unwrap(), addresses);
    assert_eq!(files.source_address(&[1], 1).unwrap(), addresses[1]);
    let error = files.source_addresses(0).unwrap_err();
    assert_eq!(error, "accounts.csv: field 0 of line 0 is not an IP address but 'x'");
}

proptest::proptest! {
    #[test]
    fn any_file_is_read_or_refused(text in "(SEQUENTIAL|USER,PRINTF=3)?(\n|[ -~]{0,12}|%[0-9.d-]{0,4}){0,20}", line in 0u32..5) {
        if let Ok(file) = file(&text) {
            let mut out = Vec::new();
            file.write_field(line, 0, &mut out).unwrap();
            file.index(1);
            let _ = file.lookup(b"");
        }
    }
}
