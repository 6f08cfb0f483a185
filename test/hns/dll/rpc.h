/* The wire to the HNS emulator, over TCP to $HNSEMU_ADDR (HOST:PORT, IPv4). A connection is a call:
 *
 *   -> FUNCTION GUID|- HANDLE-HEX LENGTH \n  and LENGTH bytes of UTF-8
 *   <- STATUS-HEX HANDLE-HEX OUT|-1 ERROR|-1 \n  and that many bytes of output and of error, UTF-8
 *
 * STATUS is the value that the Windows function returns: an HRESULT, or a Win32 error for iphlpapi. */
#ifndef HNS_RPC_H
#define HNS_RPC_H
#define WIN32_LEAN_AND_MEAN
#include <winsock2.h>
#include <ws2tcpip.h>
#include <windows.h>

#define RPC_DEFAULT_ADDRESS "127.0.0.1:19798"

struct rpc_reply {
    DWORD status;
    UINT64 handle;
    char *out;   /* NULL, or terminated: rpc_free */
    char *error; /* likewise */
};

/* rpc_call returns 0, or the Win32 error of a call that did not come through. */
DWORD rpc_call(const char *function, const GUID *id, UINT64 handle, const char *body, struct rpc_reply *reply);
void rpc_free(struct rpc_reply *reply);

/* rpc_open sends a call and leaves its reply to be read line by line: 0 or a Win32 error. */
DWORD rpc_open(const char *function, const GUID *id, UINT64 handle, const char *body, SOCKET *connection);
/* rpc_line reads up to a newline, which it removes: 0 or a Win32 error. */
DWORD rpc_line(SOCKET connection, char *line, int size);

char *rpc_utf8(const WCHAR *wide); /* free() it; NULL gives "" */

#endif
