/* Notifications: a thread a registration reads the emulator's lines, "add|delete KIND INDEX ...". */
#include "iphlpapi.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { UNICAST, ROUTE, INTERFACE };

struct registration {
    enum kind kind;
    ADDRESS_FAMILY family;
    void *callback;
    void *context;
    SOCKET connection;
    HANDLE thread;
};

static void tell_unicast(struct registration *r, char *line, ULONG index, MIB_NOTIFICATION_TYPE type) {
    MIB_UNICASTIPADDRESS_ROW row;
    char text[ADDRESS_SIZE + 8];
    memset(&row, 0, sizeof row);
    if (sscanf(line, "%71s", text) != 1 || parse_prefix(text, &row.Address, &row.OnLinkPrefixLength))
        return;
    if (r->family != AF_UNSPEC && r->family != row.Address.si_family)
        return;
    interface_luid(index, &row.InterfaceLuid);
    row.InterfaceIndex = index;
    ((PUNICAST_IPADDRESS_CHANGE_CALLBACK)r->callback)(r->context, &row, type);
}

static void tell_route(struct registration *r, char *line, ULONG index, MIB_NOTIFICATION_TYPE type) {
    MIB_IPFORWARD_ROW2 row;
    char destination[ADDRESS_SIZE + 8], hop[ADDRESS_SIZE];
    ULONG metric;
    memset(&row, 0, sizeof row);
    if (sscanf(line, "%71s %63s %lu", destination, hop, &metric) != 3 ||
        parse_prefix(destination, &row.DestinationPrefix.Prefix, &row.DestinationPrefix.PrefixLength))
        return;
    ADDRESS_FAMILY family = row.DestinationPrefix.Prefix.si_family;
    if (r->family != AF_UNSPEC && r->family != family)
        return;
    if (parse_address(hop, &row.NextHop))
        row.NextHop.si_family = family;
    interface_luid(index, &row.InterfaceLuid);
    row.InterfaceIndex = index;
    row.Metric = metric;
    ((PIPFORWARD_CHANGE_CALLBACK)r->callback)(r->context, &row, type);
}

static void tell_interface(struct registration *r, ULONG index, MIB_NOTIFICATION_TYPE type) {
    for (int n = 0; n < 2; n++) {
        MIB_IPINTERFACE_ROW row;
        memset(&row, 0, sizeof row);
        row.Family = n ? AF_INET6 : AF_INET;
        if (r->family != AF_UNSPEC && r->family != row.Family)
            continue;
        interface_luid(index, &row.InterfaceLuid);
        row.InterfaceIndex = index;
        ((PIPINTERFACE_CHANGE_CALLBACK)r->callback)(r->context, &row, type);
    }
}

static DWORD WINAPI listen_for_changes(void *argument) {
    struct registration *r = argument;
    char line[512], verb[16], kind[16];
    while (!rpc_line(r->connection, line, sizeof line)) {
        ULONG index;
        int rest = 0;
        if (sscanf(line, "%15s %15s %lu %n", verb, kind, &index, &rest) < 3)
            continue;
        MIB_NOTIFICATION_TYPE type = strcmp(verb, "delete") ? MibAddInstance : MibDeleteInstance;
        if (r->kind == UNICAST && !strcmp(kind, "unicast"))
            tell_unicast(r, line + rest, index, type);
        if (r->kind == ROUTE && !strcmp(kind, "route"))
            tell_route(r, line + rest, index, type);
        if (r->kind == INTERFACE && !strcmp(kind, "interface"))
            tell_interface(r, index, type == MibAddInstance ? MibParameterNotification : type);
    }
    return 0;
}

/* The initial notification of Windows has no row; what it tells is that the registration stands. */
static DWORD notify(enum kind kind, ADDRESS_FAMILY family, void *callback, void *context, HANDLE *handle) {
    char line[512];
    struct registration *r = calloc(1, sizeof *r);
    if (!r)
        return ERROR_OUTOFMEMORY;
    r->kind = kind;
    r->family = family;
    r->callback = callback;
    r->context = context;
    DWORD error = rpc_open("NotifyChanges", NULL, 0, "", &r->connection);
    if (error) {
        free(r);
        return error;
    }
    error = rpc_line(r->connection, line, sizeof line); /* "ready": nothing is missed from here on */
    if (!error) {
        r->thread = CreateThread(NULL, 0, listen_for_changes, r, 0, NULL);
        if (!r->thread)
            error = GetLastError();
    }
    if (error) {
        closesocket(r->connection);
        free(r);
        return error;
    }
    *handle = (HANDLE)r;
    return NO_ERROR;
}

DWORD WINAPI host_NotifyUnicastIpAddressChange(ADDRESS_FAMILY family, PUNICAST_IPADDRESS_CHANGE_CALLBACK callback, void *context,
                                               BOOLEAN initial, HANDLE *handle) {
    DWORD error = notify(UNICAST, family, (void *)callback, context, handle);
    if (!error && initial)
        callback(context, NULL, MibInitialNotification);
    return error;
}

DWORD WINAPI host_NotifyRouteChange2(ADDRESS_FAMILY family, PIPFORWARD_CHANGE_CALLBACK callback, void *context, BOOLEAN initial,
                                     HANDLE *handle) {
    DWORD error = notify(ROUTE, family, (void *)callback, context, handle);
    if (!error && initial)
        callback(context, NULL, MibInitialNotification);
    return error;
}

DWORD WINAPI host_NotifyIpInterfaceChange(ADDRESS_FAMILY family, PIPINTERFACE_CHANGE_CALLBACK callback, void *context, BOOLEAN initial,
                                          HANDLE *handle) {
    DWORD error = notify(INTERFACE, family, (void *)callback, context, handle);
    if (!error && initial)
        callback(context, NULL, MibInitialNotification);
    return error;
}

/* Windows waits for a callback that is under way, and so does this. */
DWORD WINAPI host_CancelMibChangeNotify2(HANDLE handle) {
    struct registration *r = (struct registration *)handle;
    if (!r)
        return ERROR_INVALID_PARAMETER;
    shutdown(r->connection, SD_BOTH);
    WaitForSingleObject(r->thread, INFINITE);
    CloseHandle(r->thread);
    closesocket(r->connection);
    free(r);
    return NO_ERROR;
}
