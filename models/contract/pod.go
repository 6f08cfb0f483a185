package contract

// PodReference is a pod, by the UID that the API server has given it.
type PodReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}
