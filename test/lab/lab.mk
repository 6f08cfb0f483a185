# What the lab (test/lab) is made of, below bin/lab: each part is made once, from what it depends on.
# The first run compiles Kubernetes and takes some minutes; the next ones take a second.
# `lab` is what `weftlab up` needs; `lab-official` adds the official tests, and `lab-hosts` hosts for Ansible.

LAB := bin/lab
LAB_SCRIPTS := test/lab/scripts
LAB_GO_FILES := $(shell find test/lab models/api -name '*.go' -not -path '*/kube/*' -not -path '*/coredns/*' -not -path '*/cniplugins/*' -not -path '*/policies/*' -not -path '*/sctp/*') \
	$(wildcard test/lab/manifests/* models/api/crds/*.yaml models/api/rights/*.yaml) $(wildcard ovn/capability/*.go test/hyperv/*.go test/pktmon/*.go) go.mod go.sum
POLICIES_MODULE := test/lab/policies/go.mod test/lab/policies/go.sum
KUBE_MODULE := test/lab/kube/go.mod test/lab/kube/go.sum
KUBE_VERSION := $(shell sed -n 's/^[[:space:]]*k8s.io\/kubernetes //p' test/lab/kube/go.mod)
KUBE_LDFLAGS := -s -w \
	-X k8s.io/component-base/version.gitVersion=$(KUBE_VERSION) \
	-X k8s.io/component-base/version.gitMajor=$(patsubst v%,%,$(word 1,$(subst ., ,$(KUBE_VERSION)))) \
	-X k8s.io/component-base/version.gitMinor=$(word 2,$(subst ., ,$(KUBE_VERSION))) \
	-X k8s.io/client-go/pkg/version.gitVersion=$(KUBE_VERSION)
PROGRESS := $(abspath $(LAB_SCRIPTS))/progress.sh
# One build at a time: two at once would compile the packages that they share twice.
GO_BUILD := flock $(abspath Makefile) $(PROGRESS)

LAB_PARTS := $(LAB)/ovn/.complete bin/weftlab bin/weft bin/weft-cni bin/weft.exe bin/weft-cni.exe \
	$(addprefix $(LAB)/,hyperkube kubectl loopback ovs-ofctl.exe pktmon.exe hnsemu hypervemu hyperv-netlink.so wine/.complete clusternetworkpolicies.yaml .images)
OFFICIAL_PARTS := $(addprefix $(LAB)/,e2e.test ginkgo policy-conformance)

KERNELS := $(addprefix $(LAB)/kernel/linux-,6.1 6.12)

.PHONY: lab lab-parts lab-official lab-official-parts lab-deps lab-hosts lab-kernels ovn prometheus

# Parts that are downloaded or unpacked are made while others are compiled, whatever -j says.
BESIDE = $(MAKE) --no-print-directory $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j4)

lab: lab-deps ## bin/weftlab and all that a cluster needs
	+@$(BESIDE) lab-parts
	@echo "lab: ready; bin/weftlab up starts a cluster"

lab-parts: $(LAB_PARTS)

lab-official: lab ## the lab, and the official tests of `weftlab e2e` and `weftlab conformance`
	+@$(BESIDE) lab-official-parts

lab-official-parts: $(OFFICIAL_PARTS)

lab-deps: ## packages that the lab needs of the machine
	@$(LAB_SCRIPTS)/deps.sh

ovn: $(LAB)/ovn/.complete ## OVN 25.03 and Open vSwitch 3.5 in bin/lab/ovn, installed nowhere

prometheus: $(LAB)/prometheus/.complete ## this distribution's Prometheus in bin/lab/prometheus, installed nowhere

$(LAB)/prometheus/.complete: $(LAB_SCRIPTS)/unpack.sh | lab-deps
	@$(PROGRESS) "unpacking Prometheus" $(LAB_SCRIPTS)/unpack.sh $(@D) prometheus

lab-hosts: lab-deps $(LAB)/hosts/.complete $(LAB)/ovn-25.03.tar.gz ## what `weftlab up --hosts` needs beyond the lab: Ansible here, servers' root file systems and packages in bin/lab/hosts
	@$(LAB_SCRIPTS)/hosts-deps.sh

$(LAB)/hosts/.complete: $(LAB_SCRIPTS)/hosts.sh $(LAB_SCRIPTS)/debian.sh | lab-deps
	@rm -rf $(@D)
	@$(PROGRESS) "making the hosts' root file systems" $(LAB_SCRIPTS)/hosts.sh $(@D)

lab-kernels: lab-hosts $(KERNELS) ## the kernels of hosts that have their own, Debian's compiled for user-mode Linux

# Linux as a program. What the kernel needs to be compiled, its script installs.
$(LAB)/kernel/linux-%: $(LAB_SCRIPTS)/kernel.sh $(LAB_SCRIPTS)/debian.sh test/lab/kernel/config test/lab/kernel/xstate.h | lab-deps
	@$(PROGRESS) "compiling Linux $*" $(LAB_SCRIPTS)/kernel.sh $* $@

# OVN as an operator may unpack it on hosts, below /opt/ovn-25.03.
$(LAB)/ovn-25.03.tar.gz: $(LAB)/ovn/.complete
	@work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && cp -r $(LAB)/ovn/bin "$$work" && sed -i 's|$(abspath $(LAB)/ovn)|/opt/ovn-25.03|g' "$$work"/bin/* && \
		tar --numeric-owner --owner=0 --group=0 -czf $@ -C $(abspath $(LAB)/ovn) root share -C "$$work" bin

$(LAB)/ovn/.complete: $(LAB_SCRIPTS)/ovn-prefix.sh $(LAB_SCRIPTS)/debian.sh | lab-deps
	@rm -f $@
	@$(PROGRESS) "unpacking OVN and Open vSwitch" $(LAB_SCRIPTS)/ovn-prefix.sh $(LAB)/ovn

$(LAB):
	@mkdir -p $@

bin/weftlab: $(LAB_GO_FILES) | $(LAB)
	@$(GO_BUILD) "building weftlab" go build -ldflags '-s -w' -o $@ ./test/lab/weftlab

# What is shipped to Windows nodes, as it is shipped.
bin/weft.exe bin/weft-cni.exe &: $(GO_FILES) | $(LAB)
	@GOOS=windows $(GO_BUILD) "building weft.exe and weft-cni.exe" go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/weft ./cmd/weft-cni

$(LAB)/ovs-ofctl.exe: $(wildcard test/lab/ofctl/*.go test/lab/ofctl/*/*.go) go.mod | $(LAB)
	@GOOS=windows $(GO_BUILD) "building the Windows nodes' ovs-ofctl.exe" go build -ldflags '-s -w' -o $@ ./test/lab/ofctl/ovs-ofctl

$(LAB)/pktmon.exe: $(wildcard test/pktmon/*.go test/pktmon/*/*.go) go.mod | $(LAB)
	@GOOS=windows $(GO_BUILD) "building the Windows nodes' pktmon.exe" go build -ldflags '-s -w' -o $@ ./test/pktmon/pktmon

$(LAB)/hnsemu: $(shell find test/hns -name '*.go') go.mod go.sum | $(LAB)
	@$(GO_BUILD) "building the emulated HNS" go build -ldflags '-s -w' -o $@ ./test/hns/hnsemu

$(LAB)/hypervemu: $(shell find test/hyperv test/hns -name '*.go') go.mod go.sum | $(LAB)
	@$(GO_BUILD) "building the emulated Hyper-V extension" go build -ldflags '-s -w' -o $@ ./test/hyperv/hypervemu

$(LAB)/hyperv-netlink.so: test/hyperv/shim/netlink.c | $(LAB)
	@gcc -Wall -Wextra -O2 -shared -fPIC -o $@ $< -ldl

$(LAB)/wine/.complete: $(LAB_SCRIPTS)/wine.sh $(wildcard test/hns/dll/*) | lab-deps
	@$(PROGRESS) "making the Windows nodes' Wine prefix" $(LAB_SCRIPTS)/wine.sh $(@D)

# The programs of Kubernetes' module, in one build. hyperkube is Kubernetes, agnhost what runs in pods, and the last a server that
# sends what conntrack takes for invalid, for one of Kubernetes' tests.
KUBE_PROGRAMS := $(addprefix $(LAB)/,hyperkube kubectl pause agnhost regression-issue-74839)
$(KUBE_PROGRAMS) &: $(KUBE_MODULE) $(wildcard $(addprefix test/lab/kube/,hyperkube/* kubectl/* pause/*) test/lab/sctp/*) | $(LAB)
	@cd test/lab/kube && $(GO_BUILD) "building Kubernetes $(KUBE_VERSION)" \
		go build -ldflags '$(KUBE_LDFLAGS)' -o $(abspath $(LAB))/ ./hyperkube ./kubectl ./pause \
		k8s.io/kubernetes/test/images/agnhost k8s.io/kubernetes/test/images/regression-issue-74839

# agnhost serves TLS with a certificate that lies beside its source.
$(LAB)/localhost.crt $(LAB)/localhost.key &: | $(LAB)/agnhost
	@cd test/lab/kube && install -m 644 "$$(go list -m -f '{{.Dir}}' k8s.io/kubernetes)"/test/images/agnhost/porter/localhost.* $(abspath $(LAB))/

$(LAB)/e2e.test: $(KUBE_MODULE) test/lab/kube/tools.go | $(LAB)
	@cd test/lab/kube && $(GO_BUILD) "building Kubernetes' end-to-end tests" \
		go test -c -ldflags '$(KUBE_LDFLAGS)' -o $(abspath $@) k8s.io/kubernetes/test/e2e

$(LAB)/ginkgo: $(KUBE_MODULE) test/lab/kube/tools.go | $(LAB)
	@cd test/lab/kube && $(GO_BUILD) "building ginkgo" go build -ldflags '-s -w' -o $(abspath $@) github.com/onsi/ginkgo/v2/ginkgo

# ClusterNetworkPolicy in its experimental form, which has all fields.
$(LAB)/clusternetworkpolicies.yaml: $(POLICIES_MODULE) | $(LAB)
	@cd test/lab/policies && $(PROGRESS) "fetching ClusterNetworkPolicy" go mod download sigs.k8s.io/network-policy-api && install -m 644 \
		"$$(go list -m -f '{{.Dir}}' sigs.k8s.io/network-policy-api)"/config/crd/experimental/policy.networking.k8s.io_clusternetworkpolicies.yaml $(abspath $@)

$(LAB)/policy-conformance: $(POLICIES_MODULE) test/lab/policies/tools.go | $(LAB)
	@cd test/lab/policies && $(GO_BUILD) "building the conformance tests of ClusterNetworkPolicy" \
		go test -c -ldflags '-s -w' -o $(abspath $@) sigs.k8s.io/network-policy-api/conformance

$(LAB)/coredns: test/lab/coredns/go.mod test/lab/coredns/go.sum test/lab/coredns/main.go | $(LAB)
	@cd test/lab/coredns && $(GO_BUILD) "building CoreDNS" go build -ldflags '-s -w' -o $(abspath $@) .

$(LAB)/loopback: test/lab/cniplugins/go.mod test/lab/cniplugins/go.sum | $(LAB)
	@cd test/lab/cniplugins && $(GO_BUILD) "building the CNI plugin loopback" \
		go build -ldflags '-s -w' -o $(abspath $@) github.com/containernetworking/plugins/plugins/main/loopback

$(LAB)/images/rootfs.tar: $(LAB_SCRIPTS)/rootfs.sh | lab-deps
	@mkdir -p $(@D)
	@$(PROGRESS) "making the containers' root file system" $(LAB_SCRIPTS)/rootfs.sh $(abspath $@)

# weftlab itself knows which images are there and made of what; this only tells it to look.
.PHONY: $(LAB)/.images
$(LAB)/.images: bin/weftlab $(addprefix $(LAB)/,pause agnhost regression-issue-74839 coredns localhost.crt localhost.key images/rootfs.tar)
	@$(PROGRESS) "making the container images" bin/weftlab images
