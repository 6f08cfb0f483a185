# What the lab (test/lab) is made of, below bin/lab: each part is made once, from what it depends on.
# The first run compiles Kubernetes and takes some minutes; the next ones take a second.

LAB := bin/lab
LAB_SCRIPTS := test/lab/scripts
LAB_GO_FILES := $(shell find test/lab models/api -name '*.go' -not -path '*/kube/*' -not -path '*/coredns/*' -not -path '*/cniplugins/*' -not -path '*/policies/*' -not -path '*/sctp/*') \
	$(wildcard test/lab/manifests/* models/api/crds/*.yaml models/api/rights/*.yaml) go.mod go.sum
POLICIES_MODULE := test/lab/policies/go.mod test/lab/policies/go.sum
KUBE_MODULE := test/lab/kube/go.mod test/lab/kube/go.sum
KUBE_VERSION := $(shell sed -n 's/^[[:space:]]*k8s.io\/kubernetes //p' test/lab/kube/go.mod)
KUBE_LDFLAGS := -s -w \
	-X k8s.io/component-base/version.gitVersion=$(KUBE_VERSION) \
	-X k8s.io/component-base/version.gitMajor=$(patsubst v%,%,$(word 1,$(subst ., ,$(KUBE_VERSION)))) \
	-X k8s.io/component-base/version.gitMinor=$(word 2,$(subst ., ,$(KUBE_VERSION))) \
	-X k8s.io/client-go/pkg/version.gitVersion=$(KUBE_VERSION)
GO_LAB_BUILD = CGO_ENABLED=0 nice go build -trimpath -o $(abspath $@)

.PHONY: lab lab-deps lab-hosts ovn

lab: lab-deps ovn bin/weftlab bin/weft bin/weft-cni $(LAB)/hyperkube $(LAB)/kubectl $(LAB)/loopback \
		bin/weft.exe bin/weft-cni.exe $(LAB)/ovs-ofctl.exe $(LAB)/hnsemu $(LAB)/wine/.complete $(LAB)/e2e.test $(LAB)/ginkgo $(LAB)/clusternetworkpolicies.yaml $(LAB)/policy-conformance $(LAB)/.images ## bin/weftlab and all it needs
	@echo "lab: ready; bin/weftlab up starts a cluster"

lab-deps: ## packages that the lab needs of the machine
	@$(LAB_SCRIPTS)/deps.sh

ovn: $(LAB)/ovn/.complete ## OVN 25.03 and Open vSwitch 3.5 in bin/lab/ovn, installed nowhere

lab-hosts: lab-deps $(LAB)/hosts/.complete $(LAB)/ovn-25.03.tar.gz ## what `weftlab up --hosts` needs beyond the lab: Ansible here, servers' root file systems and packages in bin/lab/hosts
	@$(LAB_SCRIPTS)/hosts-deps.sh

$(LAB)/hosts/.complete: $(LAB_SCRIPTS)/hosts.sh | lab-deps
	@rm -rf $(@D)
	@$(LAB_SCRIPTS)/hosts.sh $(@D)

# OVN as an operator may unpack it on hosts, below /opt/ovn-25.03.
$(LAB)/ovn-25.03.tar.gz: $(LAB)/ovn/.complete
	@work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && cp -r $(LAB)/ovn/bin "$$work" && sed -i 's|$(abspath $(LAB)/ovn)|/opt/ovn-25.03|g' "$$work"/bin/* && \
		tar --numeric-owner --owner=0 --group=0 -czf $@ -C $(abspath $(LAB)/ovn) root share -C "$$work" bin

$(LAB)/ovn/.complete: $(LAB_SCRIPTS)/ovn-prefix.sh | lab-deps
	@echo "lab: unpacking OVN and Open vSwitch"
	@rm -f $@
	@$(LAB_SCRIPTS)/ovn-prefix.sh $(LAB)/ovn

bin/weftlab: $(LAB_GO_FILES)
	@echo "lab: building weftlab"
	@$(GO_LAB_BUILD) -ldflags '-s -w' ./test/lab/weftlab

# What is shipped to Windows nodes, as it is shipped.
bin/weft.exe bin/weft-cni.exe: bin/%.exe: $(GO_FILES)
	GOOS=windows go build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/$*

$(LAB)/ovs-ofctl.exe: $(wildcard test/lab/ofctl/*.go test/lab/ofctl/*/*.go) go.mod
	@GOOS=windows $(GO_LAB_BUILD) -ldflags '-s -w' ./test/lab/ofctl/ovs-ofctl

$(LAB)/hnsemu: $(shell find test/hns -name '*.go') go.mod go.sum
	@echo "lab: building the emulated HNS"
	@$(GO_LAB_BUILD) -ldflags '-s -w' ./test/hns/hnsemu

$(LAB)/wine/.complete: $(LAB_SCRIPTS)/wine.sh $(wildcard test/hns/dll/*) | lab-deps
	@echo "lab: making the Windows nodes' Wine prefix"
	@$(LAB_SCRIPTS)/wine.sh $(@D)

$(LAB)/hyperkube: $(KUBE_MODULE) test/lab/kube/hyperkube/main.go
	@echo "lab: building Kubernetes $(KUBE_VERSION), some minutes the first time"
	@cd test/lab/kube && $(GO_LAB_BUILD) -ldflags '$(KUBE_LDFLAGS)' ./hyperkube

$(LAB)/kubectl: | $(LAB)/hyperkube
	@ln -sfn hyperkube $@

$(LAB)/pause: $(KUBE_MODULE) test/lab/kube/pause/main.go
	@cd test/lab/kube && $(GO_LAB_BUILD) -ldflags '-s -w' ./pause

# agnhost serves TLS with a certificate that lies beside its source.
$(LAB)/agnhost: $(KUBE_MODULE) $(wildcard test/lab/sctp/*)
	@echo "lab: building agnhost"
	@cd test/lab/kube && $(GO_LAB_BUILD) -ldflags '-s -w' k8s.io/kubernetes/test/images/agnhost
	@cd test/lab/kube && install -m 644 "$$(go list -m -f '{{.Dir}}' k8s.io/kubernetes)"/test/images/agnhost/porter/localhost.* $(abspath $(LAB))/

# A server that sends what conntrack takes for invalid, for one of Kubernetes' tests.
$(LAB)/regression-issue-74839: $(KUBE_MODULE)
	@cd test/lab/kube && $(GO_LAB_BUILD) -ldflags '-s -w' k8s.io/kubernetes/test/images/regression-issue-74839

$(LAB)/e2e.test: $(KUBE_MODULE) test/lab/kube/tools.go
	@echo "lab: building Kubernetes' end-to-end tests, some minutes the first time"
	@cd test/lab/kube && CGO_ENABLED=0 nice go test -c -trimpath -ldflags '$(KUBE_LDFLAGS)' -o $(abspath $@) k8s.io/kubernetes/test/e2e

$(LAB)/ginkgo: $(KUBE_MODULE) test/lab/kube/tools.go
	@cd test/lab/kube && $(GO_LAB_BUILD) -ldflags '-s -w' github.com/onsi/ginkgo/v2/ginkgo

# ClusterNetworkPolicy in its experimental form, which has all fields.
$(LAB)/clusternetworkpolicies.yaml: $(POLICIES_MODULE)
	@cd test/lab/policies && go mod download sigs.k8s.io/network-policy-api && install -m 644 \
		"$$(go list -m -f '{{.Dir}}' sigs.k8s.io/network-policy-api)"/config/crd/experimental/policy.networking.k8s.io_clusternetworkpolicies.yaml $(abspath $@)

$(LAB)/policy-conformance: $(POLICIES_MODULE) test/lab/policies/tools.go
	@echo "lab: building the conformance tests of ClusterNetworkPolicy"
	@cd test/lab/policies && CGO_ENABLED=0 nice go test -c -trimpath -ldflags '-s -w' -o $(abspath $@) sigs.k8s.io/network-policy-api/conformance

$(LAB)/coredns: test/lab/coredns/go.mod test/lab/coredns/go.sum test/lab/coredns/main.go
	@echo "lab: building CoreDNS"
	@cd test/lab/coredns && $(GO_LAB_BUILD) -ldflags '-s -w' .

$(LAB)/loopback: test/lab/cniplugins/go.mod test/lab/cniplugins/go.sum
	@cd test/lab/cniplugins && $(GO_LAB_BUILD) -ldflags '-s -w' github.com/containernetworking/plugins/plugins/main/loopback

$(LAB)/images/rootfs.tar: $(LAB_SCRIPTS)/rootfs.sh | lab-deps
	@echo "lab: making the containers' root file system"
	@mkdir -p $(@D)
	@$(LAB_SCRIPTS)/rootfs.sh $(abspath $@)

# weftlab itself knows which images are there and made of what; this only tells it to look.
.PHONY: $(LAB)/.images
$(LAB)/.images: bin/weftlab $(LAB)/pause $(LAB)/agnhost $(LAB)/regression-issue-74839 $(LAB)/coredns $(LAB)/images/rootfs.tar
	@bin/weftlab images
