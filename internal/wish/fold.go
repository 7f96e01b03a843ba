package wish

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// longest is how many bytes of text can be a wish: no phrase of the table, with
// politeness and emoji, comes near.
const longest = 256

// alike are letters that people write for each other and that no decomposition
// brings together.
var alike = strings.NewReplacer("ı", "i", "ł", "l", "ø", "o", "đ", "d", "æ", "ae", "œ", "oe", "ة", "ه", "ى", "ي")

// fold is a text's words, made the same for all the ways of writing them:
// compatibility forms taken apart, accents and other strokes on letters dropped,
// case folded. Whatever is no letter, digit or sign of a letter ends a word.
func fold(text string) []string {
	text = norm.NFKD.String(strings.ToValidUTF8(text, " "))
	text = alike.Replace(cases.Fold().String(text))
	var words []string
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	for _, r := range text {
		switch {
		case dropped(r):
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) && word.Len() > 0:
			word.WriteRune(r)
		default:
			end()
		}
	}
	end()
	return words
}

// dropped are runes that change nothing about the word they stand in: accents
// of Latin, Greek and Cyrillic, vowel signs and the stretcher of Arabic, what
// joins or colours emoji, and whatever cannot be seen. The vowel signs of Indic
// scripts are letters of the word, and stay.
func dropped(r rune) bool {
	switch {
	case r >= 0x0300 && r <= 0x036f, r >= 0x064b && r <= 0x065f, r == 0x0670, r == 0x0640:
		return true
	case r == '\'' || r == '’' || r == '`':
		return true // don't = dont
	default:
		return unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Me, r)
	}
}
