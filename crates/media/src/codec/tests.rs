//! The codecs behind their common face.

use std::f64::consts::TAU;

use proptest::prelude::*;

use super::*;

fn tone(codec: Codec, frames: usize) -> Vec<i16> {
    let rate = f64::from(codec.sample_rate());
    let samples = codec.sample_rate() as usize / 50 * frames;
    (0..samples).map(|index| ((TAU * 440.0 * index as f64 / rate).sin() * 8000.0) as i16).collect()
}

/// Power at 440 Hz against the whole, of a signal at that rate.
fn purity(samples: &[i16], rate: u32) -> f64 {
    let (mut sine, mut cosine, mut all) = (0.0, 0.0, 0.0);
    for (index, sample) in samples.iter().enumerate() {
        let phase = TAU * 440.0 * index as f64 / f64::from(rate);
        sine += f64::from(*sample) * phase.sin();
        cosine += f64::from(*sample) * phase.cos();
        all += f64::from(*sample).powi(2);
    }
    2.0 * (sine * sine + cosine * cosine) / (all * samples.len() as f64)
}

#[test]
fn a_tone_comes_back_through_every_codec() {
    for (codec, octets) in [
        (Codec::Pcmu, Some(160)),
        (Codec::Pcma, Some(160)),
        (Codec::G722, Some(160)),
        (Codec::L16, Some(1764)),
        (Codec::Opus, None),
    ] {
        let mut encoder = Encoder::new(codec).unwrap();
        let mut decoder = Decoder::new(codec).unwrap();
        let samples = tone(codec, 50);
        let mut back = Vec::new();
        for frame in samples.chunks(codec.sample_rate() as usize / 50) {
            let mut payload = Vec::new();
            encoder.encode(frame, &mut payload).unwrap();
            assert!(
                octets.is_none_or(|octets| octets == payload.len()),
                "{codec:?}: {} octets",
                payload.len()
            );
            decoder.decode(&payload, &mut back).unwrap();
        }
        assert_eq!(back.len(), samples.len());
        let settled = &back[back.len() / 4..];
        let pure = purity(settled, codec.sample_rate());
        assert!(pure > 0.98, "{codec:?}: {pure}");
        let peak = settled.iter().map(|sample| sample.unsigned_abs()).max().unwrap();
        assert!((6_500..9_500).contains(&peak), "{codec:?}: {peak}");
    }
}

#[test]
fn unsupported_codecs_and_malformed_frames_are_errors() {
    for codec in [Codec::G729, Codec::TelephoneEvent, Codec::ComfortNoise, Codec::Other] {
        assert_eq!(Encoder::new(codec).err(), Some(Error::Unsupported(codec)));
        assert_eq!(Decoder::new(codec).err(), Some(Error::Unsupported(codec)));
    }
    let (mut octets, mut samples) = (vec![7], vec![7]);
    for (codec, len) in [(Codec::G722, 3), (Codec::Opus, 7), (Codec::Opus, 0)] {
        assert_eq!(Encoder::new(codec).unwrap().encode(&vec![0; len], &mut octets), Err(Error::FrameLength));
    }
    for (codec, payload) in [(Codec::L16, &[1][..]), (Codec::Opus, &[]), (Codec::Opus, &[0xff, 0xff])] {
        assert_eq!(Decoder::new(codec).unwrap().decode(payload, &mut samples), Err(Error::Payload));
    }
    // The earlier content of the buffers is unchanged.
    assert_eq!((octets, samples), (vec![7], vec![7]));
    assert_eq!(Error::Unsupported(Codec::G729).to_string(), "G729 is neither encoded nor decoded here");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_payload_is_answered(payload in prop::collection::vec(any::<u8>(), 0..200)) {
        for codec in [Codec::Pcmu, Codec::Pcma, Codec::G722, Codec::L16, Codec::Opus] {
            let mut samples = Vec::new();
            let answer = Decoder::new(codec).unwrap().decode(&payload, &mut samples);
            prop_assert!(answer.is_ok() || samples.is_empty());
        }
    }
}
