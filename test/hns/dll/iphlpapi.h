/* iphlpapi.dll: what Wine's lacks is done by the emulator, with netlink in the host's namespace; the
 * rest goes to a copy of Wine's, wineiphlp.dll. The functions are exported by iphlpapi.def under the
 * names after host_. */
#ifndef HNS_IPHLPAPI_H
#define HNS_IPHLPAPI_H
#include "rpc.h"
#include <iphlpapi.h>
#include <netioapi.h>

#define HOST_COMPARTMENT 1

/* An interface as the emulator lists it: Wine's list keeps those that are gone, and the MAC that one had at first, and knows
 * no compartments. */
struct host_interface {
    ULONG index;
    int hardware;
    ULONG compartment;
    ULONG mtu;
    int connected;
    BYTE mac[6];
    int mac_length;
    WCHAR alias[IF_MAX_STRING_SIZE + 1];
};

struct host_list {
    int count;
    struct host_interface *items;
};

/* list_interfaces returns 0 or a Win32 error; free(list->items). */
DWORD list_interfaces(struct host_list *list);
const struct host_interface *find_interface(const struct host_list *list, ULONG index);

/* wine returns the function of that name in Wine's own DLL. */
FARPROC wine(const char *function);

/* call does what needs no answer but a status. */
DWORD call(const char *function, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* ask is call with an answer to be freed. */
DWORD ask(const char *function, char **answer);
/* next_line cuts a line off *rest, or returns NULL. */
char *next_line(char **rest);

ULONG current_compartment(void);

/* Interfaces are told by LUID, or by index where that is 0, as on Windows. */
DWORD interface_index(const NET_LUID *luid, ULONG index, ULONG *found);
void interface_luid(ULONG index, NET_LUID *luid);

/* Addresses are text on the wire. */
#define ADDRESS_SIZE 64
DWORD format_address(const SOCKADDR_INET *address, char *text);
DWORD parse_address(const char *text, SOCKADDR_INET *address);
DWORD parse_prefix(char *text, SOCKADDR_INET *address, UINT8 *length);

/* table allocates what FreeMibTable frees: a count and so many rows. */
void *new_table(ULONG rows, size_t offset, size_t row);

#endif
