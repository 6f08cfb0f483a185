package sysdump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weftnet/weft/ovn/observe/redact"
)

// weftPods selects the pods of Weft's programs, where these are pods.
const weftPods = "app.kubernetes.io/part-of=weft"

// Bounds of logs.
const (
	mostPods = 1000
	maxLog   = 5 << 20 // bytes of a container's log, the latest ones
	maxLines = 20000
)

// logs are those of Weft's pods, a file for each container, and one for a container's former life.
type logs struct{}

const logsFolder = "logs/"

func (logs) collect(ctx context.Context, r *run) error {
	pods, err := r.weftPods(ctx)
	if err != nil {
		r.missing(logsFolder, err)
	}
	for _, pod := range pods {
		for _, container := range pod.Status.ContainerStatuses {
			name := fmt.Sprintf("%s%s/%s/%s", logsFolder, pod.Namespace, pod.Name, container.Name)
			if err := r.file(ctx, name+".log", r.log(pod, container.Name, false)); err != nil {
				return err
			}
			if container.RestartCount == 0 {
				continue
			}
			if err := r.file(ctx, name+".previous.log", r.log(pod, container.Name, true)); err != nil {
				return err
			}
		}
	}
	return nil
}

// weftPods are the pods that are there. An error says that there are others.
func (r *run) weftPods(ctx context.Context) (pods []*corev1.Pod, err error) {
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	all := kind{path: "/api/v1/pods", labels: weftPods}
	err = all.list(ctx, r, func(object *unstructured.Unstructured) error {
		pod := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, pod); err != nil {
			return err
		}
		if len(pods) == mostPods {
			return fmt.Errorf("there are more than %d pods, whose logs are left out", mostPods)
		}
		pods = append(pods, pod)
		return nil
	})
	return pods, err
}

// log reads the end of a container's log.
func (r *run) log(pod *corev1.Pod, container string, previous bool) func(context.Context, io.Writer) error {
	return func(ctx context.Context, w io.Writer) error {
		stream, err := r.get(ctx, "/api/v1/namespaces/"+pod.Namespace+"/pods/"+pod.Name+"/log", map[string]string{
			"container": container, "timestamps": "true", "tailLines": strconv.Itoa(maxLines),
			"previous": strconv.FormatBool(previous)})
		if err != nil {
			return err
		}
		defer stream.Close()
		text, err := tail(stream, maxLog)
		_, wrong := io.WriteString(w, redact.Text(string(text)))
		return errors.Join(err, wrong)
	}
}

// tail is the last bytes of a stream, most of them.
func tail(stream io.Reader, most int) ([]byte, error) {
	var kept []byte
	buffer := make([]byte, 64<<10)
	for {
		n, err := stream.Read(buffer)
		kept = append(kept, buffer[:n]...)
		if len(kept) > 2*most {
			kept = append(kept[:0], kept[len(kept)-most:]...)
		}
		if errors.Is(err, io.EOF) {
			return kept[max(len(kept)-most, 0):], nil
		}
		if err != nil {
			return kept[max(len(kept)-most, 0):], err
		}
	}
}
