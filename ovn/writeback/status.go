package writeback

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/weftnet/weft/ovn/part"
)

// StatusPatch is a merge patch of a status that fails on an object of another UID. Conditions that have
// changed get the time of now.
func StatusPatch(a part.Annotation, now time.Time) []byte {
	value := strings.ReplaceAll(a.Value, `"lastTransitionTime":null`, `"lastTransitionTime":"`+
		now.UTC().Format(time.RFC3339)+`"`)
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": a.UID}, "status": json.RawMessage(value)})
	if err != nil { // JSON and a string
		panic(err)
	}
	return text
}
