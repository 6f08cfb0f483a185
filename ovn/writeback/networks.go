package writeback

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/part"
)

// Paths of what a node has in its own namespace.
const (
	networksPath = "/apis/weft.net/v1alpha1/namespaces/" + contract.PodNetworksNamespace + "/podnetworks"
	rightsPath   = "/apis/rbac.authorization.k8s.io/v1/namespaces/" + contract.PodNetworksNamespace
	rolesPath    = rightsPath + "/roles"
	bindingsPath = rightsPath + "/rolebindings"
)

// rightOf is the name of a node's Role and RoleBinding. No other Role in the namespace has a name with a colon.
func rightOf(node string) string { return "node:" + node }

// writeNetworks makes a node's PodNetworks what a patch says, and gives or takes the right to it.
func writeNetworks(ctx context.Context, core rest.Interface, p part.Patch, n part.Networks) error {
	switch {
	case n.Gone:
		return errors.Join(Gone(remove(ctx, core, networksPath, p.Name, p.UID)),
			Gone(remove(ctx, core, bindingsPath, rightOf(p.Name), "")), Gone(remove(ctx, core, rolesPath, rightOf(p.Name), "")))
	case n.Grant:
		if err := grant(ctx, core, n); err != nil {
			return err
		}
	}
	if p.UID != "" {
		return Gone(request(core, p).SetHeader("Accept", onlyMetadata).Body(p.JSON(time.Now())).Do(ctx).Error())
	}
	err := core.Post().MaxRetries(0).AbsPath(networksPath).SetHeader("Content-Type", "application/json").
		SetHeader("Accept", onlyMetadata).Body(p.JSON(time.Now())).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) { // it is about to be seen
		return nil
	}
	return err
}

func remove(ctx context.Context, core rest.Interface, path, name string, uid types.UID) error {
	var options metav1.DeleteOptions
	if uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	body, err := json.Marshal(&options)
	if err != nil {
		return err
	}
	return core.Delete().MaxRetries(0).AbsPath(path, name).SetHeader("Content-Type", "application/json").Body(body).
		Do(ctx).Error()
}

// grant lets a node read its own PodNetworks, and nobody else's: a list or watch is allowed only with a field selector
// that names the object.
func grant(ctx context.Context, core rest.Interface, n part.Networks) error {
	meta := metav1.ObjectMeta{Namespace: contract.PodNetworksNamespace, Name: rightOf(n.Node.Name),
		OwnerReferences: []metav1.OwnerReference{n.Owner()}}
	role := rbacv1.Role{TypeMeta: typeOf("Role"), ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{v1alpha1.PodNetworksResource.Resource},
		ResourceNames: []string{n.Node.Name}, Verbs: []string{"get", "list", "watch"}}}}
	if err := apply(ctx, core, rolesPath, meta.Name, &role); err != nil {
		return err
	}
	node := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:node:" + n.Node.Name}
	return apply(ctx, core, bindingsPath, meta.Name, &rbacv1.RoleBinding{TypeMeta: typeOf("RoleBinding"),
		ObjectMeta: meta, Subjects: []rbacv1.Subject{node},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}})
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// apply makes an object, or makes it again what it must be.
func apply(ctx context.Context, core rest.Interface, path, name string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return core.Patch(types.ApplyPatchType).MaxRetries(0).AbsPath(path, name).Param("fieldManager", "weft-controller").
		Param("force", "true").SetHeader("Accept", onlyMetadata).Body(body).Do(ctx).Error()
}
