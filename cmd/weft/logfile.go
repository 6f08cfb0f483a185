package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/weftnet/weft/models/hostfile"
)

// Sizes of a log in files: at most four times the bytes of one.
const (
	logFileBytes = 10 << 20
	logFilesKept = 3
)

// logHostFile is the log of a Windows service, which has no console.
var logHostFile = &hostfile.File{
	Path: "{state-dir}/weft-node.log", Mode: 0o600,
	Content: "The log of the Windows service, with up to three older parts (.1 to .3) of 10 MiB each. The key log-file " +
		"names another file.",
	Loss: "The agent begins a new log.",
}

// logFile is a log that begins a new file when one is full: NAME is the latest, NAME.1 the one before.
type logFile struct {
	path  string
	limit int64

	mu   sync.Mutex
	file *os.File
	size int64
}

func openLogFile(path string) (*logFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	l := &logFile{path: path, limit: logFileBytes}
	return l, l.open()
}

func (l *logFile) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, logHostFile.Mode)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write adds an entry, which is never divided between two files.
func (l *logFile) Write(entry []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.size > 0 && l.size+int64(len(entry)) > l.limit {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(entry)
	l.size += int64(n)
	return n, err
}

// rotate moves each file on to the next number. One that somebody has open, which on Windows cannot be
// renamed, is written on.
func (l *logFile) rotate() error {
	if l.file != nil {
		if err := l.file.Close(); err != nil {
			return err
		}
		l.file = nil
	}
	for n := logFilesKept; n > 0; n-- {
		from := l.path
		if n > 1 {
			from = fmt.Sprintf("%s.%d", l.path, n-1)
		}
		_ = os.Rename(from, fmt.Sprintf("%s.%d", l.path, n))
	}
	return l.open()
}

// Close ends the log.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
