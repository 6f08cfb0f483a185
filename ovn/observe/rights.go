package observe

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/user"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// listPath gives the namespace of a path of a resource's list, "" being all.
func listPath(path, resource string) (namespace string, ok bool) {
	path, ok = strings.CutPrefix(path, "/apis/"+api.GroupVersion+"/")
	if !ok || path == resource {
		return "", ok
	}
	parts := strings.Split(path, "/")
	if len(parts) != 3 || parts[0] != "namespaces" || parts[2] != resource ||
		len(validation.IsDNS1123Label(parts[1])) > 0 {
		return "", false
	}
	return parts[1], true
}

// demandList refuses a user that has no right to list a resource of a namespace, "" being all. role is the ClusterRole
// that has the right.
func (h *handler) demandList(ctx context.Context, who user.Info, resource, namespace, role string) error {
	allowed, err := h.may(ctx, who, right{verb: "list", resource: resource, namespace: namespace})
	if err != nil || allowed {
		return err
	}
	if namespace != "" {
		return refusal(who, "list", resource, "", role, " of namespace "+namespace, "a RoleBinding in it")
	}
	return refusal(who, "list", resource, "", role, "", "a ClusterRoleBinding")
}

// demandGet refuses a user that has no right to get an object of a resource of the cluster.
func (h *handler) demandGet(ctx context.Context, who user.Info, resource, name, role string) error {
	allowed, err := h.may(ctx, who, right{verb: "get", resource: resource, name: name})
	if err != nil || allowed {
		return err
	}
	return refusal(who, "get", resource, name, role, "", "a ClusterRoleBinding")
}

func refusal(who user.Info, verb, resource, name, role, where, binding string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, name,
		fmt.Errorf("user %q has no right to %s it%s: an administrator binds the ClusterRole %s to the user, by %s",
			who.GetName(), verb, where, role, binding))
}
