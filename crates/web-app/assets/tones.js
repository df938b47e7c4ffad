// Ringing and digits, made by the browser: no files of sound.

const DIGITS = "123A456B789C*0#D";
const ROWS = [697, 770, 852, 941];
const COLUMNS = [1209, 1336, 1477, 1633];

export class Tones {
    /** A browser makes no sound before the first click, which is that of signing in. */
    context() {
        this.audio ??= new AudioContext();
        this.audio.resume().catch(() => {});
        return this.audio;
    }

    play(frequencies, seconds, loudness) {
        const audio = this.context();
        const gain = audio.createGain();
        gain.gain.value = loudness;
        gain.connect(audio.destination);
        for (const frequency of frequencies) {
            const oscillator = audio.createOscillator();
            oscillator.frequency.value = frequency;
            oscillator.connect(gain);
            oscillator.start();
            oscillator.stop(audio.currentTime + seconds);
        }
    }

    repeat(every, play) {
        this.stop();
        play();
        this.timer = setInterval(play, every);
    }

    /** Someone calls. */
    ring() {
        this.repeat(2500, () => this.play([523, 659], 1, 0.2));
    }

    /** It rings over there. */
    ringBack() {
        this.repeat(5000, () => this.play([425], 1, 0.08));
    }

    digit(digit) {
        const index = DIGITS.indexOf(digit);
        if (index >= 0) this.play([ROWS[Math.floor(index / 4)], COLUMNS[index % 4]], 0.12, 0.08);
    }

    stop() {
        clearInterval(this.timer);
        this.timer = null;
    }
}
