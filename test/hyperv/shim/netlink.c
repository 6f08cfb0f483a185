/* Loaded into a stock ovs-vswitchd (LD_PRELOAD): its sockets of the protocols NETLINK_GENERIC and
 * NETLINK_NETFILTER lead to the emulated extension instead of the kernel. All others are the kernel's,
 * except for one question: the kernel knows no tunnels here, even if it does. Where ovs-vswitchd gets a
 * tunnel's device from the kernel, it makes a plain port of it, and the extension would have no tunnels.
 *
 * Each such socket is a connection of type SOCK_SEQPACKET to $HYPERV_SOCKET, which keeps the bounds of
 * messages and can be polled, with a second channel beside it (a "gate") that is handed over by
 * SCM_RIGHTS with the hello. By the gate goes what has no message in netlink: the port id, groups, and
 * after each datagram one answer once it has been worked on. A kernel has answered when send() returns,
 * and Open vSwitch counts on that; so send() waits here, too. Only what a dump yields comes while it is
 * read: until its end a receive waits, even if it was told not to.
 *
 * A gate that says "lost", or closes, is the answer ERROR_NOT_FOUND of an extension that is not enabled:
 * ovs-vswitchd aborts on Windows (lib/netlink-socket.c, lost_communication), and does so here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_FD = 65536 };
enum { OP_JOIN = 1, OP_LEAVE = 2 };
enum { ANSWER_DONE = 0, ANSWER_LOST = 1 };

struct hello { uint32_t protocol, pid; };
struct order { uint32_t op, arg; };

struct redirected {
    atomic_int gate; /* 0: not redirected */
    atomic_int dumping;
    uint32_t port;
};
static struct redirected sockets[MAX_FD];

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name); real; })

static struct redirected *lookup(int fd)
{
    return fd >= 0 && fd < MAX_FD && atomic_load(&sockets[fd].gate) ? &sockets[fd] : NULL;
}

static void lost(void)
{
    static const char why[] = "hyperv: lost communication with the kernel device\n";
    ssize_t ignored = write(2, why, sizeof why - 1);
    (void) ignored;
    abort();
}

/* The gate's next answer. */
static uint32_t answer(int gate)
{
    uint32_t word;
    ssize_t n;
    do {
        n = REAL(recv)(gate, &word, sizeof word, 0);
    } while (n < 0 && errno == EINTR);
    if (n != sizeof word) {
        lost();
    }
    return word;
}

static int introduce(int fd, int gate, uint32_t protocol)
{
    struct hello hello = { protocol, getpid() };
    struct iovec iov = { &hello, sizeof hello };
    union { struct cmsghdr align; char bytes[CMSG_SPACE(sizeof(int))]; } control = { 0 };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes };
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &gate, sizeof gate);
    return REAL(sendmsg)(fd, &msg, 0) == sizeof hello ? 0 : -1;
}

static int redirect(const char *path, int protocol)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int pair[2], fd;
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    fd = REAL(socket)(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (REAL(connect)(fd, (struct sockaddr *) &address, sizeof address)) {
        lost(); /* no driver */
    }
    if (fd >= MAX_FD || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
        REAL(close)(fd);
        return -1;
    }
    int failed = introduce(fd, pair[1], protocol);
    REAL(close)(pair[1]);
    if (failed) {
        lost();
    }
    sockets[fd].port = answer(pair[0]);
    atomic_store(&sockets[fd].dumping, 0);
    atomic_store(&sockets[fd].gate, pair[0]);
    return fd;
}

int socket(int domain, int type, int protocol)
{
    const char *path = getenv("HYPERV_SOCKET");
    if (domain == AF_NETLINK && path && (protocol == NETLINK_GENERIC || protocol == NETLINK_NETFILTER)) {
        return redirect(path, protocol);
    }
    return REAL(socket)(domain, type, protocol);
}

int close(int fd)
{
    struct redirected *s = lookup(fd);
    if (s) {
        REAL(close)(atomic_exchange(&s->gate, 0));
    }
    return REAL(close)(fd);
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    return lookup(fd) ? 0 : REAL(connect)(fd, address, length);
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
    return lookup(fd) ? 0 : REAL(bind)(fd, address, length);
}

int getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
    struct redirected *s = lookup(fd);
    if (!s) {
        return REAL(getsockname)(fd, address, length);
    }
    struct sockaddr_nl name = { .nl_family = AF_NETLINK, .nl_pid = s->port };
    memcpy(address, &name, *length < sizeof name ? *length : sizeof name);
    *length = sizeof name;
    return 0;
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
    struct redirected *s = lookup(fd);
    if (!s || level != SOL_NETLINK) {
        return REAL(setsockopt)(fd, level, option, value, length);
    }
    if (option == NETLINK_ADD_MEMBERSHIP || option == NETLINK_DROP_MEMBERSHIP) {
        struct order order = { option == NETLINK_ADD_MEMBERSHIP ? OP_JOIN : OP_LEAVE, *(const uint32_t *) value };
        if (REAL(send)(s->gate, &order, sizeof order, MSG_NOSIGNAL) != sizeof order || answer(s->gate) == ANSWER_LOST) {
            lost();
        }
    }
    return 0;
}

/* Waits until what was sent has been worked on. */
static ssize_t sent(struct redirected *s, ssize_t n)
{
    if (n < 0) {
        if (errno == EPIPE || errno == ECONNRESET) {
            lost();
        }
        return n;
    }
    if (answer(s->gate) == ANSWER_LOST) {
        lost();
    }
    return n;
}

/* Is to be known before the answer comes. */
static void starting(struct redirected *s, const struct nlmsghdr *first, size_t length)
{
    if (length >= sizeof *first && (first->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP) {
        atomic_store(&s->dumping, 1);
    }
}

ssize_t send(int fd, const void *data, size_t length, int flags)
{
    struct redirected *s = lookup(fd);
    if (!s) {
        return REAL(send)(fd, data, length, flags);
    }
    starting(s, data, length);
    return sent(s, REAL(send)(fd, data, length, MSG_NOSIGNAL));
}

/* The attribute of a kind among others, NULL where it is not there. */
static struct rtattr *attribute(struct rtattr *a, int length, unsigned short kind)
{
    for (; RTA_OK(a, length); a = RTA_NEXT(a, length)) {
        if ((a->rta_type & NLA_TYPE_MASK) == kind) {
            return a;
        }
    }
    return NULL;
}

/* Asks the kernel for a kind of device that it does not know, if that is to be a tunnel: it answers EOPNOTSUPP. */
static void hide_tunnels(struct nlmsghdr *message, size_t length)
{
    if (length < NLMSG_SPACE(sizeof(struct ifinfomsg)) || message->nlmsg_type != RTM_NEWLINK || message->nlmsg_len > length) {
        return;
    }
    struct rtattr *first = (struct rtattr *) ((char *) NLMSG_DATA(message) + NLMSG_ALIGN(sizeof(struct ifinfomsg)));
    struct rtattr *info = attribute(first, NLMSG_PAYLOAD(message, sizeof(struct ifinfomsg)), IFLA_LINKINFO);
    struct rtattr *kind = info ? attribute(RTA_DATA(info), RTA_PAYLOAD(info), IFLA_INFO_KIND) : NULL;
    if (kind && RTA_PAYLOAD(kind) >= sizeof "geneve" && !strcmp(RTA_DATA(kind), "geneve")) {
        memcpy(RTA_DATA(kind), "hidden", sizeof "hidden");
    }
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    struct redirected *s = lookup(fd);
    if (!s) {
        int domain = -1;
        socklen_t size = sizeof domain;
        if (getenv("HYPERV_SOCKET") && !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) && domain == AF_NETLINK) {
            for (size_t i = 0; i < msg->msg_iovlen; i++) { /* Open vSwitch has a message in each */
                hide_tunnels(msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len);
            }
        }
        return REAL(sendmsg)(fd, msg, flags);
    }
    starting(s, msg->msg_iov[0].iov_base, msg->msg_iov[0].iov_len);
    return sent(s, REAL(sendmsg)(fd, msg, MSG_NOSIGNAL));
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    struct redirected *s = lookup(fd);
    if (!s) {
        return REAL(recvmsg)(fd, msg, flags);
    }
    if (atomic_load(&s->dumping)) {
        flags &= ~MSG_DONTWAIT;
    }
    ssize_t n = REAL(recvmsg)(fd, msg, flags);
    if (n == 0 || (n < 0 && errno == ECONNRESET)) {
        lost();
    }
    if (n >= (ssize_t) sizeof(struct nlmsghdr)) {
        const struct nlmsghdr *first = msg->msg_iov[0].iov_base;
        if (first->nlmsg_type == NLMSG_DONE || first->nlmsg_type == NLMSG_ERROR) {
            atomic_store(&s->dumping, 0);
        }
    }
    return n;
}
