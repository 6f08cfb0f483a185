package main

import (
	"regexp"
	"strings"
)

// idiom is a way to say something that readers with English from school do not know, or read twice.
type idiom struct {
	pattern   *regexp.Regexp // its first group is what a finding quotes
	remedy    string
	questions bool // it is one in questions, too
}

// What is counted, and by what.
const (
	counted = `addresse?s?|balancers?|certificates?|connections?|endpoints?|keys?|leases?|numbers?|ports?|rules?|rows?|writers?`
	each    = ` an? (?:annotation|chassis|endpoint|(?:address )?family|host|kind|line|name|namespace|node|pod|policy|port|` +
		`protocol|row|rule|sentence|service|switch)`
)

const noun = "begin with a noun: a user that …, a packet that …"

// idioms are all that is looked for. Words that another sense makes plain, such as "one" and "own", are not among them.
var idioms = []idiom{
	// "What a gateway has given another address is a client outside": the reader looks for the subject. The topics of a
	// page ("Windows nodes: what to install") and the head of a column ("who may") have none.
	{pattern: regexp.MustCompile(`(?:^|[.!:;]\s+)["(]*((?i:who|whom|whose|whoever|whatever|whichever))\b`), remedy: noun},
	{pattern: regexp.MustCompile(`(?:^|[.!;]\s+)["(]*((?i:what))\b`), remedy: noun},
	word(`(?:is|are) (?:who|whose)`, "name what it is"),
	word(`what (?:is|are) (?:its|their) own`, "name it"),

	word(`but for`, `say "except"`),
	word(`(?:all|any|anybody|anything|everybody|everything|nobody|none|nothing|nowhere) but`, `say "except" or "only"`),
	word(`save for`, `say "except"`),
	word(`shall`, `say "must", or what happens`),
	word(`(?:is|are) to be`, `say "must be"`),
	word(`be it`, `say "whether"`),
	word(`(?:so it is|it is so|so is it|comes? about)`, "say what happens"),
	word(`as ever`, `say "as before" or "unchanged"`),
	word(`at once`, `say "immediately", or "at the same time"`),
	word(`for good`, `say "permanently"`),
	word(`anew`, `say "again"`),
	word(`no more(?:[.,;:)]|$)`, `say "no longer"`),
	word(`of (?:yours|ours|theirs)`, `say "your own", or name the owner`),
	word(`the latter`, "name it"),
	word(`(?:by|for|from|of|to|with) (?:whoever|whomever)`, `say "a user that", or name the program`),
	word(`(?:he|him|his)`, "name the user or the program"),
	{pattern: regexp.MustCompile(`(?:^|[.,:;]\s+)((?i:should (?:it|one|that|these|they|this)))\b`), remedy: `say "if"`},
	word(`(?:be had|put right|puts right|put it right|put them right)`, `say "exist", or "repair"`),
	word(`(?:another|other) hand`, `say "another program" or "another writer"`),
	word(`all the same`, `say "still"`),
	word(`as yet`, `say "yet"`),
	word(`for want of`, `say "because there is no"`),
	word(`let alone`, `say "and also not"`),
	word(`does not do[.,:;]`, `say "does not work"`),

	// "A load balancer a Service": per, as in "per node".
	word(`(?:one|seconds|(?:two|three|four) \w+)`+each, `say "per …" or "for each …"`),
	word(`\d(?:[\d,.]*\d)?(?: (?:[kMG]i?B|bytes|ms|`+counted+`))?`+each, `say "per …" or "for each …"`),
	word(`(?:`+counted+`)`+each, `say "per …" or "for each …"`),

	word(`(?:albeit|whilst|amongst|lest|ere)`, `say "though", "while", "among", "so that … not" or "before"`),
	word(`(?:hence|thus|thereby|therefore|thereupon|henceforth|forthwith|whereby|whereupon|wherein|therein|thereof|`+
		`heretofore|hitherto|notwithstanding|insofar|inasmuch)`, `say "so", "then", "by which" or "until now"`),
}

// word is an idiom that is words by themselves, in capitals or not, on one line or on two.
func word(pattern, remedy string) idiom {
	spaced := strings.ReplaceAll(pattern, " ", `\s+`)
	return idiom{pattern: regexp.MustCompile(`(?i:(?:^|[^\w-])(` + spaced + `)(?:$|[^\w-]))`), remedy: remedy, questions: true}
}
