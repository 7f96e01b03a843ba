package wish

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/engine"
)

func table(t testing.TB, o Options) *Table {
	t.Helper()
	made, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestRead(t *testing.T) {
	t.Parallel()
	words := table(t, Options{})
	for text, want := range map[string]engine.Wish{
		"STOP": engine.WishStop, "stop": engine.WishStop, " Stop. ": engine.WishStop, "«stop»!!!": engine.WishStop, "STOP\n": engine.WishStop,
		"Stop. Thank you": engine.WishStop, "please STOP": engine.WishStop, "Stop, please, thanks 🙏": engine.WishStop,
		"🛑 STOP ✋🏽": engine.WishStop, "STOP☝️": engine.WishStop, "ＳＴＯＰ": engine.WishStop, "𝗦𝗧𝗢𝗣": engine.WishStop, "S̶T̶O̶P̶": engine.WishStop,
		"st\u200bop": engine.WishStop, "\u200fSTOP\u200f": engine.WishStop, "Opt-Out": engine.WishStop, "Don’t contact me": engine.WishStop,
		"ABMELDEN": engine.WishStop, "cancelar suscripcion": engine.WishStop, "Não quero mais!": engine.WishStop, "nao quero mais": engine.WishStop,
		"Desabonner": engine.WishStop, "De\u0301sabonner": engine.WishStop, "REZYGNUJE": engine.WishStop, "İPTAL": engine.WishStop, "IPTAL": engine.WishStop,
		"ÇIKIŞ": engine.WishStop, "cikis": engine.WishStop, "إلغاء الاشتراك": engine.WishStop, "الغاء الاشتراك": engine.WishStop, "تَوَقَّف": engine.WishStop,
		"बंद करें": engine.WishStop, "Berhenti": engine.WishStop, "СТОП": engine.WishStop, "退订": engine.WishStop, "수신거부": engine.WishStop,
		"START": engine.WishStart, "start please": engine.WishStart, "Başlat": engine.WishStart, "ابدأ": engine.WishStart, "शुरू करें।": engine.WishStart,
		"": 0, " ": 0, "🙏": 0, "please": 0, "thank you": 0, "no": 0, "yes": 0, "stop it now or I call the police": 0, "bus stop": 0,
		"when does it stop?": 0, "nonstop": 0, "stopstop": 0, "st op": 0, "please thanks": 0, "start stop": 0,
		"बद करें":                         0, // without the sign of its vowel it is another word
		strings.Repeat("🙏", 100) + "stop": 0, "stop\xff": engine.WishStop,
	} {
		if got := words.Read(text); got != want {
			t.Errorf("%q asks for %q, want %q", text, got, want)
		}
	}
	if got := words.Read("offer-7", "Stop promotions"); got != engine.WishStop {
		t.Errorf("a button's label: %q", got)
	}
	if got := words.Read("start", "stop"); got != engine.WishStop {
		t.Errorf("stop and start: %q", got)
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	own := table(t, Options{Stop: []string{"c42:no", "Schluss"}, Start: []string{"ja gern"}, NoDefaults: true, StopAll: true})
	for text, want := range map[string]engine.Wish{
		"c42:no": engine.WishStopAll, "schluss!": engine.WishStopAll, "Ja, gern": engine.WishStart, "stop": 0, "start": 0,
	} {
		if got := own.Read(text); got != want {
			t.Errorf("%q asks for %q, want %q", text, got, want)
		}
	}
	if stop, start := own.Words(); strings.Join(stop, "|") != "c42 no|schluss" || strings.Join(start, "|") != "ja gern" {
		t.Errorf("words %q and %q", stop, start)
	}
	for _, o := range []Options{
		{Stop: []string{"🛑"}}, {Start: []string{"STOP"}}, {Stop: []string{strings.Repeat("x", longest+1)}}, {Stop: []string{"a"}, Start: []string{"Á"}, NoDefaults: true},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("a table of %+v was made", o)
		}
	}
}

// Every word of the table is found as it stands there, in capitals, and dressed;
// and no text that goes on with another word is a wish.
func TestEveryWordIsFound(t *testing.T) {
	t.Parallel()
	words := table(t, Options{})
	for wish, list := range map[engine.Wish][]string{engine.WishStop: stopWords, engine.WishStart: startWords} {
		for _, word := range list {
			for _, text := range []string{word, strings.ToUpper(word), strings.ToTitle(word), "  " + word + "!!", "🙏" + word + "🙏"} {
				if got := words.Read(text); got != wish {
					t.Errorf("%q asks for %q, want %q", text, got, wish)
				}
			}
			if got := words.Read(word + " qwxz"); got != engine.WishNothing {
				t.Errorf("%q and more asks for %q", word, got)
			}
		}
	}
}

func TestReadTakesAnyText(t *testing.T) {
	t.Parallel()
	words := table(t, Options{})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		got := words.Read(text)
		if again := words.Read(text); again != got {
			t.Fatalf("%q asks for %q and for %q", text, got, again)
		}
		for _, w := range fold(text) {
			if w == "" || !utf8.ValidString(w) {
				t.Fatalf("%q has the word %q", text, w)
			}
		}
	})
}
