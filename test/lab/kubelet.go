package lab

import "encoding/json"

// How many pods a kubelet takes. A node with a kernel of its own has one processor. The scheduler sees it as full with
// ten pods that ask for nothing, and of full nodes it takes the first one: without a limit that one gets nearly all.
const (
	podsOnSharedKernel = 250
	podsOnOwnKernel    = 25
)

// kubeletConfig of a node with these files, which takes so many pods; JSON is YAML. In a lab with hosts kubelets renew
// their own credentials.
func (l layout) kubeletConfig(ca, cert, key string, pods int) string {
	config := map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"failCgroupV1":             false,
		"cgroupDriver":             "cgroupfs",
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": ca},
		},
		"authorization":     map[string]any{"mode": "Webhook"},
		"tlsCertFile":       cert,
		"tlsPrivateKeyFile": key,
		"clusterDNS":        l.addresses.dnsServices()[:1],
		"clusterDomain":     "cluster.local",
		"failSwapOn":        false,
		// Its KUBE-FIREWALL drops what is sent to 127.0.0.1 from another address of the host's, which guards
		// kube-proxy's route_localnet: there is none here, and hostPorts and NodePorts are served there.
		"makeIPTablesUtilChains": false,
		// The host's disk is not the lab's to judge.
		"evictionHard": map[string]any{
			"memory.available": "100Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
			"imagefs.inodesFree": "0%",
		},
		"imageGCHighThresholdPercent": 100,
		"imageGCLowThresholdPercent":  99,
		"nodeStatusUpdateFrequency":   "5s",
		"syncFrequency":               "10s",
		"maxPods":                     pods,
	}
	if l.hasHosts() {
		config["rotateCertificates"] = true
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil { // it holds nothing that JSON cannot say
		panic(err)
	}
	return string(text)
}

// labels of a node. Without that of the system, a Windows node would have another system for the blink of an eye, and
// pods of that one.
func (n node) labels() string {
	if n.windows {
		return zoneLabel(n.number) + ",kubernetes.io/os=windows"
	}
	return zoneLabel(n.number)
}

// zoneLabel puts each other node into another zone.
func zoneLabel(number int) string {
	return "topology.kubernetes.io/zone=" + []string{"zone-a", "zone-b"}[(number-firstNode)%2]
}
