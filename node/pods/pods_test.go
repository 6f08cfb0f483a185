package pods

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestHostPortsOfAPod(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	port := func(host int32) []corev1.ContainerPort {
		return []corev1.ContainerPort{{HostPort: host, ContainerPort: 80}, {ContainerPort: 81}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Ports: port(1)}, {Ports: port(2), RestartPolicy: &always}},
		Containers:     []corev1.Container{{Ports: port(3)}, {Ports: port(4)}},
	}}
	kept, err := keepPodEssentials(pod)
	if err != nil {
		t.Fatal(err)
	}
	var hosts []int32
	for _, p := range kept.(*corev1.Pod).Spec.Containers[0].Ports {
		hosts = append(hosts, p.HostPort)
	}
	if !slices.Equal(hosts, []int32{2, 3, 4}) { // a container that ends before the others start has none
		t.Errorf("host ports %v", hosts)
	}
	if onlyHostPorts(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: port(0)}}}}) != nil {
		t.Error("a pod without host ports has some")
	}
}
