package ovsdb

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// scanner walks JSON text whose form is known beforehand, straight into typed values: a database
// of many rows is read without an intermediate tree. The first error sticks and ends every walk.
type scanner struct {
	text []byte
	at   int
	err  error
}

func (s *scanner) fail(want string) {
	if s.err == nil {
		end := min(s.at+20, len(s.text))
		s.err = fmt.Errorf("expected %s at byte %d, found %q", want, s.at, s.text[min(s.at, end):end])
	}
}

// peek skips white space and gives the next byte, 0 at the end or after an error.
func (s *scanner) peek() byte {
	if s.err != nil {
		return 0
	}
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) expect(c byte) {
	if !s.take(c) {
		s.fail(strconv.QuoteRune(rune(c)))
	}
}

// object calls member for each member; member must consume the value.
func (s *scanner) object(member func(name string)) {
	s.expect('{')
	if s.take('}') {
		return
	}
	for s.err == nil {
		name := s.str()
		s.expect(':')
		if s.err != nil {
			return
		}
		member(name)
		if s.take('}') {
			return
		}
		s.expect(',')
	}
}

// array calls element for each element; element must consume it.
func (s *scanner) array(element func(i int)) {
	s.expect('[')
	if s.take(']') {
		return
	}
	for i := 0; s.err == nil; i++ {
		element(i)
		if s.take(']') {
			return
		}
		s.expect(',')
	}
}

// bytes is a string's text; it is valid only until the next call where it had escapes.
func (s *scanner) bytes() []byte {
	s.expect('"')
	if s.err != nil {
		return nil
	}
	start := s.at
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return s.text[start : s.at-1]
		case c == '\\':
			return s.escaped(start)
		case c < ' ':
			s.fail("a character that JSON allows in a string")
			return nil
		}
		s.at++
	}
	s.fail("the end of a string")
	return nil
}

func (s *scanner) escaped(start int) []byte {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '\\':
			s.at += 2
		case '"':
			s.at++
			var text string
			if err := json.Unmarshal(s.text[start-1:s.at], &text); err != nil {
				s.err = err
			}
			return []byte(text)
		default:
			s.at++
		}
	}
	s.at = len(s.text)
	s.fail("the end of a string")
	return nil
}

func (s *scanner) str() string { return string(s.bytes()) }

// raw is the text of the next value, whatever it is.
func (s *scanner) raw() []byte {
	s.peek()
	start := s.at
	s.skip()
	if s.err != nil {
		return nil
	}
	return s.text[start:s.at]
}

func (s *scanner) skip() {
	switch s.peek() {
	case '{':
		s.object(func(string) { s.skip() })
	case '[':
		s.array(func(int) { s.skip() })
	case '"':
		s.bytes()
	default:
		s.token()
	}
}

// token is a number, true, false or null.
func (s *scanner) token() []byte {
	s.peek()
	start := s.at
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c == '-', c == '+', c == '.', c == 'E':
			s.at++
			continue
		}
		break
	}
	if start == s.at {
		s.fail("a value")
		return nil
	}
	return s.text[start:s.at]
}

func (s *scanner) integer() int {
	token := s.token()
	n, err := strconv.Atoi(string(token))
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("expected an integer, found %q", token)
	}
	return n
}

func (s *scanner) float() float64 {
	token := s.token()
	n, err := strconv.ParseFloat(string(token), 64)
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("expected a number, found %q", token)
	}
	return n
}

func (s *scanner) boolean() bool {
	token := s.token()
	switch string(token) {
	case "true":
		return true
	case "false":
	default:
		if s.err == nil {
			s.err = fmt.Errorf("expected true or false, found %q", token)
		}
	}
	return false
}

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string. What OVSDB has no place for, a zero byte or one that is not
// UTF-8, becomes a replacement character.
func appendString(b []byte, text string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			b = append(b, text[start:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			case 0: // the server would refuse the whole message
				b = append(b, "\ufffd"...)
			default:
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 { // this, too
			b = append(append(b, text[start:i]...), "\ufffd"...)
			start = i + 1
		}
		i += size
	}
	return append(append(b, text[start:]...), '"')
}
