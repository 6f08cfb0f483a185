package observe

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
)

// demandList refuses a user that has no right to list a resource of a namespace, "" being all. role is the ClusterRole
// that has the right.
func (h *handler) demandList(ctx context.Context, who user.Info, resource, namespace, role string) error {
	allowed, err := h.may(ctx, who, resource, namespace)
	if err != nil || allowed {
		return err
	}
	where, binding := "", "ClusterRoleBinding"
	if namespace != "" {
		where, binding = " of namespace "+namespace, "RoleBinding in it"
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, "",
		fmt.Errorf("user %q has no right to list it%s: an administrator binds the ClusterRole %s to the user, by a %s",
			who.GetName(), where, role, binding))
}
