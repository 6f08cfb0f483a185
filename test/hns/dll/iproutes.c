/* Routes: Wine's table has no IPv6 and no metrics. */
#include "iphlpapi.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void WINAPI host_InitializeIpForwardEntry(MIB_IPFORWARD_ROW2 *row) {
    memset(row, 0, sizeof *row);
    row->ValidLifetime = row->PreferredLifetime = 0xffffffff;
    row->Metric = 0xffffffff;
    row->Protocol = MIB_IPPROTO_NETMGMT;
    row->AutoconfigureAddress = row->Publish = row->Immortal = TRUE;
}

static DWORD parse_route(char *line, MIB_IPFORWARD_ROW2 *row) {
    ULONG index, metric;
    char destination[ADDRESS_SIZE + 8], hop[ADDRESS_SIZE];
    memset(row, 0, sizeof *row);
    if (sscanf(line, "%lu %71s %63s %lu", &index, destination, hop, &metric) != 4)
        return ERROR_INVALID_DATA;
    DWORD error = parse_prefix(destination, &row->DestinationPrefix.Prefix, &row->DestinationPrefix.PrefixLength);
    if (!error)
        error = parse_address(hop, &row->NextHop);
    interface_luid(index, &row->InterfaceLuid);
    row->InterfaceIndex = index;
    row->Metric = metric;
    row->ValidLifetime = row->PreferredLifetime = 0xffffffff;
    row->Protocol = MIB_IPPROTO_NETMGMT;
    row->Immortal = TRUE;
    return error;
}

DWORD WINAPI host_GetIpForwardTable2(ADDRESS_FAMILY family, MIB_IPFORWARD_TABLE2 **table) {
    char *answer;
    DWORD error = ask("ListIpForwardTable", &answer);
    if (error)
        return error;
    int lines = 0;
    for (char *c = answer; *c; c++)
        lines += *c == '\n';
    *table = new_table(lines, offsetof(MIB_IPFORWARD_TABLE2, Table), sizeof(MIB_IPFORWARD_ROW2));
    ULONG n = 0;
    for (char *rest = answer, *line; *table && (line = next_line(&rest));) {
        MIB_IPFORWARD_ROW2 *row = &(*table)->Table[n];
        if (!parse_route(line, row) && (family == AF_UNSPEC || family == row->DestinationPrefix.Prefix.si_family))
            n++;
    }
    free(answer);
    if (!*table)
        return ERROR_OUTOFMEMORY;
    (*table)->NumEntries = n;
    return NO_ERROR;
}

static int same_address(const SOCKADDR_INET *a, const SOCKADDR_INET *b) {
    if (a->si_family != b->si_family)
        return 0;
    if (a->si_family == AF_INET6)
        return !memcmp(&a->Ipv6.sin6_addr, &b->Ipv6.sin6_addr, sizeof a->Ipv6.sin6_addr);
    return a->Ipv4.sin_addr.s_addr == b->Ipv4.sin_addr.s_addr;
}

DWORD WINAPI host_GetIpForwardEntry2(MIB_IPFORWARD_ROW2 *row) {
    ULONG index;
    MIB_IPFORWARD_TABLE2 *table;
    DWORD error = interface_index(&row->InterfaceLuid, row->InterfaceIndex, &index);
    if (!error)
        error = host_GetIpForwardTable2(AF_UNSPEC, &table);
    if (error)
        return error;
    error = ERROR_NOT_FOUND;
    for (ULONG n = 0; n < table->NumEntries && error; n++) {
        MIB_IPFORWARD_ROW2 *found = &table->Table[n];
        if (found->InterfaceIndex == index && found->DestinationPrefix.PrefixLength == row->DestinationPrefix.PrefixLength &&
            same_address(&found->DestinationPrefix.Prefix, &row->DestinationPrefix.Prefix) && same_address(&found->NextHop, &row->NextHop)) {
            *row = *found;
            error = NO_ERROR;
        }
    }
    HeapFree(GetProcessHeap(), 0, table);
    return error;
}

static DWORD change_route(const char *function, const MIB_IPFORWARD_ROW2 *row) {
    ULONG index;
    char destination[ADDRESS_SIZE], hop[ADDRESS_SIZE];
    DWORD error = interface_index(&row->InterfaceLuid, row->InterfaceIndex, &index);
    if (!error)
        error = format_address(&row->DestinationPrefix.Prefix, destination);
    if (!error)
        error = format_address(&row->NextHop, hop);
    if (error)
        return error;
    ULONG metric = row->Metric == 0xffffffff ? 0 : row->Metric;
    return call(function, "%lu %s/%u %s %lu", index, destination, row->DestinationPrefix.PrefixLength, hop, metric);
}

DWORD WINAPI host_CreateIpForwardEntry2(const MIB_IPFORWARD_ROW2 *row) { return change_route("CreateIpForwardEntry2", row); }
DWORD WINAPI host_SetIpForwardEntry2(const MIB_IPFORWARD_ROW2 *row) { return change_route("SetIpForwardEntry2", row); }
DWORD WINAPI host_DeleteIpForwardEntry2(const MIB_IPFORWARD_ROW2 *row) { return change_route("DeleteIpForwardEntry2", row); }
