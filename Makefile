# Everything a developer or a newcomer needs; `make help` lists it.
SHELL := /bin/bash
.DELETE_ON_ERROR:
export CGO_ENABLED ?= 0
# Everything here is compiled in one way, beside what `go env -w GOFLAGS=…` asks for: so each package is compiled once.
COMPILED := -trimpath -gcflags=all=-dwarf=false
export GOFLAGS := $(strip $(filter-out $(COMPILED),$(shell go env GOFLAGS)) $(COMPILED))

VERSION ?= $(shell git describe --always --dirty 2>/dev/null || echo unknown)
COMMIT := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w $(addprefix -X github.com/weftnet/weft/models/version.,version=$(VERSION) commit=$(COMMIT))
GO_FILES := $(shell git ls-files --cached --others --exclude-standard '*.go' 2>/dev/null | grep -v '^test/lab/\(kube\|coredns\)/') go.mod go.sum

.PHONY: help build demo demo-down test check unit lint vet generate bench e2e clean

help: ## this list
	@sed -e ':a' -e '/\\$$/N; s/\\\n//; ta' $(MAKEFILE_LIST) | sed -nE 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/p' | expand -t 14

include test/lab/lab.mk

# Linux as a program, for tests with the datapath of Linux itself.
TEST_KERNEL := $(LAB)/kernel/linux-6.12

build: bin/weft bin/weft-cni bin/weft.exe bin/weft-cni.exe ## the two programs for Linux and for Windows, in bin/

bin/weft bin/weft-cni &: $(GO_FILES) | $(LAB)
	@$(GO_BUILD) "building weft and weft-cni" go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/weft ./cmd/weft-cni

.PHONY: collection
collection: build ## ansible/ as a collection that has the programs, in bin/
	ansible/collection.sh bin bin

# A release has what a clone of the commit makes of it: the Go version of go.mod, and no settings of this machine.
.PHONY: release release-test
release: export GOTOOLCHAIN := go$(shell sed -n 's/^go //p' go.mod)
release: export GOFLAGS := $(COMPILED) -buildvcs=false
release: ## the files of a release, in bin/release/VERSION: make release VERSION=1.2.0 SIGN_KEY=~/.ssh/release
	. $(LAB_SCRIPTS)/debian.sh && DEBIAN_MIRROR=$$(debian_mirror) && DEBIAN_SECURITY_MIRROR=$$(debian_security_mirror) && \
		export DEBIAN_MIRROR DEBIAN_SECURITY_MIRROR && go run ./cmd/release -version '$(VERSION)' -ldflags '$(LDFLAGS)' -url '$(RELEASE_URL)' \
			-sign-key '$(SIGN_KEY)' 'bin/release/$(VERSION)'

release-test: ## two releases of the present commit, from two clones, and whether they are the same
	test/lab/scripts/install.sh containerd=containerd runc=runc setpriv=util-linux qemu-aarch64=qemu-user
	cmd/release/twice.sh

# The chart and the images that `chart-test` tries are those of a release of the present commit.
CHART_RELEASE := 0.0.0-chart.1

.PHONY: chart-test
chart-test: lab bin/steady ## a cluster whose controllers, doors and an agent are of the Helm chart and the images of a release (some 6 minutes)
	$(MAKE) release VERSION=$(CHART_RELEASE)
	cd test/chart && go test -tags cluster -count 1 -timeout 20m -v ./cluster -args -release $(abspath bin/release/$(CHART_RELEASE))

demo: lab ## a real cluster on this machine, a sample application, and what to look at
	test/demo/demo.sh up

demo-down: ## end the demo's cluster
	test/demo/demo.sh down

# Two parts at a time run, in this order: what waits for most of its time runs beside what computes. The cluster's tests
# that run at the same time need the machine for themselves: where a new connection takes seconds, they tell of the
# machine.
BESIDE_EACH_OTHER := cluster-alone unit-race windows-unit unit-cases ui-test test-kernel-short

# On a slow machine the parts run one after the other, and no cluster stands idle beside them.
AT_ONCE = $(eval AT_ONCE := $(shell $(LAB_SCRIPTS)/at-once.sh))$(AT_ONCE)
ONE_AFTER_THE_OTHER = $$make cluster-alone cluster-together && $(END_CLUSTER) && \
	$$make $(filter-out cluster-alone,$(BESIDE_EACH_OTHER))
TESTS = $(if $(filter 1,$(AT_ONCE)),$(ONE_AFTER_THE_OTHER),$$make -j2 $(BESIDE_EACH_OTHER) && $$make cluster-together)

# What they need is made before, and MADE says so: `make` starts a target with nothing left to make in place of one before
# it that has, and a compiler beside a test of the cluster takes its processor.
test: lab prometheus $(TEST_KERNEL) bin/steady bin/ask bin/judge bin/gotestsum check ## everything that must pass
	+@make="$(MAKE) --no-print-directory MADE=yes AT_ONCE=$(AT_ONCE)" && trap '$(END_CLUSTER)' EXIT && $(END_CLUSTER) && \
		$(TESTS)

# All of the tests' files, those of `make cluster-test` and `make test-ansible` too.
TEST_TAGS := cluster,ansible

check: vet lint ## gofmt, vet, staticcheck, and the checkers of lines, of prose and of links

vet:
	gofmt -l $$(git ls-files '*.go') | { ! grep . ; }
	go vet -tags $(TEST_TAGS) ./...
	GOOS=windows go vet ./...
	cd test/lab/sctp && go vet ./...
	cd test/oracle && go vet ./...
	cd test/oracle/services && go vet ./...
	cd test/site && go vet ./...
	cd test/ui && go vet ./...
	cd test/chart && go vet -tags $(TEST_TAGS) ./...

lint:
	go run ./test/prose $$(git ls-files '*.md')
	go run ./test/columns $$(git ls-files '*.go' '*.md')
	go run ./test/links $$(git ls-files '*.md')
	go tool staticcheck -tags $(TEST_TAGS) ./...
	GOOS=windows $$(go tool -n staticcheck) ./cmd/... ./cni/... ./node/...
	staticcheck=$$(go tool -n staticcheck) && for module in test/lab/sctp test/oracle test/oracle/services test/site test/ui test/chart; do (cd $$module && $$staticcheck -tags $(TEST_TAGS) ./...) || exit; done

# `check` has vetted the tests. They wait for most of their time, so two packages run at once, beside the cluster's tests
# that run alone. With more of them, what waits for an answer waits for a processor.
GO_TEST := -vet off -p 2
UNIT_TEST := nice -n 5 $(abspath bin/gotestsum) --format pkgname-and-test-fails -- $(GO_TEST)
ANEW := -count 1

# Go remembers that a package's tests have passed until its code, or a file or variable that the tests look at, has
# changed. In these folders they look at each program that they run, such as OVN's. The tests of all other packages run
# anew each time: go, Ansible, promtool and Wine read files for them of which go's cache of results knows nothing.
REMEMBERED := cni connectivity node ovn ovsdb ui
REMEMBERED_BUT := ./node/hns/winetest

# Tests that try a tenth of their cases with -short, and where they are (test/cases). The race detector makes them take
# several times as long, and finds in a tenth what it finds in all of them. So it gets the tenth, and all of them run
# without it.
MANY_CASES := TestALookAtAllFindsNothingNew|TestAddressesComeToTheSameAsAColdStart|TestAskingChangesNothing|TestControllerAndAgentAgree|TestControllerAndAgentChooseTheSameEndpoints|TestCostlyServicesOfManyNodes|TestEventsComeToTheSameAsAColdStart|TestNodesComeBackAHundredTimes|TestNodesThatComeBackLeaveNothing|TestNodesThatStartTogetherAreServed|TestPoliciesComeToTheSameAsAColdStart|TestSoManyPortsOfSoManyNodes|TestTheGuardsTimeIsPaced
MANY_CASES_IN := ./node/chassis ./ovn ./ovn/southbound ./test/hostports

# No goroutine, so nothing for the race detector, with which archives and images take several times as long.
SEQUENTIAL := ./cmd/release

# Without a debugger's symbols, linking with the race detector takes three quarters of the time.
NO_DEBUGGER := -ldflags -w
UNIT_RACE = $(UNIT_TEST) $(NO_DEBUGGER) -race -short -parallel $(if $(filter 1,$(AT_ONCE)),4,8) -timeout 25m
REMEMBERED_PACKAGES := go list $(REMEMBERED:%=./%/...) | grep -vFx "$$(go list $(REMEMBERED_BUT))"

.PHONY: unit-race unit-cases
unit: unit-race unit-cases ## unit tests, and those against a real ovsdb-server, OVN, API server and Wine, with the race detector

unit-race: ovn prometheus $(LAB)/wine/.complete $(LAB)/hyperkube bin/gotestsum
	@CGO_ENABLED=1 $(GO_BUILD) "compiling what the unit tests test, for the race detector" go build -race ./...
	CGO_ENABLED=1 $(UNIT_RACE) $(ANEW) $$(go list ./... | grep -vFx "$$($(REMEMBERED_PACKAGES); go list $(SEQUENTIAL))")
	CGO_ENABLED=1 $(UNIT_RACE) $$($(REMEMBERED_PACKAGES))
	cd test/lab/sctp && CGO_ENABLED=1 $(UNIT_TEST) $(ANEW) $(NO_DEBUGGER) -race ./...

unit-cases: ovn $(LAB)/hyperkube bin/gotestsum
	$(UNIT_TEST) $(ANEW) $(SEQUENTIAL)
	$(UNIT_TEST) $(ANEW) -run '^($(MANY_CASES))$$' $(MANY_CASES_IN)
	cd test/oracle && $(UNIT_TEST) $(ANEW) ./...
	cd test/oracle/services && $(UNIT_TEST) $(ANEW) ./...
	cd test/chart && $(UNIT_TEST) $(ANEW) ./...

.PHONY: oracle-long
oracle-long: ## 200,000 random cases of policies, asked of the rows and of the oracles, and as many of Services
	cd test/oracle && nice go test -count 1 -timeout 10h -v -run Oracles . -args -cases 200000
	cd test/oracle/services && nice go test -count 1 -timeout 10h -v . -args -cases 200000

.PHONY: windows-unit
windows-unit: $(LAB)/wine/.complete ## the unit tests of what runs on Windows, under Wine
	test/lab/scripts/wine-test.sh ./cni ./cmd/weft ./node ./node/capture ./node/pktmon ./node/nodeconfig ./node/attach ./node/gateway ./node/openvswitch ./node/platform/platformtest ./node/pods ./node/probe ./node/windows ./node/hostservice ./node/hostservice/listeners ./node/hostservice/proxy ./node/tunnel ./node/doctor ./node/hns ./node/hostnet ./node/ovsdriver ./node/statefile

.PHONY: ui-test ui-bench
ui-test: bin/gotestsum ## the page of `weft ui` in a browser
	test/lab/scripts/install.sh chromium=chromium
	cd test/ui && $(UNIT_TEST) $(ANEW) -timeout 10m ./...

ui-bench: ## how long that page takes to draw many pods
	test/lab/scripts/install.sh chromium=chromium
	cd test/ui && go test -run '^$$' -bench . -benchtime 3x ./...

CLUSTER_TEST := bin/gotestsum --format standard-verbose -- -tags cluster -count 1 -parallel 3
END_CLUSTER := bin/weftlab --name weft-test down

.PHONY: cluster-test cluster-alone cluster-together
cluster-test: lab bin/steady bin/ask bin/judge bin/gotestsum ## a cluster of Linux and Windows nodes: pods, Services, names, components killed, bad days
	$(CLUSTER_TEST) -timeout 90m ./test/e2e

.PHONY: zones-test
zones-test: lab bin/steady bin/gotestsum ## a cluster with two zones: what a loss of one costs the other, and what parts the two (some 5 minutes)
	$(CLUSTER_TEST) -timeout 40m ./test/zones

# Two parts of it, without what takes long: the tests that have the cluster to themselves, and those that run at the same
# time.
ifndef MADE
cluster-alone cluster-together: lab bin/steady bin/ask bin/judge bin/gotestsum
endif
cluster-alone cluster-together: cluster-%:
	$(CLUSTER_TEST) -short -timeout 25m ./test/e2e -args -keep -tests $*

# It runs `go test`, and names each test that has failed, with its output, at the end.
bin/gotestsum: go.mod
	@go build -o $@ gotest.tools/gotestsum

bin/steady: $(wildcard test/e2e/steady/*.go)
bin/ask: $(wildcard test/e2e/ask/*.go)
bin/steady bin/ask: bin/%:
	@go build -o $@ ./test/e2e/$*

bin/judge: $(wildcard test/oracle/*.go test/oracle/judge/*.go test/oracle/go.*)
	@cd test/oracle && go build -o ../../$@ ./judge

# The tests of OVN's rows that send packets, on the datapath of Linux itself.
CHARON := $(LAB)/strongswan/.complete
KERNEL_TESTS := Packets|Affinity|BalancersAreRenamed|ChangesLeave|ConnectionsAreSpread|ReachesTunnels|OneMeter|RoutersForget|Sockets|ConnectionsEnd|LocalAddresses|TooLarge
KERNEL_TEST := nice -n 5 go test $(GO_TEST) $(ANEW)

.PHONY: test-kernel test-kernel-short
test-kernel test-kernel-short: export WEFT_TEST_DATAPATH := system
test-kernel test-kernel-short: export WEFT_TEST_KERNEL := $(abspath $(TEST_KERNEL))
test-kernel-short: ovn $(LAB)/hyperv-netlink.so $(TEST_KERNEL) ## two nodes with the datapath of Linux 6.12: pods, a Service, a policy, gateways, restarts of ovs-vswitchd; tunnels of the emulated extension
	$(KERNEL_TEST) -timeout 5m -exec $(abspath $(LAB_SCRIPTS))/in-kernel.sh -run TestTwoNodesWithPackets ./ovn
	WEFT_TEST_DATAPATH= $(KERNEL_TEST) -timeout 5m -exec $(abspath $(LAB_SCRIPTS))/in-kernel.sh -run TestTunnelsAreRecorded \
		./test/hyperv # its kernel knows tunnels, and the emulated extension must have them all the same

test-kernel: ovn $(TEST_KERNEL) $(CHARON) ## the tests with packets, on the datapath of Linux 6.12 (some 15 minutes)
	$(KERNEL_TEST) -p 1 -timeout 20m -exec $(abspath $(LAB_SCRIPTS))/in-kernel.sh ./node/extbridge
	$(KERNEL_TEST) -p 1 -timeout 40m -exec $(abspath $(LAB_SCRIPTS))/in-kernel.sh -run '$(KERNEL_TESTS)' ./ovn
	WEFT_TEST_KERNEL_USR=$(abspath $(LAB)/strongswan/usr) $(KERNEL_TEST) -p 1 -timeout 20m \
		-exec $(abspath $(LAB_SCRIPTS))/in-kernel.sh -bench . -benchtime 3x ./node/ipsec

$(CHARON): $(LAB_SCRIPTS)/unpack.sh | lab-deps
	@$(LAB_SCRIPTS)/progress.sh "unpacking strongSwan" $(LAB_SCRIPTS)/unpack.sh $(@D) charon-systemd \
		strongswan-libcharon strongswan-swanctl libstrongswan libstrongswan-standard-plugins

.PHONY: test-kernel-nodes
test-kernel-nodes: lab lab-kernels bin/steady bin/ask ## nodes with kernels of their own, installed by the playbooks: Debian 12's and 13's
	nice -n 5 go test -tags ansible -count 1 -timeout 60m -v -run TestKernel ./test/ansible -args -kernel

.PHONY: test-kernel-mixed
test-kernel-mixed: lab lab-kernels bin/steady bin/ask ## a Windows node beside nodes with kernels of their own
	nice -n 5 go test -tags ansible -count 1 -timeout 60m -v -run TestMixed ./test/ansible -args -kernel -windows

.PHONY: bench-kernel
bench-kernel: lab lab-kernels bin/steady bin/ask ## connections and bytes on the kernel's datapath, by Services and policies and without
	go test -tags ansible -run '^$$' -bench Kernel -benchtime 1x -timeout 60m ./test/ansible -args -kernel

.PHONY: e2e-kernel
e2e-kernel: lab lab-kernels lab-official bin/steady bin/ask ## the official Kubernetes network tests on nodes with kernels of their own (some four hours)
	go test -tags ansible -count 1 -timeout 10h -v -run TestKernel ./test/ansible -args -kernel -official

.PHONY: test-ansible
test-ansible: lab-official lab-hosts bin/steady bin/ask ## servers with a systemd of their own, on which the playbooks of ansible/ install Weft, upgrade it and take it off
	go test -tags ansible -count 1 -p 1 -timeout 90m -v ./test/ansible/...

e2e: lab-official bin/steady bin/ask bin/judge ## the official Kubernetes network tests on a mixed cluster, and all of ours on a cluster, with what takes long
	test/e2e/official.sh
	test/e2e/policies.sh
	$(CLUSTER_TEST) -timeout 3h ./test/e2e -args -thorough
	$(CLUSTER_TEST) -timeout 40m ./test/zones

.PHONY: e2e-mended-driver
e2e-mended-driver: export WINDOWS_FAULTS := all,-flush-nat,-protocols
e2e-mended-driver: lab-official ## the official tests, with the two changes of Windows' driver that docs/conformance.md names
	test/e2e/official.sh
	test/e2e/policies.sh bin/conformance-mended-driver.yaml

bench: lab bin/steady bin/ask ## benchmarks, each beside its floor
	go test -run '^$$' -bench . -benchtime 1x -timeout 30m ./ovsdb/...
	go test -run '^$$' -bench . -benchtime 1x -timeout 15m ./ovn
	go test -run '^$$' -bench . -benchtime 1x -timeout 30m ./ovn/southbound
	go test -run '^$$' -bench . -benchtime 50x -timeout 30m ./node
	go test -run '^$$' -bench . -benchtime 1x -timeout 15m ./node/chassis
	go test -run '^$$' -bench . -benchtime 5x -timeout 15m ./test/hyperv
	go test -run '^$$' -bench . -skip "Benchmark(Scale|Zones|Monitors)" -benchtime 1x -timeout 90m ./test/bench
	go test -tags cluster -run '^$$' -bench . -benchtime 1x -timeout 25m ./test/e2e

.PHONY: bench-scale
bench-scale: ovn ## the rows and flows of clusters of 20 to 1,000 nodes, and what one change costs (an hour or two, 20 GB)
	go test -run '^$$' -bench BenchmarkScale -benchtime 1x -timeout 3h ./test/bench

.PHONY: bench-zones
bench-zones: ovn ## the same of a zone of 100 and of 250 nodes, beside 900 and 750 nodes of other zones (an hour or more, 15 GB)
	go test -run '^$$' -bench BenchmarkZones -benchtime 1x -timeout 3h ./test/bench

.PHONY: bench-monitors
bench-monitors: ovn ## what the Southbound's server and guard do for 1 to 200 nodes that read all of it, or their part, start, and come again
	go test -run '^$$' -bench BenchmarkMonitors -benchtime 1x -timeout 3h ./test/bench

generate: ## models from their schemas, and from the code docs/reference and the schema of the chart's values
	go generate ./models/...
	go test -run '^TestReference' ./cmd/weft ./test/reference -args -update

.PHONY: site site-test
site: ## the documents as a site, in bin/site
	docs/site/site.sh

site-test: site ## its pages and links, and what a reader sees in a browser
	test/lab/scripts/install.sh chromium=chromium
	cd test/site && go test -count 1 -v .

clean: ## what was built, except for the lab's slow parts in bin/lab
	find bin -maxdepth 1 -type f -delete
	rm -rf bin/release bin/site bin/site-pages
