package node

import (
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clientrecord "k8s.io/client-go/tools/record"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/models/telemetry"
)

// events tells users on their pods and Services what went wrong when nobody was there to be answered.
type events struct {
	broadcaster clientrecord.EventBroadcaster
	recorder    clientrecord.EventRecorder
}

func newEvents(node string) *events {
	broadcaster := clientrecord.NewBroadcaster()
	return &events{broadcaster, broadcaster.NewRecorder(scheme.Scheme,
		corev1.EventSource{Component: "weft-node", Host: node})}
}

// start sends Events to the API server until stop is called.
func (e *events) start(client kubernetes.Interface) (stop func()) {
	e.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return e.broadcaster.Shutdown
}

// nodeReference is the Node as kubelet's own Events have it, among which `kubectl describe node` shows it.
func nodeReference(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}

// warn writes an Event on any object, and to the log.
func (e *events) warn(object *corev1.ObjectReference, reason *reasons.Event, message string) {
	slog.Warn(message, telemetry.Object(object.Kind, object.Namespace, object.Name), "reason", reason.Name)
	e.recorder.Event(object, reason.Type(), reason.Name, message)
}

// report writes an Event on a pod, and to the log.
func (e *events) report(pod cni.Pod, reason *reasons.Event, message string) {
	level := slog.Warn
	if reason.Normal {
		level = slog.Info
	}
	level(message, telemetry.Object("Pod", pod.Namespace, pod.Name), "reason", reason.Name)
	e.recorder.Event(&corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID),
	}, reason.Type(), reason.Name, message)
}
