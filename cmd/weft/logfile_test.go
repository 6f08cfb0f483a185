package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/node/nodetest"
)

func TestLogFileBeginsAnewWhenItIsFull(t *testing.T) {
	path := filepath.Join(nodetest.Folder(t), "logs", "weft.log")
	for range 2 { // the second one goes on where the first has ended
		log, err := openLogFile(path)
		if err != nil {
			t.Fatal(err)
		}
		log.limit = 100
		for i := range 12 {
			if _, err := fmt.Fprintf(log, "entry %02d of a service that runs\n", i); err != nil {
				t.Fatal(err)
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, wants := range map[string]bool{"": true, ".1": true, ".2": true, ".3": true, ".4": false} {
		text, err := os.ReadFile(path + name)
		if (err == nil) != wants {
			t.Errorf("weft.log%s: %v", name, err)
		}
		if err == nil && (len(text) > 100 || !strings.HasSuffix(string(text), "runs\n")) {
			t.Errorf("weft.log%s holds %q", name, text)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "entry 11") {
		t.Errorf("the latest entry is not in the latest file: %q, %v", text, err)
	}
}
