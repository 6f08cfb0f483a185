//go:build ansible

package windows

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf16"
)

// machine stands in for a Windows host. It has what the modules ask for and change, and a story of the changes.
type machine struct {
	name  string
	root  string            // the folder that is drive C:
	build string            // of Windows
	files map[string]string // local files by the addresses where they can be downloaded

	mu           sync.Mutex
	story        []string
	calls        []call
	services     map[string]*service
	rules        map[string]map[string]any // of the firewall
	stores       map[string][]string       // certificates by store
	closed       map[string]bool           // folders that users cannot open
	exclusions   []string                  // of Defender
	balancers    int                       // load balancers of kube-proxy's in HNS
	processes    []string
	drivers      map[string]string // those that are installed, by their services, with their file's content
	testSigning  bool              // started with it
	testNext     bool              // starts with it
	secureBoot   bool
	pending      bool     // Windows waits for a restart
	keepsDriver  string   // the file that Windows installs in place of the package's
	needsRestart bool     // the driver or the installer makes it so
	renames      []string // files that Windows replaces when it starts
	products     []string
	signers      map[string]string // of the driver's files, see signature
	boots        int
	lost         int              // how many calls the connection is lost for
	after        int              // how many calls pass before a new virtual switch cuts it
	pass         int              // how many of them are left
	cuts         int              // how many of them a new virtual switch costs
	jobs         map[string]reply // of async tasks
	unfit        map[string]string
	unready      string // what the node lacks when the agent has started
	problem      error  // the stand-in was asked for what it does not know
	config       string // what the agent that runs has read
	releaseTime  int    // seconds that the host takes to give the adapter back
	limit        int    // seconds that Ansible gives the module that runs in the background
	severs       string // words of the change after which the connection is lost once, before the module can answer
	severed      bool
	alone        bool // a module runs in the background, where the connection does not matter
	wine         *wineHost
}

type service struct {
	Path         string
	Start        string
	Dependencies []string
	Recovery     []map[string]any
	Running      bool
}

// call is a module with its arguments.
type call struct {
	module string
	args   map[string]any
}

// reply is a module's result.
type reply map[string]any

// managementService is Hyper-V's, which comes with the role.
const managementService = "vmms"

func newMachine(name, root string) *machine {
	m := &machine{
		drivers: map[string]string{},
		name:    name, root: root, build: "20348", services: map[string]*service{managementService: {Path: "vmms.exe",
			Start: "auto", Running: true}}, rules: map[string]map[string]any{}, stores: map[string][]string{},
		closed: map[string]bool{},
		jobs:   map[string]reply{}, unfit: map[string]string{}, boots: 1, cuts: 3,
		signers: map[string]string{"ovsext.sys": "Microsoft Windows Hardware Compatibility Publisher",
			"ovsext.cat": "Microsoft Windows Hardware Compatibility Publisher"},
	}
	return m
}

// tell notes a change.
func (m *machine) tell(format string, args ...any) {
	m.story = append(m.story, fmt.Sprintf(format, args...))
}

// changes returns the story since it was last asked for, a line a change.
func (m *machine) changes() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	story := strings.Join(m.story, "\n")
	m.story = nil
	return story
}

// local is where a file of the machine is.
func (m *machine) local(path string) string {
	path = strings.ReplaceAll(path, "/", `\`)
	drive, rest, ok := strings.Cut(path, `:\`)
	if !ok || !strings.EqualFold(drive, "c") {
		m.fail("%q is no path of drive C:", path)
		return filepath.Join(m.root, "lost")
	}
	return filepath.Join(m.root, strings.ReplaceAll(rest, `\`, "/"))
}

func (m *machine) has(path string) bool {
	_, err := os.Stat(m.local(path))
	return err == nil
}

// fail: the test cannot go on, since nobody has said what Windows would do.
func (m *machine) fail(format string, args ...any) {
	m.problem = errors.Join(m.problem, fmt.Errorf("%s: %s", m.name, fmt.Sprintf(format, args...)))
}

var (
	encoded      = regexp.MustCompile(`-EncodedCommand (\S+)`)
	payload      = regexp.MustCompile(`(?s)\{.*\}`)
	afterRestart = regexp.MustCompile(`Get-Item -LiteralPath .* -ErrorAction Stop; '([^']+)'`)
	newItem      = regexp.MustCompile(`-Name '([^']+)'`)
	removed      = regexp.MustCompile(`Remove-Item '([^']+)'`)
)

// execute does what a connection hands to PowerShell.
func (m *machine) execute(command, stdin string) (rc int, stdout string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	script := decode(command)
	if stdin != "" {
		return m.module(stdin)
	}
	switch {
	case strings.Contains(script, "New-Item -Type Directory"):
		folder := `C:\Users\admin\AppData\Local\Temp\` + newItem.FindStringSubmatch(script)[1]
		must(m, os.MkdirAll(m.local(folder), 0o755))
		return 0, folder + "\r\n"
	case removed.MatchString(script):
		must(m, os.RemoveAll(m.local(removed.FindStringSubmatch(script)[1])))
		return 0, ""
	case strings.Contains(script, "LastBootUpTime"):
		return 0, fmt.Sprintf("%d\r\n", 133000000000000000+m.boots)
	case strings.Contains(script, "shutdown.exe /r"):
		m.tell("restart")
		m.restart()
		m.lost = 2
		return 0, `{"rc":0,"stdout":"","stderr":""}`
	case afterRestart.MatchString(script): // whether one can log in again
		return 0, afterRestart.FindStringSubmatch(script)[1] + "\r\n"
	}
	m.fail("unknown script\n%s", script)
	return 1, ""
}

func (m *machine) restart() {
	m.boots++
	m.testSigning, m.pending, m.needsRestart, m.renames = m.testNext, false, false, nil
}

func decode(command string) string {
	found := encoded.FindStringSubmatch(command)
	if found == nil {
		return command
	}
	raw, err := base64.StdEncoding.DecodeString(found[1])
	if err != nil {
		return command
	}
	units := make([]uint16, len(raw)/2)
	for i := range units {
		units[i] = uint16(raw[2*i]) | uint16(raw[2*i+1])<<8
	}
	return string(utf16.Decode(units))
}

// module runs one, as ansible's wrapper on the host would.
func (m *machine) module(stdin string) (rc int, stdout string) {
	parts := strings.Split(stdin, "\x00\x00\x00\x00")
	var asked struct {
		Args    map[string]any `json:"module_args"`
		Job     string         `json:"async_jid"`
		Limit   int            `json:"async_timeout_sec"`
		Actions []string
	}
	if err := json.Unmarshal([]byte(payload.FindString(parts[len(parts)-1])), &asked); err != nil {
		m.fail("a module's payload cannot be read: %v", err)
		return 1, ""
	}
	name := text(asked.Args["_ansible_module_name"])
	name = name[strings.LastIndex(name, ".")+1:]
	check := asked.Args["_ansible_check_mode"] == true
	args := maps.Clone(asked.Args)
	maps.DeleteFunc(args, func(key string, _ any) bool { return strings.HasPrefix(key, "_ansible_") })
	m.calls = append(m.calls, call{name, args})
	handle, known := modules[name]
	if !known {
		m.fail("unknown module %s", name)
		return 1, ""
	}
	before := slices.Clone(m.story)
	m.alone, m.limit = asked.Job != "", asked.Limit
	result := handle(m, args, check)
	if check && !slices.Equal(before, m.story) {
		m.fail("%s has changed something in check mode: %v", name, m.story[len(before):])
	}
	if asked.Job != "" {
		result["finished"], result["ansible_job_id"] = 1, asked.Job
		m.jobs[asked.Job] = result
		result = reply{"started": 1, "finished": 0, "ansible_job_id": asked.Job,
			"results_file": `C:\Users\admin\.ansible_async\` + asked.Job}
	}
	if told := strings.Join(m.story[len(before):], "\n"); m.severs != "" && strings.Contains(told, m.severs) {
		m.severs, m.severed = "", true
	}
	answer, err := json.Marshal(result)
	must(m, err)
	return 0, string(answer)
}

func must(m *machine, err error) {
	if err != nil {
		m.fail("%v", err)
	}
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return fmt.Sprint(v)
}

func texts(v any) []string {
	var out []string
	switch v := v.(type) {
	case nil:
	case []any:
		for _, item := range v {
			out = append(out, text(item))
		}
	default:
		out = append(out, text(v))
	}
	return out
}

// cut is whether the connection was lost before the module that just ran could answer.
func (m *machine) cut() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.severed = false }()
	return m.severed
}
