#include "iphlpapi.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static DWORD compartment_slot = TLS_OUT_OF_INDEXES;

BOOL WINAPI DllMain(HINSTANCE instance, DWORD reason, LPVOID reserved) {
    if (reason == DLL_PROCESS_ATTACH)
        compartment_slot = TlsAlloc();
    return TRUE;
}

ULONG current_compartment(void) {
    ULONG set = (ULONG)(ULONG_PTR)TlsGetValue(compartment_slot);
    return set ? set : HOST_COMPARTMENT;
}

DWORD WINAPI host_GetCurrentThreadCompartmentId(void) { return current_compartment(); }

DWORD WINAPI host_SetCurrentThreadCompartmentId(ULONG compartment) {
    TlsSetValue(compartment_slot, (void *)(ULONG_PTR)compartment);
    return NO_ERROR;
}

FARPROC wine(const char *function) {
    HMODULE module = LoadLibraryW(L"wineiphlp.dll");
    return module ? GetProcAddress(module, function) : NULL;
}

static DWORD status_of(DWORD failed, struct rpc_reply *reply) { return failed ? failed : reply->status; }

DWORD call(const char *function, const char *format, ...) {
    char body[4096];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(body, sizeof body, format, arguments);
    va_end(arguments);
    if (length < 0 || length >= (int)sizeof body)
        return ERROR_INVALID_PARAMETER;
    struct rpc_reply reply;
    DWORD status = status_of(rpc_call(function, NULL, 0, body, &reply), &reply);
    rpc_free(&reply);
    return status;
}

DWORD ask(const char *function, char **answer) {
    struct rpc_reply reply;
    *answer = NULL;
    DWORD status = status_of(rpc_call(function, NULL, 0, "", &reply), &reply);
    if (!status) {
        *answer = reply.out ? reply.out : calloc(1, 1);
        reply.out = NULL;
    }
    rpc_free(&reply);
    return status;
}

char *next_line(char **rest) {
    char *line = *rest, *end = strchr(line, '\n');
    if (!end)
        return NULL;
    *end = 0;
    *rest = end + 1;
    return line;
}

DWORD list_interfaces(struct host_list *list) {
    char *answer;
    list->count = 0;
    list->items = NULL;
    DWORD error = ask("ListInterfaces", &answer);
    if (error)
        return error;
    int lines = 0;
    for (char *c = answer; *c; c++)
        lines += *c == '\n';
    list->items = calloc(lines + 1, sizeof *list->items);
    for (char *rest = answer, *line; list->items && (line = next_line(&rest));) {
        struct host_interface *i = &list->items[list->count];
        int name = 0;
        char mac[13];
        if (sscanf(line, "%lu %d %lu %lu %d %12s %n", &i->index, &i->hardware, &i->compartment, &i->mtu, &i->connected, mac, &name) < 6 || !name)
            continue;
        for (unsigned byte; i->mac_length < 6 && sscanf(mac + 2 * i->mac_length, "%2x", &byte) == 1; i->mac_length++)
            i->mac[i->mac_length] = byte;
        MultiByteToWideChar(CP_UTF8, 0, line + name, -1, i->alias, IF_MAX_STRING_SIZE + 1);
        list->count++;
    }
    free(answer);
    return list->items ? 0 : ERROR_OUTOFMEMORY;
}

const struct host_interface *find_interface(const struct host_list *list, ULONG index) {
    for (int i = 0; i < list->count; i++)
        if (list->items[i].index == index)
            return &list->items[i];
    return NULL;
}

/* Wine's LUIDs have the interface's index in them, and its type: 24 is the loopback. */
DWORD interface_index(const NET_LUID *luid, ULONG index, ULONG *found) {
    *found = luid->Value ? (ULONG)luid->Info.NetLuidIndex : index;
    return *found ? 0 : ERROR_FILE_NOT_FOUND;
}

void interface_luid(ULONG index, NET_LUID *luid) {
    luid->Value = 0;
    luid->Info.NetLuidIndex = index;
    luid->Info.IfType = index == 1 ? IF_TYPE_SOFTWARE_LOOPBACK : IF_TYPE_ETHERNET_CSMACD;
}

DWORD format_address(const SOCKADDR_INET *address, char *text) {
    const void *bytes = address->si_family == AF_INET6 ? (const void *)&address->Ipv6.sin6_addr : (const void *)&address->Ipv4.sin_addr;
    if (address->si_family != AF_INET && address->si_family != AF_INET6)
        return ERROR_INVALID_PARAMETER;
    return inet_ntop(address->si_family, (void *)bytes, text, ADDRESS_SIZE) ? 0 : ERROR_INVALID_PARAMETER;
}

DWORD parse_address(const char *text, SOCKADDR_INET *address) {
    memset(address, 0, sizeof *address);
    address->si_family = strchr(text, ':') ? AF_INET6 : AF_INET;
    void *bytes = address->si_family == AF_INET6 ? (void *)&address->Ipv6.sin6_addr : (void *)&address->Ipv4.sin_addr;
    return inet_pton(address->si_family, text, bytes) == 1 ? 0 : ERROR_INVALID_DATA;
}

DWORD parse_prefix(char *text, SOCKADDR_INET *address, UINT8 *length) {
    char *slash = strchr(text, '/');
    if (!slash)
        return ERROR_INVALID_DATA;
    *slash = 0;
    *length = (UINT8)atoi(slash + 1);
    return parse_address(text, address);
}

void *new_table(ULONG rows, size_t offset, size_t row) {
    void *table = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, offset + (rows ? rows : 1) * row);
    if (table)
        *(ULONG *)table = rows;
    return table;
}
