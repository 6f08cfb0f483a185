package contract

import (
	"slices"
	"testing"
)

func TestDomainPatterns(t *testing.T) {
	if got := DomainName("WWW.Example.COM."); got != "www.example.com" {
		t.Errorf("the normal form is %q", got)
	}
	for _, c := range []struct {
		name string
		want []string
	}{
		{"latest.blog.kubernetes.io", []string{"latest.blog.kubernetes.io", "*.blog.kubernetes.io", "*.kubernetes.io",
			"*.io"}},
		{"localhost", []string{"localhost"}},
	} {
		if got := slices.Collect(DomainPatterns(c.name)); !slices.Equal(got, c.want) {
			t.Errorf("%s is named by %v, want %v", c.name, got, c.want)
		}
	}
}

func TestCheckDNSServices(t *testing.T) {
	if err := CheckDNSServices([]string{"kube-system/kube-dns", "openshift-dns/dns-default"}); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"kube-dns", "kube-system/", "/kube-dns", "a/b/c", "kube-system/Kube-DNS", ""} {
		if err := CheckDNSServices([]string{wrong}); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}
