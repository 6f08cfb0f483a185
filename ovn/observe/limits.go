package observe

import (
	"cmp"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Bounds of requests under way.
const (
	maxRequests = 64 // of all users
	maxOfUser   = 4  // and of all service accounts of a namespace
)

// who is a user, or all service accounts of a namespace: whoever owns that makes as many as he likes.
func who(user string) string {
	const prefix = "system:serviceaccount:"
	if account, ok := strings.CutPrefix(user, prefix); ok {
		namespace, _, _ := strings.Cut(account, ":")
		return prefix + namespace
	}
	return user
}

// limits bound the requests that are under way. What they make the databases and nodes do is bounded by [snapshots].
type limits struct {
	// most and mostOfUser are other bounds than maxRequests and maxOfUser; 0: these.
	most, mostOfUser int

	mu    sync.Mutex
	all   int
	users map[string]int
}

// enter takes a place until release is called.
func (l *limits) enter(user string) (release func(), err error) {
	user = who(user)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= cmp.Or(l.most, maxRequests) || l.users[user] >= cmp.Or(l.mostOfUser, maxOfUser) {
		return nil, apierrors.NewTooManyRequests("too many requests are under way; try again", 1)
	}
	if l.users == nil {
		l.users = map[string]int{}
	}
	l.all++
	l.users[user]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		if l.users[user]--; l.users[user] == 0 {
			delete(l.users, user)
		}
	}, nil
}
