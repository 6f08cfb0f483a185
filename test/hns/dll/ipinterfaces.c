/* The IP settings of interfaces, their addresses and DNS. */
#include "iphlpapi.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void WINAPI host_InitializeIpInterfaceEntry(MIB_IPINTERFACE_ROW *row) { memset(row, 0, sizeof *row); }

static DWORD parse_interface(char *line, MIB_IPINTERFACE_ROW *row) {
    ULONG index, mtu, metric;
    int family, connected, automatic, forwarding, no_default;
    if (sscanf(line, "%lu %d %lu %d %lu %d %d %d", &index, &family, &mtu, &connected, &metric, &automatic, &forwarding, &no_default) != 8)
        return ERROR_INVALID_DATA;
    memset(row, 0, sizeof *row);
    row->Family = (ADDRESS_FAMILY)family;
    interface_luid(index, &row->InterfaceLuid);
    row->InterfaceIndex = index;
    row->NlMtu = mtu;
    row->Connected = connected != 0;
    row->Metric = metric;
    row->UseAutomaticMetric = automatic != 0;
    row->ForwardingEnabled = forwarding != 0;
    row->DisableDefaultRoutes = no_default != 0;
    row->SupportsNeighborDiscovery = TRUE;
    row->UseNeighborUnreachabilityDetection = TRUE;
    row->DadTransmits = family == AF_INET ? 3 : 1;
    row->RouterDiscoveryBehavior = family == AF_INET ? RouterDiscoveryDhcp : RouterDiscoveryEnabled;
    return 0;
}

DWORD WINAPI host_GetIpInterfaceTable(ADDRESS_FAMILY family, MIB_IPINTERFACE_TABLE **table) {
    char *answer;
    DWORD error = ask("ListIpInterfaceTable", &answer);
    if (error)
        return error;
    int lines = 0;
    for (char *c = answer; *c; c++)
        lines += *c == '\n';
    *table = new_table(lines, offsetof(MIB_IPINTERFACE_TABLE, Table), sizeof(MIB_IPINTERFACE_ROW));
    ULONG n = 0;
    for (char *rest = answer, *line; *table && (line = next_line(&rest));) {
        MIB_IPINTERFACE_ROW *row = &(*table)->Table[n];
        if (!parse_interface(line, row) && (family == AF_UNSPEC || family == row->Family))
            n++;
    }
    free(answer);
    if (!*table)
        return ERROR_OUTOFMEMORY;
    (*table)->NumEntries = n;
    return NO_ERROR;
}

/* An interface is found in its own compartment only. */
static DWORD check_compartment(ULONG index) {
    struct host_list list;
    DWORD error = list_interfaces(&list);
    if (error)
        return error;
    const struct host_interface *i = find_interface(&list, index);
    error = !i ? ERROR_FILE_NOT_FOUND : i->compartment != current_compartment() ? ERROR_NOT_FOUND : 0;
    free(list.items);
    return error;
}

DWORD WINAPI host_GetIpInterfaceEntry(MIB_IPINTERFACE_ROW *row) {
    ULONG index;
    if (row->Family != AF_INET && row->Family != AF_INET6)
        return ERROR_INVALID_PARAMETER;
    DWORD error = interface_index(&row->InterfaceLuid, row->InterfaceIndex, &index);
    if (!error)
        error = check_compartment(index);
    MIB_IPINTERFACE_TABLE *table;
    if (!error)
        error = host_GetIpInterfaceTable(row->Family, &table);
    if (error)
        return error;
    error = ERROR_NOT_FOUND;
    for (ULONG n = 0; n < table->NumEntries; n++)
        if (table->Table[n].InterfaceIndex == index) {
            *row = table->Table[n];
            error = NO_ERROR;
        }
    HeapFree(GetProcessHeap(), 0, table);
    return error;
}

DWORD WINAPI host_SetIpInterfaceEntry(MIB_IPINTERFACE_ROW *row) {
    ULONG index;
    /* Windows wants 0 here for IPv4: see the remarks on SetIpInterfaceEntry. */
    if ((row->Family != AF_INET && row->Family != AF_INET6) || (row->Family == AF_INET && row->SitePrefixLength > 32))
        return ERROR_INVALID_PARAMETER;
    DWORD error = interface_index(&row->InterfaceLuid, row->InterfaceIndex, &index);
    if (!error)
        error = check_compartment(index);
    if (error)
        return error;
    return call("SetIpInterfaceEntry", "%lu %d %lu %lu %d %d %d", index, row->Family, row->NlMtu, row->Metric, row->UseAutomaticMetric,
                row->ForwardingEnabled, row->DisableDefaultRoutes);
}

void WINAPI host_InitializeUnicastIpAddressEntry(MIB_UNICASTIPADDRESS_ROW *row) {
    memset(row, 0, sizeof *row);
    row->PrefixOrigin = IpPrefixOriginUnchanged;
    row->SuffixOrigin = IpSuffixOriginUnchanged;
    row->OnLinkPrefixLength = 255;
    row->PreferredLifetime = row->ValidLifetime = 0xffffffff;
    row->DadState = IpDadStateInvalid;
}

static DWORD change_address(const char *function, const MIB_UNICASTIPADDRESS_ROW *row) {
    ULONG index;
    char text[ADDRESS_SIZE];
    DWORD error = interface_index(&row->InterfaceLuid, row->InterfaceIndex, &index);
    if (!error)
        error = format_address(&row->Address, text);
    if (error)
        return error;
    int bits = row->Address.si_family == AF_INET6 ? 128 : 32;
    int length = row->OnLinkPrefixLength;
    if (length == 255) /* unchanged, or the whole address */
        length = bits;
    if (length > bits)
        return ERROR_INVALID_PARAMETER;
    return call(function, "%lu %s/%d", index, text, length);
}

DWORD WINAPI host_CreateUnicastIpAddressEntry(const MIB_UNICASTIPADDRESS_ROW *row) {
    return change_address("CreateUnicastIpAddressEntry", row);
}
DWORD WINAPI host_SetUnicastIpAddressEntry(const MIB_UNICASTIPADDRESS_ROW *row) {
    return change_address("SetUnicastIpAddressEntry", row);
}
DWORD WINAPI host_DeleteUnicastIpAddressEntry(const MIB_UNICASTIPADDRESS_ROW *row) {
    MIB_UNICASTIPADDRESS_ROW whole = *row;
    whole.OnLinkPrefixLength = 255; /* Windows ignores it */
    return change_address("DeleteUnicastIpAddressEntry", &whole);
}

/* DNS_INTERFACE_SETTINGS, first version, which mingw's headers may lack. */
struct dns_settings {
    ULONG version;
    ULONG64 flags;
    WCHAR *domain;
    WCHAR *name_server;
    WCHAR *search_list;
};
#define DNS_SETTING_IPV6 1

/* json_string writes a text that holds neither quotes nor backslashes: lists of addresses and names. */
static DWORD json_string(const WCHAR *wide, char *out, int size) {
    char *text = rpc_utf8(wide);
    DWORD error = !text ? ERROR_OUTOFMEMORY : strpbrk(text, "\"\\\n") || (int)strlen(text) >= size ? ERROR_INVALID_PARAMETER : 0;
    if (!error)
        strcpy(out, text);
    free(text);
    return error;
}

DWORD WINAPI host_SetInterfaceDnsSettings(GUID id, const struct dns_settings *settings) {
    char servers[1024], search[1024];
    NET_LUID luid;
    DWORD(WINAPI * to_luid)(const GUID *, NET_LUID *) = (void *)wine("ConvertInterfaceGuidToLuid");
    if (!to_luid)
        return ERROR_PROC_NOT_FOUND;
    DWORD error = to_luid(&id, &luid);
    if (!error)
        error = json_string(settings->name_server, servers, sizeof servers);
    if (!error)
        error = json_string(settings->search_list, search, sizeof search);
    if (error)
        return error;
    return call("SetInterfaceDnsSettings", "{\"Index\":%lu,\"Family\":%d,\"NameServers\":\"%s\",\"SearchList\":\"%s\"}",
                (ULONG)luid.Info.NetLuidIndex, settings->flags & DNS_SETTING_IPV6 ? AF_INET6 : AF_INET, servers, search);
}
