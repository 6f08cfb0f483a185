package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopy is a copy that shares nothing with the original.
func (e *EgressIP) DeepCopy() *EgressIP {
	if e == nil {
		return nil
	}
	c := *e
	e.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Addresses = slices.Clone(e.Spec.Addresses)
	e.Spec.NamespaceSelector.DeepCopyInto(&c.Spec.NamespaceSelector)
	c.Spec.PodSelector = e.Spec.PodSelector.DeepCopy()
	c.Spec.NodeSelector = e.Spec.NodeSelector.DeepCopy()
	c.Status.Conditions = copyConditions(e.Status.Conditions)
	return &c
}

// DeepCopyObject is part of [runtime.Object].
func (e *EgressIP) DeepCopyObject() runtime.Object { return e.DeepCopy() }

// DeepCopy is a copy that shares nothing with the original.
func (l *EgressIPList) DeepCopy() *EgressIPList {
	if l == nil {
		return nil
	}
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopy())
	}
	return &c
}

// DeepCopyObject is part of [runtime.Object].
func (l *EgressIPList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy is a copy that shares nothing with the original.
func (p *AddressPool) DeepCopy() *AddressPool {
	if p == nil {
		return nil
	}
	c := *p
	p.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Ranges = slices.Clone(p.Spec.Ranges)
	if p.Spec.AutoAssign != nil {
		auto := *p.Spec.AutoAssign
		c.Spec.AutoAssign = &auto
	}
	c.Spec.ServiceSelector = p.Spec.ServiceSelector.DeepCopy()
	c.Spec.NamespaceSelector = p.Spec.NamespaceSelector.DeepCopy()
	c.Spec.NodeSelector = p.Spec.NodeSelector.DeepCopy()
	c.Status.Conditions = copyConditions(p.Status.Conditions)
	return &c
}

// DeepCopyObject is part of [runtime.Object].
func (p *AddressPool) DeepCopyObject() runtime.Object { return p.DeepCopy() }

// DeepCopy is a copy that shares nothing with the original.
func (l *AddressPoolList) DeepCopy() *AddressPoolList {
	if l == nil {
		return nil
	}
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopy())
	}
	return &c
}

// DeepCopyObject is part of [runtime.Object].
func (l *AddressPoolList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy is a copy that shares nothing with the original.
func (r *ResolvedNames) DeepCopy() *ResolvedNames {
	if r == nil {
		return nil
	}
	c := *r
	r.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Names = slices.Clone(r.Names)
	for i := range c.Names {
		c.Names[i].Addresses = slices.Clone(r.Names[i].Addresses)
	}
	return &c
}

// DeepCopyObject is part of [runtime.Object].
func (r *ResolvedNames) DeepCopyObject() runtime.Object { return r.DeepCopy() }

// DeepCopy is a copy that shares nothing with the original.
func (l *ResolvedNamesList) DeepCopy() *ResolvedNamesList {
	if l == nil {
		return nil
	}
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopy())
	}
	return &c
}

// DeepCopyObject is part of [runtime.Object].
func (l *ResolvedNamesList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy is a copy that shares nothing with the original.
func (p *PodNetworks) DeepCopy() *PodNetworks {
	if p == nil {
		return nil
	}
	c := *p
	p.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Pods = slices.Clone(p.Pods)
	return &c
}

// DeepCopyObject is part of [runtime.Object].
func (p *PodNetworks) DeepCopyObject() runtime.Object { return p.DeepCopy() }

// DeepCopy is a copy that shares nothing with the original.
func (l *PodNetworksList) DeepCopy() *PodNetworksList {
	if l == nil {
		return nil
	}
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopy())
	}
	return &c
}

// DeepCopyObject is part of [runtime.Object].
func (l *PodNetworksList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

func copyConditions(list []metav1.Condition) []metav1.Condition {
	copies := slices.Clone(list)
	for i := range copies {
		list[i].DeepCopyInto(&copies[i])
	}
	return copies
}
