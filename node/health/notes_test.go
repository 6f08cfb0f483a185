package health

import (
	"testing"

	"github.com/weftnet/weft/models/contract"
)

// TestNotesHaveRemedies: weft status and weft doctor know each note, and what to do about it.
func TestNotesHaveRemedies(t *testing.T) {
	if len(notes) != len(contract.Notes) {
		t.Errorf("there are %d notes, and %d in the contract", len(notes), len(contract.Notes))
	}
	for _, c := range notes {
		if note, known := contract.NoteOf(string(c) + ": x"); !known || note.Remedy == "" {
			t.Errorf("%s has no remedy", c)
		}
	}
}
