// The application of bench/ivr by the Go library diago, as a peer for Belfry: it answers, fetches the same documents, plays the same
// words, takes one digit and says it. The documents are fetched and not read, as diago has no interpreter: what they say is below.
//
//	diago --port 5080 --url http://127.0.0.1:8000/ask-digit.xml
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/emiago/diago"
	"github.com/emiago/diago/media"
	"github.com/emiago/sipgo"
	"github.com/zaf/g711"
)

// 20 ms of PCMA (RFC 3551 §4.5.14).
const frameBytes = 160

// As Belfry's `[voice] end_pause`.
const endPause = 500 * time.Millisecond

var (
	ask    = speak("Please, enter one digit")
	said   = map[rune][][]byte{}
	client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
)

func main() {
	port := flag.Int("port", 5080, "UDP port of 127.0.0.1")
	document := flag.String("url", "", "the application's first document")
	flag.Parse()
	for _, digit := range "0123456789*#" {
		said[digit] = speak("The digit you inserted was " + string(digit))
	}
	// Each call would be a line otherwise.
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	agent, err := sipgo.NewUA()
	if err != nil {
		log.Fatal(err)
	}
	codecs := []media.Codec{media.CodecAudioAlaw, media.CodecTelephoneEvent8000}
	server := diago.NewDiago(agent,
		diago.WithTransport(diago.Transport{Transport: "udp", BindHost: "127.0.0.1", BindPort: *port}),
		diago.WithMediaConfig(diago.MediaConfig{Codecs: codecs}))
	log.Fatal(server.Serve(context.Background(), func(call *diago.DialogServerSession) {
		if err := answer(call, *document); err != nil {
			slog.Error("call", "error", err)
		}
	}))
}

// answer plays from one goroutine and listens in another; the call's end ends both. As at Belfry, nothing is sent between the words.
func answer(call *diago.DialogServerSession, document string) error {
	if err := fetch(http.MethodGet, document, nil); err != nil {
		return err
	}
	sound, err := call.Answer(diago.AnswerOptions{})
	if err != nil {
		return err
	}
	writer, err := sound.AudioWriter()
	if err != nil {
		return err
	}
	reader, err := sound.AudioReaderDTMF()
	if err != nil {
		return err
	}
	digits := make(chan rune, 1)
	go reader.Listen(func(digit rune) error {
		select {
		case digits <- digit:
		default:
		}
		return nil
	}, 10*time.Second)
	digit := play(writer, ask, digits)
	for digit == 0 {
		select {
		case digit = <-digits:
		case <-call.Context().Done():
			return nil
		}
	}
	form := url.Values{"Digits": {string(digit)}, "From": {call.FromUser()}, "CallSid": {call.ID}}
	if err := fetch(http.MethodPost, strings.Replace(document, "/ask-digit.xml", "/say-digit", 1), form); err != nil {
		return err
	}
	// A new stretch of sound: its timestamps have the pause.
	sound.RTPPacketWriter.ResetTimestamp()
	play(writer, said[digit], nil)
	select {
	case <-call.Context().Done():
		return nil
	case <-time.After(endPause):
		return call.Hangup(call.Context())
	}
}

// play writes frames, which takes as long as they last, until a digit comes.
func play(writer io.Writer, frames [][]byte, digits <-chan rune) rune {
	for _, frame := range frames {
		if _, err := writer.Write(frame); err != nil {
			return 0
		}
		select {
		case digit := <-digits:
			return digit
		default:
		}
	}
	return 0
}

func fetch(method, address string, form url.Values) error {
	request, err := http.NewRequest(method, address, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// speak returns the frames of flite's words, encoded once, as Belfry keeps them.
func speak(text string) [][]byte {
	path := fmt.Sprintf("%s/diago-%d.wav", os.TempDir(), os.Getpid())
	defer os.Remove(path)
	if err := exec.Command("flite", "-voice", "kal", "-t", text, "-o", path).Run(); err != nil {
		log.Fatalf("flite: %v", err)
	}
	bytes, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	// flite writes the shortest head, 44 bytes, and this voice has 8,000 samples a second.
	var frames [][]byte
	for bytes = bytes[44:]; len(bytes) >= 2*frameBytes; bytes = bytes[2*frameBytes:] {
		samples := make([]int16, frameBytes)
		for i := range samples {
			samples[i] = int16(binary.LittleEndian.Uint16(bytes[2*i:]))
		}
		frames = append(frames, frame(samples))
	}
	return frames
}

func frame(samples []int16) []byte {
	encoded := make([]byte, len(samples))
	for i, sample := range samples {
		encoded[i] = g711.EncodeAlawFrame(sample)
	}
	return encoded
}
