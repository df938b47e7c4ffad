//! Recordings: a WAV file that grows, whole enough to be played wherever it is cut.

/// Where the bytes go: a file, behind a thread of its own.
pub trait File {
    /// Appends bytes to the file.
    fn append(&mut self, bytes: &[u8]);
    /// Over bytes that were appended before.
    fn write_at(&mut self, position: u32, bytes: &[u8]);
    /// Cuts the file to a length in bytes.
    fn truncate(&mut self, len: u32);
}

/// The options of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordOptions {
    /// Hz.
    pub rate: u32,
    /// 1, or 2: the caller left, the sound that the caller hears right.
    pub channels: u16,
    /// Leaves silence at the beginning and the end away.
    pub trim: bool,
    /// Milliseconds after which no more is kept. 0: as long as the file's sizes allow.
    pub max_ms: u32,
}

/// The length of a WAV file's header, in bytes.
pub const HEADER_LEN: usize = 44;
/// Mean magnitude of a piece below which it is silent: some -44 dB of full scale.
const QUIET: u16 = 200;
/// Kept before the first sound and behind the last: words begin and end softly.
const MARGIN_MS: u32 = 100;

/// Writes one recording.
pub struct Recorder {
    options: RecordOptions,
    /// Bytes of sound appended.
    written: u32,
    /// Bytes of sound by the header in the file.
    in_header: u32,
    /// Bytes up to the last sound.
    sound_end: u32,
    /// The length of silence at the beginning that is cut.
    held: Vec<i16>,
    /// A piece that was not silent has come: what follows is kept.
    has_sound: bool,
    /// The bytes of the samples on their way to the file.
    scratch: Vec<u8>,
}

impl Recorder {
    /// Appends the header: a file cut here has no sound, and is valid.
    pub fn new(options: RecordOptions, file: &mut impl File) -> Recorder {
        let options =
            RecordOptions { channels: options.channels.clamp(1, 2), rate: options.rate.max(1), ..options };
        file.append(&header(options, 0));
        Recorder {
            options,
            written: 0,
            in_header: 0,
            sound_end: 0,
            held: Vec::new(),
            has_sound: false,
            scratch: Vec::new(),
        }
    }

    /// Bytes of a frame of one sample a channel.
    fn width(&self) -> u32 {
        2 * u32::from(self.options.channels)
    }

    /// Bytes of a time, in whole samples of all channels.
    fn bytes_of(&self, ms: u32) -> u32 {
        let bytes = u64::from(self.options.rate) * u64::from(ms) / 1000 * u64::from(self.width());
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// Bytes of sound at most: whole frames within the 32 bits of the header.
    fn most(&self) -> u32 {
        let limit = u32::MAX - 64;
        let most =
            if self.options.max_ms == 0 { limit } else { self.bytes_of(self.options.max_ms).min(limit) };
        most / self.width() * self.width()
    }

    /// Samples, the channels interleaved. `false` once no more is kept.
    pub fn handle(&mut self, samples: &[i16], file: &mut impl File) -> bool {
        let is_sound = crate::level::mean(samples) >= QUIET;
        if self.options.trim && !self.has_sound && !is_sound {
            self.held.extend_from_slice(samples);
            let keep = self.bytes_of(MARGIN_MS) as usize / 2;
            self.held.drain(..self.held.len().saturating_sub(keep));
            return true;
        }
        self.has_sound |= is_sound;
        let held = std::mem::take(&mut self.held);
        self.append(&held, file);
        self.append(samples, file);
        if is_sound {
            self.sound_end = self.written;
        }
        // A second of sound is the most that a cut can hide from players that believe the header.
        if self.written - self.in_header >= self.bytes_of(1_000) {
            self.write_sizes(file);
        }
        self.written < self.most()
    }

    /// Appends samples up to the longest recording; the rest is dropped.
    fn append(&mut self, samples: &[i16], file: &mut impl File) {
        let left = (self.most() - self.written) as usize / 2;
        let samples = &samples[..samples.len().min(left)];
        self.scratch.clear();
        self.scratch.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
        if !self.scratch.is_empty() {
            file.append(&self.scratch);
            self.written += self.scratch.len() as u32;
        }
    }

    /// Writes the sizes into the header. They grow behind the sound, never before it: a file that is cut is valid.
    fn write_sizes(&mut self, file: &mut impl File) {
        self.in_header = self.written;
        let header = header(self.options, self.written);
        // The outer size first: a chunk never reaches beyond its file.
        file.write_at(4, &header[4..8]);
        file.write_at(40, &header[40..]);
    }

    /// The end: silence is cut where asked for. Milliseconds of the recording.
    pub fn finish(mut self, file: &mut impl File) -> u32 {
        if self.options.trim {
            let end = self.sound_end.saturating_add(self.bytes_of(MARGIN_MS));
            let end = if self.has_sound { end.min(self.written) } else { 0 };
            if end < self.written {
                // The header first: it never tells of more than there is.
                self.written = end;
                self.write_sizes(file);
                file.truncate(HEADER_LEN as u32 + end);
                return self.duration_ms();
            }
        }
        if self.in_header != self.written {
            self.write_sizes(file);
        }
        self.duration_ms()
    }

    /// Milliseconds kept so far.
    pub fn duration_ms(&self) -> u32 {
        (u64::from(self.written / self.width()) * 1000 / u64::from(self.options.rate)) as u32
    }

    /// Bytes of the file so far.
    pub fn len(&self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.written)
    }

    /// True if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// True if there was more than silence.
    pub fn has_sound(&self) -> bool {
        self.has_sound
    }
}

/// The header of a WAV file with `data` bytes of samples.
fn header(options: RecordOptions, data: u32) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    let width = 2 * options.channels;
    header[..4].copy_from_slice(b"RIFF");
    header[4..8].copy_from_slice(&(36 + data).to_le_bytes());
    header[8..16].copy_from_slice(b"WAVEfmt ");
    header[16..20].copy_from_slice(&16_u32.to_le_bytes());
    header[20..22].copy_from_slice(&1_u16.to_le_bytes());
    header[22..24].copy_from_slice(&options.channels.to_le_bytes());
    header[24..28].copy_from_slice(&options.rate.to_le_bytes());
    header[28..32].copy_from_slice(&options.rate.saturating_mul(u32::from(width)).to_le_bytes());
    header[32..34].copy_from_slice(&width.to_le_bytes());
    header[34..36].copy_from_slice(&16_u16.to_le_bytes());
    header[36..40].copy_from_slice(b"data");
    header[40..44].copy_from_slice(&data.to_le_bytes());
    header
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tone::tone;
    use crate::wav::Wav;

    /// A disk that can fail after any byte written.
    #[derive(Default)]
    struct Disk {
        bytes: Vec<u8>,
        left: Option<usize>,
    }

    impl Disk {
        fn spend(&mut self, bytes: usize) -> usize {
            let part = self.left.map_or(bytes, |left| left.min(bytes));
            self.left = self.left.map(|left| left - part);
            part
        }
    }

    impl File for Disk {
        fn append(&mut self, bytes: &[u8]) {
            let part = self.spend(bytes.len());
            self.bytes.extend_from_slice(&bytes[..part]);
        }

        fn write_at(&mut self, position: u32, bytes: &[u8]) {
            let part = self.spend(bytes.len());
            self.bytes[position as usize..position as usize + part].copy_from_slice(&bytes[..part]);
        }

        fn truncate(&mut self, len: u32) {
            if self.left != Some(0) {
                self.bytes.truncate(len as usize);
            }
        }
    }

    fn options(trim: bool) -> RecordOptions {
        RecordOptions { rate: 8_000, channels: 1, trim, max_ms: 0 }
    }

    fn record(options: RecordOptions, samples: &[i16], disk: &mut Disk) -> u32 {
        let mut recorder = Recorder::new(options, disk);
        for piece in samples.chunks(1_600) {
            recorder.handle(piece, disk);
        }
        recorder.finish(disk)
    }

    #[test]
    fn a_recording_has_the_samples_that_were_written() {
        let samples = tone(440.0, 5_000, 8_000, 2_500);
        let mut disk = Disk::default();
        assert_eq!(record(options(false), &samples, &mut disk), 2_500);
        assert_eq!(disk.bytes, Wav { rate: 8_000, channels: 1, samples }.to_bytes());
    }

    #[test]
    fn two_channels_stay_apart_and_the_maximum_ends_it() {
        let options = RecordOptions { channels: 2, max_ms: 300, ..options(false) };
        let mut disk = Disk::default();
        let mut recorder = Recorder::new(options, &mut disk);
        let piece: Vec<i16> = (0..3_200).map(|at| if at % 2 == 0 { 1_000 } else { -7 }).collect();
        assert!(recorder.handle(&piece, &mut disk));
        assert!(!recorder.handle(&piece, &mut disk));
        assert!(!recorder.handle(&piece, &mut disk));
        assert_eq!((recorder.finish(&mut disk), disk.bytes.len()), (300, 44 + 9_600));
        let wav = Wav::parse(&disk.bytes).unwrap();
        assert_eq!((wav.channels, wav.samples[..4].to_vec()), (2, vec![1_000, -7, 1_000, -7]));
    }

    #[test]
    fn silence_is_trimmed_at_both_ends_and_kept_inside() {
        let sound = tone(440.0, 5_000, 8_000, 400);
        let quiet = vec![3; 16_000];
        let mut disk = Disk::default();
        let all = [&quiet[..], &sound, &quiet, &sound, &quiet].concat();
        // 100 ms before and behind.
        assert_eq!(record(options(true), &all, &mut disk), 100 + 400 + 2_000 + 400 + 100);
        let wav = Wav::parse(&disk.bytes).unwrap();
        assert_eq!(wav.samples, all[16_000 - 800..all.len() - 16_000 + 800]);
        assert_eq!(record(options(true), &quiet, &mut Disk::default()), 0);
        let mut none = Disk::default();
        assert_eq!(record(options(true), &[], &mut none), 0);
        assert_eq!(Wav::parse(&none.bytes).unwrap().samples, []);
    }

    proptest! {
        /// The disk fills or the machine stops after any byte, those of the header's rewriting among them.
        #[test]
        fn cut_at_any_byte_it_is_a_recording(left in 44_usize..60_000, trim: bool) {
            let samples = [vec![1; 4_800], tone(440.0, 5_000, 8_000, 2_500), vec![1; 4_000]].concat();
            let mut disk = Disk { left: Some(left), ..Disk::default() };
            record(options(trim), &samples, &mut disk);
            let wav = Wav::parse(&disk.bytes).unwrap();
            let from = if trim { 4_800 - 800 } else { 0 };
            prop_assert!(wav.samples[..] == samples[from..from + wav.samples.len()]);
            prop_assert!(wav.samples.len() * 2 + 16_100 * 2 >= disk.bytes.len().min(left) - HEADER_LEN);
        }
    }
}
