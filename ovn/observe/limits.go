package observe

import (
	"cmp"
	"fmt"
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
	// lasting is what takes a place for minutes, in the plural, and is refused without one. "" is of requests that are
	// soon over: clients of the API server wait for a place, and say nothing of it.
	lasting string

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
		return nil, l.refuse(user)
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

// refuse says why there is no place.
func (l *limits) refuse(user string) error {
	switch {
	case l.lasting == "":
		return apierrors.NewTooManyRequests("too many requests are under way; try again", 1)
	case l.users[user] < l.mostOfUser:
		return apierrors.NewTooManyRequests(fmt.Sprintf("%d %s of all users are under way, and no more are made at a time: "+
			"run it again when one of them has ended", l.all, l.lasting), 0)
	}
	return apierrors.NewTooManyRequests(fmt.Sprintf("%d %s of %q are under way, and no more are made at a time: end one "+
		"of them by Ctrl-C, or run it again when one has ended", l.users[user], l.lasting, user), 0)
}
