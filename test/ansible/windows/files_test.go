//go:build ansible

package windows

import (
	"archive/zip"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

var fileModules = map[string]func(m *machine, args map[string]any, check bool) reply{
	"win_stat":     stat,
	"slurp":        slurp,
	"win_file":     setFile,
	"win_tempfile": temporaryFile,
	"win_find":     find,
	"win_copy":     copyFile,
	"win_unzip":    unpack,
	"win_get_url":  download,
	"win_command":  command,
}

func sum(path string, h hash.Hash) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	if _, err := io.Copy(h, file); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

func stat(m *machine, args map[string]any, _ bool) reply {
	path := m.local(text(args["path"]))
	info, err := os.Stat(path)
	if err != nil {
		return reply{"changed": false, "stat": map[string]any{"exists": false}}
	}
	found := map[string]any{"exists": true, "isdir": info.IsDir(), "size": info.Size()}
	if !info.IsDir() {
		found["checksum"] = sum(path, sha1.New())
		if text(args["checksum_algorithm"]) == "sha256" {
			found["checksum"] = sum(path, sha256.New())
		}
	}
	return reply{"changed": false, "stat": found}
}

func slurp(m *machine, args map[string]any, _ bool) reply {
	content, err := os.ReadFile(m.local(text(args["src"])))
	if err != nil {
		return reply{"failed": true, "msg": "Path " + text(args["src"]) + " is not found"}
	}
	return reply{"changed": false, "content": base64.StdEncoding.EncodeToString(content), "encoding": "base64"}
}

func (m *machine) write(path string, content []byte) {
	local := m.local(path)
	must(m, os.MkdirAll(filepath.Dir(local), 0o755))
	must(m, os.WriteFile(local, content, 0o644))
}

func isTemporary(path string) bool { return strings.Contains(path, `\Temp\`) }

func setFile(m *machine, args map[string]any, check bool) reply {
	path := text(args["path"])
	switch exists := m.has(path); text(args["state"]) {
	case "directory":
		if !exists && !check {
			m.tell("folder %s", path)
			must(m, os.MkdirAll(m.local(path), 0o755))
		}
		return reply{"changed": !exists}
	case "absent":
		if exists && !check {
			if !isTemporary(path) {
				m.tell("%s is removed", path)
			}
			must(m, os.RemoveAll(m.local(path)))
			delete(m.closed, path)
		}
		return reply{"changed": exists}
	default:
		m.fail("win_file %v", args)
		return reply{"failed": true}
	}
}

// closeFolder is folder.ps1: users can write in a folder that it has not closed.
func (m *machine) closeFolder(path string, check bool) reply {
	exists := m.has(path)
	open := exists && !m.closed[path]
	if !check && !m.closed[path] {
		if exists {
			m.tell("folder %s is closed to users", path)
		} else {
			m.tell("folder %s, closed to users", path)
		}
		must(m, os.MkdirAll(m.local(path), 0o755))
		m.closed[path] = true
	}
	return reply{"changed": !exists || open, "result": map[string]any{"open": open}}
}

// temporaryFile is a folder that nobody else has.
func temporaryFile(m *machine, _ map[string]any, _ bool) reply {
	path := `C:\Windows\Temp\examination.weft`
	if m.has(path) {
		m.fail("the last examination has left its folder %s", path)
	}
	must(m, os.MkdirAll(m.local(path), 0o755))
	return reply{"changed": true, "path": path}
}

func find(m *machine, args map[string]any, _ bool) reply {
	files := []map[string]any{}
	for _, folder := range texts(args["paths"]) {
		must(m, filepath.WalkDir(m.local(folder), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && entry.Name() == texts(args["patterns"])[0] {
				rest, _ := filepath.Rel(m.local(folder), path)
				files = append(files, map[string]any{"path": folder + `\` + strings.ReplaceAll(rest, "/", `\`)})
			}
			return err
		}))
	}
	return reply{"changed": false, "files": files, "matched": len(files)}
}

// copyFile has the modes of win_copy: which files are to be sent, the one that was sent, and copies on the host.
func copyFile(m *machine, args map[string]any, check bool) reply {
	dest := text(args["dest"])
	switch text(args["_copy_mode"]) {
	case "query":
		missing := []any{}
		for _, item := range args["files"].([]any) {
			file := item.(map[string]any)
			if sum(m.local(dest+`\`+text(file["dest"])), sha1.New()) != text(file["checksum"]) {
				missing = append(missing, file)
			}
		}
		return reply{"changed": len(missing) > 0, "files": missing, "directories": []any{}, "symlinks": []any{}}
	case "single":
		if check {
			return reply{"changed": true}
		}
		content, err := os.ReadFile(m.local(text(args["src"])))
		must(m, err)
		if _, err := os.Stat(filepath.Dir(m.local(dest))); err != nil {
			return reply{"failed": true, "msg": "no folder for " + dest}
		}
		if s, ok := m.services[agentService]; ok && s.Running && strings.HasSuffix(dest, `\weft.exe`) && !isTemporary(dest) {
			return reply{"failed": true, "msg": "the process cannot access the file because it is being used by another process"}
		}
		if !isTemporary(dest) {
			m.tell("file %s", dest)
		}
		m.write(dest, content)
		return reply{"changed": true, "dest": dest}
	case "remote":
		m.tell("files from %s to %s", args["src"], dest)
		must(m, copyFolder(m.local(strings.TrimSuffix(text(args["src"]), `\`)), m.local(strings.TrimSuffix(dest, `\`))))
		return reply{"changed": true}
	}
	m.fail("win_copy %v", args)
	return reply{"failed": true}
}

func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		rest, relErr := filepath.Rel(from, path)
		if err = errors.Join(err, relErr); err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, rest), 0o755)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rest), content, 0o644)
	})
}

func unpack(m *machine, args map[string]any, check bool) reply {
	if check {
		return reply{"changed": true}
	}
	archive, err := zip.OpenReader(m.local(text(args["src"])))
	if err != nil {
		return reply{"failed": true, "msg": err.Error()}
	}
	defer archive.Close()
	m.tell("%s is unpacked", args["src"])
	must(m, os.CopyFS(m.local(text(args["dest"])), archive))
	return reply{"changed": true}
}

// download takes what the machine is told to be there.
func download(m *machine, args map[string]any, check bool) reply {
	source := m.files[text(args["url"])]
	if source == "" {
		return reply{"failed": true, "msg": "404 " + text(args["url"])}
	}
	if check {
		return reply{"changed": true}
	}
	if has := sum(source, sha256.New()); has != text(args["checksum"]) || text(args["checksum_algorithm"]) != "sha256" {
		return reply{"failed": true, "msg": "The checksum for " + text(args["url"]) + " did not match '" +
			text(args["checksum"]) + "', it was '" + has + "'"}
	}
	content, err := os.ReadFile(source)
	must(m, err)
	m.tell("download of %s", args["url"])
	m.write(text(args["dest"]), content)
	return reply{"changed": true}
}
